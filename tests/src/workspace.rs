//! Paths of the program under test and of scratch space.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// Returns the crate's own folder.
pub(crate) fn tests_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the `sovia` program under test: `SOVIA_BIN`, or the workspace's release build.
///
/// # Panics
/// If it has not been built.
pub fn sovia() -> PathBuf {
    let path = env::var_os("SOVIA_BIN").map_or_else(
        || tests_dir().parent().expect("the workspace").join("target/release/sovia"),
        PathBuf::from,
    );
    assert!(
        path.exists(),
        "{} is missing: build it (cargo build --release), name one in SOVIA_BIN, \
         or set SOVIA_TESTS_STACK=kernel to run the scenarios without it",
        path.display()
    );
    path
}

/// Returns the `libsovia.so` under test: `SOVIA_LIB`, or the workspace's release build.
///
/// # Panics
/// If it has not been built.
pub fn libsovia() -> PathBuf {
    let path = env::var_os("SOVIA_LIB").map_or_else(
        || tests_dir().parent().expect("the workspace").join("target/release/libsovia.so"),
        PathBuf::from,
    );
    assert!(path.exists(), "{} is missing: `make build`", path.display());
    path
}

/// Returns the folder of `libsovia-fi.so` under test: `SOVIA_FI`, or the workspace's release build.
///
/// # Panics
/// If it has not been built.
pub fn fi_providers() -> PathBuf {
    let path = env::var_os("SOVIA_FI").map_or_else(
        || tests_dir().parent().expect("the workspace").join("target/release/fi"),
        PathBuf::from,
    );
    assert!(path.join("libsovia-fi.so").exists(), "{} is missing: `make build`", path.display());
    path
}

/// Returns true if all ends run over the kernel, to test the scenarios themselves.
pub(crate) fn kernel_only() -> bool {
    env::var("SOVIA_TESTS_STACK").is_ok_and(|stack| stack == "kernel")
}

/// Returns the folder of built programs: beside the test's own executable.
pub(crate) fn build_dir() -> PathBuf {
    let own = env::current_exe().expect("a running program has a path");
    own.parent().expect("programs lie in a folder").join("sovia-tests-apps")
}

/// A folder that is removed with its value.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Makes a new folder.
    ///
    /// # Panics
    /// If the system has no room for it.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("sovia-tests-{}-{number}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Self(path),
                // The folder is of a killed test whose process id is in use again.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => panic!("{}: {e}", path.display()),
            }
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Default for TempDir {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // A folder that cannot be removed does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns true if every user can read a file: all folders of its path must be open to all.
pub fn all_may_read(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let open = |path: &Path, bit| {
        fs::metadata(path).is_ok_and(|data| data.permissions().mode() & bit != 0)
    };
    open(file, 0o4) && file.ancestors().skip(1).all(|folder| open(folder, 0o1))
}
