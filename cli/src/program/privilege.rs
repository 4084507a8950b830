//! Executables that gain rights when they start. The dynamic linker loads no library into them.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{getgid, getuid};

/// Returns the mark that would give the program at `path` rights that its user does not have, if there is one.
pub(super) fn gained(path: &Path) -> Option<&'static str> {
    let metadata = path.metadata().ok()?;
    let mode = metadata.mode();
    let gain = if mode & libc::S_ISUID != 0 && metadata.uid() != getuid().as_raw() {
        "setuid"
    } else if mode & libc::S_ISGID != 0
        && mode & libc::S_IXGRP != 0
        && metadata.gid() != getgid().as_raw()
    {
        "setgid"
    } else if !getuid().is_root() && has_capabilities(path) {
        "privileged (it has file capabilities)"
    } else {
        return None;
    };
    (!gains_are_off(path)).then_some(gain)
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both strings end in NUL. With a null buffer of size 0, getxattr only returns the length.
    let len = unsafe {
        libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0)
    };
    len > 0
}

/// Returns true if the kernel ignores such marks for this process or file system.
fn gains_are_off(path: &Path) -> bool {
    nix::sys::prctl::get_no_new_privs().unwrap_or(false)
        || statvfs(path).is_ok_and(|fs| fs.flags().contains(FsFlags::ST_NOSUID))
}
