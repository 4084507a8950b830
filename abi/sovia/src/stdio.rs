//! libc's streams (`FILE`) over SOCK_VIA sockets.
//!
//! libc's own streams call the kernel through a table of functions. So the streams here come from `fopencookie`. They
//! call the functions of this module, and the cookie is the descriptor.

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

/// Offset of `_fileno` in a `FILE`. `bits/types/struct_FILE.h` shows the field to programs, so its offset cannot
/// change.
const FILENO: usize = 112;
/// Value of `_fileno` in a stream that `fopencookie` has made.
const NO_FILE: c_int = -2;

fn descriptor(cookie: *mut c_void) -> c_int {
    cookie.addr() as c_int
}

unsafe extern "C" fn read(cookie: *mut c_void, buffer: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: libc passes a buffer with room for `len` bytes.
    unsafe { sov_read(descriptor(cookie), buffer.cast(), len) }
}

/// Writes all bytes, like libc's own streams, unless there is an error.
unsafe extern "C" fn write(cookie: *mut c_void, buffer: *const c_char, len: size_t) -> ssize_t {
    let mut done = 0;
    while done < len {
        // SAFETY: the pointer and the length describe the unwritten rest of libc's buffer.
        match unsafe { sov_write(descriptor(cookie), buffer.add(done).cast(), len - done) } {
            count @ 1.. => done += count.cast_unsigned(),
            // libc treats a short write as an error.
            _ => break,
        }
    }
    done.cast_signed()
}

/// Fails with ESPIPE, by which libc recognizes a stream without a position.
unsafe extern "C" fn seek(_: *mut c_void, _: *mut off64_t, _: c_int) -> c_int {
    set_errno(libc::ESPIPE);
    -1
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    sov_close(descriptor(cookie))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sov_fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: the C caller passes a mode that is a C string. libc calls the functions with its own buffers and this
    // cookie.
    let file = unsafe {
        if is_preloaded() || !kind::is_via(fd) {
            return libc::fdopen(fd, mode);
        }
        let cookie = core::ptr::without_provenance_mut(fd.unsigned_abs() as usize);
        fopencookie(cookie, mode, Functions { read, write, seek, close })
    };
    if !file.is_null() {
        // SAFETY: `FILENO` is the offset of an `int` in a `FILE`, and no other thread has this new stream yet. `fileno`
        // reads this field.
        unsafe {
            let place = file.byte_add(FILENO).cast::<c_int>();
            if *place == NO_FILE {
                *place = fd;
            }
        }
    }
    file
}
