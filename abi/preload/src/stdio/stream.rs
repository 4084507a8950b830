//! How libc's streams read, write and close: in libc's tables these stand for libc's own functions.

use super::jump_tables;
use libc::{FILE, c_char, c_int, c_void};
use sovia_sockets::table::{self, Entry};

/// What programs can look at of a stream (glibc's bits/types/struct_FILE.h).
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

/// `_IO_ERR_SEEN` of the same header.
const ERROR: c_int = 0x20;

/// Whether the hooks have something to do with a descriptor.
pub(super) fn is_ours(fd: c_int) -> bool {
    !matches!(table::get(fd), Entry::Foreign) || table::is_noted_tcp(fd)
}

/// The stream's descriptor, if the hooks have something to do with it.
///
/// # Safety
/// The stream is open.
unsafe fn ours(file: *mut FILE) -> Option<c_int> {
    // SAFETY: the caller's word.
    let fd = unsafe { (*file.cast::<Stream>()).fileno };
    is_ours(fd).then_some(fd)
}

/// # Safety
/// As libc's own function of the table is called.
pub(super) unsafe extern "C" fn read(file: *mut FILE, to: *mut c_void, len: isize) -> isize {
    // SAFETY: the caller's stream and buffer.
    unsafe {
        match ours(file) {
            Some(fd) => crate::receive::read(fd, to, len as usize),
            None => jump_tables::libcs_read()(file, to, len),
        }
    }
}

/// Writes all, unless there is an error. Returns how many bytes have been written.
///
/// # Safety
/// As libc's own function of the table is called.
pub(super) unsafe extern "C" fn write(file: *mut FILE, from: *const c_void, len: isize) -> isize {
    // SAFETY: the caller's stream and buffer.
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
/// As libc's own function of the table is called.
pub(super) unsafe extern "C" fn close(file: *mut FILE) -> c_int {
    // SAFETY: the caller's stream.
    unsafe {
        match ours(file) {
            Some(fd) => crate::descriptors::close(fd),
            None => jump_tables::libcs_close()(file),
        }
    }
}

/// Writes until there is an error. Returns how many bytes have been written.
///
/// # Safety
/// `from` is what a program has passed, with that many bytes.
pub(super) unsafe fn write_all(fd: c_int, from: *const c_char, len: usize) -> usize {
    let mut done = 0;
    while done < len {
        // SAFETY: the caller's bytes, behind what has been written.
        let n = unsafe { crate::send::write(fd, from.add(done).cast(), len - done) };
        if n < 0 {
            break;
        }
        done += n as usize;
    }
    done
}
