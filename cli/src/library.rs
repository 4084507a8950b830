//! Finds the library to inject and the other programs of Sovia, and builds the value of LD_PRELOAD.

use std::env;
use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use sovia_control::env::PRELOAD;

const FILE_NAME: &str = "libsovia_preload.so";

/// Returns the library's absolute path. It comes from the environment, or the library is beside this executable (as
/// built), or in `../lib/sovia` (as installed).
///
/// # Errors
/// An error if the library is in none of these places.
pub fn find() -> anyhow::Result<PathBuf> {
    if let Some(given) = env::var_os(PRELOAD).filter(|given| !given.is_empty()) {
        // The path must be absolute, because the program may change its folder before it starts other programs.
        return std::fs::canonicalize(&given).with_context(|| {
            format!("cannot find the library {} that {PRELOAD} names", given.to_string_lossy())
        });
    }
    let folder = own_folder()?;
    let places = [folder.join(FILE_NAME), folder.join("../lib/sovia").join(FILE_NAME)];
    match places.iter().find_map(|place| std::fs::canonicalize(place).ok()) {
        Some(found) => Ok(found),
        None => bail!(
            "cannot find {FILE_NAME} in {} or in {}; run `make build`, or set {PRELOAD} to the library's path",
            folder.display(),
            folder.join("../lib/sovia").display(),
        ),
    }
}

/// Returns the absolute path of another program of Sovia, which must be in the folder of this program.
///
/// # Errors
/// An error if the program is not there.
pub fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let folder = own_folder()?;
    std::fs::canonicalize(folder.join(name)).with_context(|| {
        format!("cannot find {name} in {} (`make build` builds {name})", folder.display())
    })
}

/// Returns the folder of this program.
fn own_folder() -> anyhow::Result<PathBuf> {
    let executable = env::current_exe().or_else(|error| executed().ok_or(error));
    let executable = executable.context("cannot find the folder that has the `sovia` command")?;
    Ok(executable.parent().unwrap_or(Path::new("/")).to_owned())
}

/// Returns the path by which this program was executed. Unlike /proc/self/exe, getauxval(3) also works without /proc.
fn executed() -> Option<PathBuf> {
    // SAFETY: getauxval only reads a word that the kernel stored for this process.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
    // SAFETY: for AT_EXECFN the kernel stored a pointer to a string that exists until the process ends.
    let path = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })?;
    std::fs::canonicalize(OsStr::from_bytes(path.to_bytes())).ok()
}

/// Returns LD_PRELOAD's value with `library` before the present entries.
///
/// # Errors
/// An error if the path has a character that is special to the dynamic linker.
pub fn preload_value(library: &Path, present: Option<OsString>) -> anyhow::Result<OsString> {
    let bytes = library.as_os_str().as_bytes();
    if bytes.iter().any(|byte| b" :$".contains(byte)) {
        bail!(
            "cannot preload {}: LD_PRELOAD takes no path with a space, `:` or `$`; move the library elsewhere",
            library.display()
        );
    }
    let present = present.unwrap_or_default();
    // This is the case of `sovia run` within `sovia run`.
    if split(&present).any(|entry| entry == bytes) {
        return Ok(present);
    }
    let mut value = bytes.to_vec();
    if !present.is_empty() {
        value.push(b':');
        value.extend_from_slice(present.as_bytes());
    }
    Ok(OsString::from_vec(value))
}

fn split(value: &OsStr) -> impl Iterator<Item = &[u8]> {
    value.as_bytes().split(|byte| b" :".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(library: &str, present: Option<&str>) -> anyhow::Result<String> {
        Ok(preload_value(library.as_ref(), present.map(OsString::from))?.into_string().unwrap())
    }

    #[test]
    fn what_is_there_stays() {
        assert_eq!(value("/l/s.so", None).unwrap(), "/l/s.so");
        assert_eq!(value("/l/s.so", Some("")).unwrap(), "/l/s.so");
        assert_eq!(value("/l/s.so", Some("a.so b.so")).unwrap(), "/l/s.so:a.so b.so");
    }

    #[test]
    fn once_is_enough() {
        assert_eq!(value("/l/s.so", Some("a.so:/l/s.so")).unwrap(), "a.so:/l/s.so");
    }

    #[test]
    fn a_path_that_would_be_split_is_refused() {
        for path in ["/my lib/s.so", "/a:b/s.so", "/$LIB/s.so"] {
            assert!(value(path, None).unwrap_err().to_string().contains(path));
        }
    }
}
