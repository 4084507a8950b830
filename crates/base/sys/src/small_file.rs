//! Reads whole small files, from paths that may name anything.

use crate::{Errno, Fd, Result, call};
use core::ffi::CStr;

/// Reads a file of at most `most` bytes. Does not wait for another process, and does not make a terminal this
/// process's own.
///
/// # Errors
/// Those of opening and reading; `EFBIG` if the file is longer, `ESPIPE` for a pipe.
pub fn read(path: &CStr, most: usize) -> Result<Vec<u8>> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = Fd::adopt(call::open(path, flags, 0)?);
    let mut bytes = Vec::new();
    // A lack of address space must be an ordinary error.
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
