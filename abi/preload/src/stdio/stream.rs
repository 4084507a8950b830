//! Functions by which libc's streams read, write and close. They replace libc's own functions in libc's tables.

use super::jump_tables;
use libc::{FILE, c_char, c_int, c_void};
use sovia_sockets::table::{self, Entry};

/// Public part of a libc stream (glibc's bits/types/struct_FILE.h).
#[repr(C)]
struct Stream {
    flags: c_int,
    pointers: [*mut c_char; 13],
    fileno: c_int,
    flags2: c_int,
    old_offset: isize,
    column: u32,
    lock: *mut c_void,
    offset: i64,
}

const _: () = assert!(core::mem::offset_of!(Stream, fileno) == 112);
const _: () = assert!(core::mem::offset_of!(Stream, lock) == 136);
const _: () = assert!(core::mem::offset_of!(Stream, offset) == 144);

/// Flag of a stream with an error (`_IO_ERR_SEEN` in glibc's bits/types/struct_FILE.h).
const ERROR: c_int = 0x20;

/// Returns true if a stream must call the hooks for the descriptor `fd`.
pub(super) fn is_ours(fd: c_int) -> bool {
    !matches!(table::get(fd), Entry::Foreign) || table::is_noted_tcp(fd)
}

/// Returns the stream's descriptor, if the stream must call the hooks for it.
///
/// # Safety
/// The stream must be open.
unsafe fn ours(file: *mut FILE) -> Option<c_int> {
    // SAFETY: the caller guarantees that the stream is open.
    let fd = unsafe { (*file.cast::<Stream>()).fileno };
    is_ours(fd).then_some(fd)
}

/// # Safety
/// Same as libc's function `_IO_file_read`.
pub(super) unsafe extern "C" fn read(file: *mut FILE, to: *mut c_void, len: isize) -> isize {
    // SAFETY: libc passes an open stream, and a buffer of `len` bytes.
    unsafe {
        match ours(file) {
            Some(fd) => crate::receive::read(fd, to, len as usize),
            None => jump_tables::libcs_read()(file, to, len),
        }
    }
}

/// Writes all bytes, unless there is an error. Returns the number of bytes written.
///
/// # Safety
/// Same as libc's function `_IO_file_write`.
pub(super) unsafe extern "C" fn write(file: *mut FILE, from: *const c_void, len: isize) -> isize {
    // SAFETY: libc passes an open stream, and a buffer of `len` bytes.
    unsafe {
        let Some(fd) = ours(file) else { return jump_tables::libcs_write()(file, from, len) };
        let done = write_all(fd, from.cast(), len as usize);
        let stream = file.cast::<Stream>();
        if done < len as usize {
            (*stream).flags |= ERROR;
        }
        if (*stream).offset >= 0 {
            (*stream).offset += done as i64;
        }
        done as isize
    }
}

/// # Safety
/// Same as libc's function `_IO_file_close`.
pub(super) unsafe extern "C" fn close(file: *mut FILE) -> c_int {
    // SAFETY: libc passes an open stream.
    unsafe {
        match ours(file) {
            Some(fd) => crate::descriptors::close(fd),
            None => jump_tables::libcs_close()(file),
        }
    }
}

/// Writes all bytes, unless there is an error. Returns the number of bytes written.
///
/// # Safety
/// `from` must come from the program, and have `len` bytes.
pub(super) unsafe fn write_all(fd: c_int, from: *const c_char, len: usize) -> usize {
    let mut done = 0;
    while done < len {
        // SAFETY: the caller guarantees `len` bytes at `from`, and `done` is less than `len`.
        let n = unsafe { crate::send::write(fd, from.add(done).cast(), len - done) };
        if n < 0 {
            break;
        }
        done += n as usize;
    }
    done
}
