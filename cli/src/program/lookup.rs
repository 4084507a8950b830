//! Finds a program by execvp's search, so that the file can be inspected before it is executed.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::{EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND};

/// Folders that execvp searches if PATH is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Error for a program that cannot be started.
#[derive(Debug, PartialEq, Eq)]
pub enum LookupError {
    /// The file does not exist, in PATH or at the given path.
    NotFound(OsString),
    /// The user may not execute the file.
    NotExecutable(PathBuf),
    /// The path is a folder.
    Folder(PathBuf),
}

impl LookupError {
    /// Returns the exit status that a shell would give.
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

/// Returns the file that execvp would execute for `name`. The path always contains a slash.
///
/// # Errors
/// Like execvp: a file without permission is skipped, and is the error if the search finds no other file.
pub fn find(name: &OsStr) -> Result<PathBuf, LookupError> {
    if has_slash(name) {
        return candidate(name, PathBuf::from(name));
    }
    let path = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let mut refused = None;
    for folder in path.as_bytes().split(|&byte| byte == b':') {
        // An empty entry means the current folder.
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
    // With an empty name, the path would be the folder itself.
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
