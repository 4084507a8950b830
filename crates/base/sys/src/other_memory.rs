//! The memory of other processes, by `process_vm_readv` and `process_vm_writev`.

use crate::call::{Errno, Result, Sysno};

/// A part of a process's memory; laid out as the kernel's `struct iovec`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Piece {
    /// Its address in the process whose memory it is.
    pub address: usize,
    /// Its length in bytes.
    pub len: usize,
}

/// Pieces that one call takes of each side.
pub const PIECES_MAX: usize = 1024;

/// Copies from the memory of process `pid` to this process's, as many bytes as the shorter list has; how many bytes were
/// copied, which is fewer where an address of either side is bad.
///
/// # Safety
/// The pieces of `to` are memory of this process's that may be overwritten.
///
/// # Errors
/// `ESRCH` where there is no such process, `EPERM` where this one may not trace it, `EFAULT` for a bad address.
pub unsafe fn read(pid: i32, to: &[Piece], from: &[Piece]) -> Result<usize> {
    if to.len() > PIECES_MAX || from.len() > PIECES_MAX {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the lists live as long as the call; what they name of this process is the caller's to vouch for.
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
        // SAFETY: `to` names `out`.
        assert_eq!(unsafe { read(getpid(), &to, &from) }, Ok(10));
        assert_eq!(out, [*b"abcde", *b"fghij"]);
    }

    #[test]
    fn bad_addresses_and_processes_are_errors() {
        let mut out = [0u8; 8];
        let to = [Piece { address: out.as_mut_ptr().addr(), len: 8 }];
        // SAFETY: `to` names `out`.
        unsafe {
            assert_eq!(read(getpid(), &to, &[Piece { address: 8, len: 8 }]), Err(Errno::EFAULT));
            assert_eq!(read(i32::MAX, &to, &to), Err(Errno::ESRCH));
        }
    }
}
