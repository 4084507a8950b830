//! Printing to a connection without a stream.

use super::stream::write_all;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::ptr::copy_nonoverlapping;
use libc::{c_char, c_int, c_void, size_t};

/// A `va_list`, whose address is what functions get.
#[cfg(target_arch = "x86_64")]
type Arguments = [u64; 3];
#[cfg(target_arch = "aarch64")]
type Arguments = [u64; 4];

/// Bytes that are formatted without memory of the heap: what a handler prints must not wait for malloc's locks.
const SHORT: usize = 1024;

unsafe extern "C" {
    fn vsnprintf(
        to: *mut c_char,
        room: size_t,
        format: *const c_char,
        arguments: *mut c_void,
    ) -> c_int;
    fn __vsnprintf_chk(
        to: *mut c_char,
        most: size_t,
        flag: c_int,
        room: size_t,
        format: *const c_char,
        arguments: *mut c_void,
    ) -> c_int;
}

/// `vdprintf`, or `__vdprintf_chk` with its flag.
///
/// # Safety
/// As for these.
pub(super) unsafe fn formatted(
    fd: c_int,
    flag: Option<c_int>,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    let format_to = |to: *mut c_char, room: usize| {
        let mut copy = MaybeUninit::<Arguments>::uninit();
        // SAFETY: the caller's arguments, of which a copy is used up.
        unsafe {
            copy_nonoverlapping(arguments.cast(), copy.as_mut_ptr(), 1);
            let arguments = copy.as_mut_ptr().cast();
            match flag {
                None => vsnprintf(to, room, format, arguments),
                Some(flag) => __vsnprintf_chk(to, room, flag, room, format, arguments),
            }
        }
    };
    let all_written = |from: *const c_char, len: c_int| {
        // SAFETY: so many bytes have been formatted there.
        let done = unsafe { write_all(fd, from, len as usize) };
        if done < len as usize { -1 } else { len }
    };
    let mut short = [0; SHORT];
    let len = format_to(short.as_mut_ptr(), SHORT);
    if len < SHORT as c_int {
        return if len < 0 { len } else { all_written(short.as_ptr(), len) };
    }
    let mut long = Vec::<c_char>::with_capacity(len as usize + 1);
    // Another thread may change what is printed.
    let len = format_to(long.as_mut_ptr(), long.capacity()).min(len);
    if len < 0 { len } else { all_written(long.as_ptr(), len) }
}

/// What `perror` prints. That it could not be written shows nowhere.
///
/// # Safety
/// `text` is null or a C string.
pub(super) unsafe fn error(fd: c_int, text: *const c_char, number: c_int) {
    let mut message = [0; 1024];
    // SAFETY: there is room for what the function is told.
    unsafe { libc::strerror_r(number, message.as_mut_ptr(), message.len()) };
    let mut line = Vec::new();
    // SAFETY: the caller's word; `strerror_r` always ends what it writes.
    unsafe {
        if !text.is_null() && *text != 0 {
            line.extend_from_slice(CStr::from_ptr(text).to_bytes());
            line.extend_from_slice(b": ");
        }
        line.extend_from_slice(CStr::from_ptr(message.as_ptr()).to_bytes());
    }
    line.push(b'\n');
    // SAFETY: the line's bytes.
    unsafe { write_all(fd, line.as_ptr().cast(), line.len()) };
}
