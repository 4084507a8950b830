//! Where a program is: the search of execvp, done ahead so that the file can be looked at.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::{EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND};

/// What execvp searches where PATH is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A program that cannot be started.
#[derive(Debug, PartialEq, Eq)]
pub enum LookupError {
    /// No such file, in PATH or where the path says.
    NotFound(OsString),
    /// A file that this user may not execute.
    NotExecutable(PathBuf),
    /// A folder.
    Folder(PathBuf),
}

impl LookupError {
    /// The exit status of a shell in the same place.
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::NotFound(_) => EXIT_NOT_FOUND,
            Self::NotExecutable(_) | Self::Folder(_) => EXIT_NOT_EXECUTABLE,
        }
    }
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(name) if has_slash(name) => {
                write!(f, "cannot run {}: no such file", name.to_string_lossy())
            }
            Self::NotFound(name) => {
                write!(f, "cannot run {}: not found in PATH", name.to_string_lossy())
            }
            Self::NotExecutable(path) => write!(f, "cannot run {}: not executable", path.display()),
            Self::Folder(path) => write!(f, "cannot run {}: is a folder", path.display()),
        }
    }
}

impl std::error::Error for LookupError {}

/// The file that execvp would execute for `name`. The path always has a slash in it.
///
/// # Errors
/// As execvp: a file without permission is passed over, and is the error if no other is found.
pub fn find(name: &OsStr) -> Result<PathBuf, LookupError> {
    if has_slash(name) {
        return candidate(name, PathBuf::from(name));
    }
    let path = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let mut refused = None;
    for folder in path.as_bytes().split(|&byte| byte == b':') {
        // An empty entry is the current folder.
        let folder = if folder.is_empty() { b"." } else { folder };
        match candidate(name, Path::new(OsStr::from_bytes(folder)).join(name)) {
            Ok(path) => return Ok(path),
            Err(LookupError::NotFound(_)) => {}
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or(LookupError::NotFound(name.to_owned())))
}

fn candidate(name: &OsStr, path: PathBuf) -> Result<PathBuf, LookupError> {
    // An empty name would make a path of the folder alone.
    if name.is_empty() {
        return Err(LookupError::NotFound(name.to_owned()));
    }
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Err(LookupError::Folder(path)),
        Ok(_) if access(&path, AccessFlags::X_OK).is_ok() => Ok(path),
        Ok(_) => Err(LookupError::NotExecutable(path)),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(LookupError::NotExecutable(path))
        }
        Err(_) => Err(LookupError::NotFound(name.to_owned())),
    }
}

fn has_slash(name: &OsStr) -> bool {
    name.as_bytes().contains(&b'/')
}
