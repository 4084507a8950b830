//! Streams of libc's over SOCK_VIA sockets. libc's own are tables of functions that call the kernel, so these are such as
//! `fopencookie` makes: they call the functions here, and the cookie is the descriptor.

use crate::descriptor::sov_close;
use crate::transfer::{sov_read, sov_write};
use crate::{is_preloaded, kind};
use libc::{FILE, c_char, c_int, c_void, off64_t, size_t, ssize_t};
use sovia_calls::set_errno;

/// `cookie_io_functions_t`.
#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
}

/// Where a `FILE` has its `_fileno`: `bits/types/struct_FILE.h` shows it to programs, so it stays there.
const FILENO: usize = 112;
/// What it is in a stream of `fopencookie`'s.
const NO_FILE: c_int = -2;

fn descriptor(cookie: *mut c_void) -> c_int {
    cookie.addr() as c_int
}

unsafe extern "C" fn read(cookie: *mut c_void, buffer: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: libc's buffer has room for that.
    unsafe { sov_read(descriptor(cookie), buffer.cast(), len) }
}

/// Writes all, as libc's own streams do, unless there is an error.
unsafe extern "C" fn write(cookie: *mut c_void, buffer: *const c_char, len: size_t) -> ssize_t {
    let mut done = 0;
    while done < len {
        // SAFETY: the rest of libc's buffer.
        match unsafe { sov_write(descriptor(cookie), buffer.add(done).cast(), len - done) } {
            count @ 1.. => done += count.cast_unsigned(),
            // libc takes it for an error that less is written than was asked for.
            _ => break,
        }
    }
    done.cast_signed()
}

/// By this errno libc knows what has no position.
unsafe extern "C" fn seek(_: *mut c_void, _: *mut off64_t, _: c_int) -> c_int {
    set_errno(libc::ESPIPE);
    -1
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    sov_close(descriptor(cookie))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sov_fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: the caller vouches for the mode; the functions take what libc gives them.
    let file = unsafe {
        if is_preloaded() || !kind::is_via(fd) {
            return libc::fdopen(fd, mode);
        }
        let cookie = core::ptr::without_provenance_mut(fd.unsigned_abs() as usize);
        fopencookie(cookie, mode, Functions { read, write, seek, close })
    };
    if !file.is_null() {
        // SAFETY: a field of a fresh stream, which no other thread has yet. `fileno` reads it.
        unsafe {
            let place = file.byte_add(FILENO).cast::<c_int>();
            if *place == NO_FILE {
                *place = fd;
            }
        }
    }
    file
}
