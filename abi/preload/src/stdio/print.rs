//! Prints text to a descriptor of a connection, without a stream of libc.

use super::stream::write_all;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::ptr::copy_nonoverlapping;
use libc::{c_char, c_int, c_void, size_t};

/// Memory of a `va_list`. Functions get the address of a `va_list`.
#[cfg(target_arch = "x86_64")]
type Arguments = [u64; 3];
#[cfg(target_arch = "aarch64")]
type Arguments = [u64; 4];

/// Maximum length of a text that is formatted on the stack, in bytes. A longer text needs memory from the heap.
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

/// Implements `vdprintf`, or `__vdprintf_chk` with its flag.
///
/// # Safety
/// Same as the libc function.
pub(super) unsafe fn formatted(
    fd: c_int,
    flag: Option<c_int>,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    let format_to = |to: *mut c_char, room: usize| {
        let mut copy = MaybeUninit::<Arguments>::uninit();
        // SAFETY: the caller guarantees a valid format and its arguments. Each call uses up a new copy of the
        // arguments.
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
        // SAFETY: `format_to` has written `len` bytes at `from`.
        let done = unsafe { write_all(fd, from, len as usize) };
        if done < len as usize { -1 } else { len }
    };
    let mut short = [0; SHORT];
    let len = format_to(short.as_mut_ptr(), SHORT);
    if len < SHORT as c_int {
        return if len < 0 { len } else { all_written(short.as_ptr(), len) };
    }
    let mut long = Vec::<c_char>::with_capacity(len as usize + 1);
    // The second text may be longer, if another thread has changed the printed values.
    let len = format_to(long.as_mut_ptr(), long.capacity()).min(len);
    if len < 0 { len } else { all_written(long.as_ptr(), len) }
}

/// Prints the line that `perror` prints for the error `number`. Ignores a failed write, because `perror` cannot
/// report errors.
///
/// # Safety
/// `text` must be null, or a C string.
pub(super) unsafe fn error(fd: c_int, text: *const c_char, number: c_int) {
    let mut message = [0; 1024];
    // SAFETY: `message` has room for the given number of bytes.
    unsafe { libc::strerror_r(number, message.as_mut_ptr(), message.len()) };
    let mut line = Vec::new();
    // SAFETY: the caller guarantees that `text` is null or a C string. `strerror_r` always terminates its text.
    unsafe {
        if !text.is_null() && *text != 0 {
            line.extend_from_slice(CStr::from_ptr(text).to_bytes());
            line.extend_from_slice(b": ");
        }
        line.extend_from_slice(CStr::from_ptr(message.as_ptr()).to_bytes());
    }
    line.push(b'\n');
    // SAFETY: `line` has `line.len()` bytes.
    unsafe { write_all(fd, line.as_ptr().cast(), line.len()) };
}
