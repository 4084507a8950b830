//! Files that are read whole, of paths that may be anything.

use crate::{Errno, Fd, Result, call};
use core::ffi::CStr;

/// All of a file that has at most so many bytes. It opens nothing that waits for another process, or that becomes this one's terminal.
///
/// # Errors
/// Those of opening and reading it; `EFBIG` where it has more bytes, `ESPIPE` of a pipe.
pub fn read(path: &CStr, most: usize) -> Result<Vec<u8>> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = Fd::adopt(call::open(path, flags, 0)?);
    let mut bytes = Vec::new();
    // Little address space is an error like another one.
    bytes.try_reserve_exact(most + 1).map_err(|_| Errno::ENOMEM)?;
    bytes.resize(most + 1, 0);
    let mut len = 0;
    while len <= most {
        match call::pread(file.raw(), &mut bytes[len..], len as i64)? {
            0 => {
                bytes.truncate(len);
                return Ok(bytes);
            }
            read => len += read,
        }
    }
    Err(Errno::EFBIG)
}
