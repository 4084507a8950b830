//! Access to the memory of other processes (`process_vm_readv`).

use crate::call::{Errno, Result, Sysno};

/// A piece of a process's memory, with the layout of `struct iovec`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Piece {
    /// Address in the process that owns the memory.
    pub address: usize,
    /// Length in bytes.
    pub len: usize,
}

/// Largest number of pieces in each list of one call.
pub const PIECES_MAX: usize = 1024;

/// Copies from the memory of process `pid` to this process's memory, and returns the number of bytes copied. The
/// shorter list limits the number. An address that is bad in either process ends the copy early.
///
/// # Safety
/// This process must be free to overwrite the pieces of `to`: no reference to them is in use.
///
/// # Errors
/// `ESRCH` if there is no such process, `EPERM` if this process must not trace it, `EFAULT` if the first address
/// is bad. `EINVAL` if a list has more than [`PIECES_MAX`] pieces.
pub unsafe fn read(pid: i32, to: &[Piece], from: &[Piece]) -> Result<usize> {
    if to.len() > PIECES_MAX || from.len() > PIECES_MAX {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the lists outlive the call. By contract the kernel may overwrite the pieces of `to`. The call only
    // reads from the other process.
    unsafe {
        syscalls::syscall!(
            Sysno::process_vm_readv,
            pid,
            to.as_ptr(),
            to.len(),
            from.as_ptr(),
            from.len(),
            0usize
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::getpid;

    #[test]
    fn bytes_are_gathered_and_scattered() {
        let (one, two) = (*b"abcdef", *b"ghij");
        let mut out = [[0u8; 5]; 2];
        let piece = |bytes: &[u8]| Piece { address: bytes.as_ptr().addr(), len: bytes.len() };
        let from = [piece(&one), piece(&two)];
        let to = out.each_mut().map(|part| Piece { address: part.as_mut_ptr().addr(), len: 5 });
        // SAFETY: `to` consists of the parts of `out`, to which no reference is in use.
        assert_eq!(unsafe { read(getpid(), &to, &from) }, Ok(10));
        assert_eq!(out, [*b"abcde", *b"fghij"]);
    }

    #[test]
    fn bad_addresses_and_processes_are_errors() {
        let mut out = [0u8; 8];
        let to = [Piece { address: out.as_mut_ptr().addr(), len: 8 }];
        // SAFETY: `to` is `out`, to which no reference is in use.
        unsafe {
            assert_eq!(read(getpid(), &to, &[Piece { address: 8, len: 8 }]), Err(Errno::EFAULT));
            assert_eq!(read(i32::MAX, &to, &to), Err(Errno::ESRCH));
        }
    }
}
