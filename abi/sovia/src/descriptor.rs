//! Duplicates, closes and configures descriptors.

use crate::{is_preloaded, kind};
use libc::{c_int, c_ulong};
use sovia_calls::descriptors as calls;

natives! {
    fn sov_ioctl = libc::ioctl, calls::ioctl,
        (fd: c_int, request: c_ulong, argument: usize) -> c_int;
}

#[unsafe(no_mangle)]
pub extern "C" fn sov_close(fd: c_int) -> c_int {
    kind::set(fd, false);
    // SAFETY: takes a number only.
    unsafe {
        if is_preloaded() {
            return libc::close(fd);
        }
        calls::close(|fd| libc::close(fd), fd)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn sov_dup(fd: c_int) -> c_int {
    // SAFETY: takes a number only.
    let new =
        unsafe { if is_preloaded() { libc::dup(fd) } else { calls::dup(|fd| libc::dup(fd), fd) } };
    copied(fd, new)
}

#[unsafe(no_mangle)]
pub extern "C" fn sov_dup2(fd: c_int, to: c_int) -> c_int {
    // SAFETY: takes numbers only.
    let new = unsafe {
        if is_preloaded() {
            libc::dup2(fd, to)
        } else {
            calls::dup2(|fd, to| libc::dup2(fd, to), fd, to)
        }
    };
    copied(fd, new)
}

#[unsafe(no_mangle)]
pub extern "C" fn sov_dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: takes numbers only.
    let new = unsafe {
        if is_preloaded() {
            libc::dup3(fd, to, flags)
        } else {
            calls::dup3(|fd, to, flags| libc::dup3(fd, to, flags), fd, to, flags)
        }
    };
    copied(fd, new)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sov_fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the C caller passes the argument that fcntl(2) requires for `command`.
    let result = unsafe {
        let real = |fd, command, argument: usize| libc::fcntl(fd, command, argument);
        if is_preloaded() {
            real(fd, command, argument)
        } else {
            calls::fcntl(real, fd, command, argument)
        }
    };
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => copied(fd, result),
        _ => result,
    }
}

fn copied(fd: c_int, new: c_int) -> c_int {
    if new >= 0 && new != fd {
        kind::copy(fd, new);
    }
    new
}
