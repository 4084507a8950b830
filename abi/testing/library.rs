//! The library under test, as its C programs find it. Part of the test programs of each C interface,
//! which say in `LIBRARY`, `ARCHIVE` and `VARIABLE` what it is called.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs};

use super::{ARCHIVE, LIBRARY, VARIABLE, folder, release};

/// Returns a copy of the library that [`VARIABLE`] names, or of the one that `make build` has made.
pub(crate) fn library() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let name = format!("{LIBRARY}.so");
        let place = folder().join(&name);
        let made = made(&name);
        fs::copy(&made, &place)
            .unwrap_or_else(|e| panic!("{}: {e}; build it with `make build`", made.display()));
        // By its soname, as an installed one is found.
        let soname = folder().join(format!("{name}.1"));
        let _ = fs::remove_file(&soname);
        std::os::unix::fs::symlink(name, soname).expect("a link to the library");
        place
    })
}

/// Returns the archive that was built with the library.
pub(crate) fn archive() -> PathBuf {
    made("").with_file_name(format!("{ARCHIVE}.a"))
}

/// Returns the path that [`VARIABLE`] has, or else that of a file of `make build`'s.
fn made(name: &str) -> PathBuf {
    env::var_os(VARIABLE).map_or_else(|| release().join(name), PathBuf::from)
}
