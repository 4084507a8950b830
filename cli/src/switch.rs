//! The files by which `sovia off` keeps connections on TCP.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sovia_control::env;

/// Returns the path of the file for all users.
pub fn of_all() -> &'static Path {
    Path::new(OsStr::from_bytes(env::OFF.to_bytes()))
}

/// Returns the path of the file for one user.
pub fn of_user(uid: u32) -> PathBuf {
    Path::new(OsStr::from_bytes(env::off_of(uid).to_bytes())).to_owned()
}

/// Returns the file that keeps connections of a user's process on TCP, if there is one below the root directory `root`.
pub fn in_force(root: &Path, uid: u32) -> Option<PathBuf> {
    let is_there =
        |path: &PathBuf| path.strip_prefix("/").is_ok_and(|below| root.join(below).exists());
    [of_all().to_owned(), of_user(uid)].into_iter().find(is_there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_of_one_user_is_in_force_for_that_user_alone() {
        let root = std::env::temp_dir().join(format!("sovia-switch-{}", std::process::id()));
        let file = root.join("run/user/1000/sovia-off");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        assert_eq!(in_force(&root, 1000), None);
        fs::write(&file, "").unwrap();
        assert_eq!(in_force(&root, 1000), Some(of_user(1000)));
        assert_eq!(in_force(&root, 1001), None);
        fs::create_dir_all(root.join("run/sovia")).unwrap();
        fs::write(root.join("run/sovia/off"), "").unwrap();
        assert_eq!(in_force(&root, 1001).as_deref(), Some(of_all()));
        fs::remove_dir_all(root).unwrap();
    }
}
