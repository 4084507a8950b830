//! The program's memory, and memory of other processes.
//!
//! A [`Buffer`] is memory that the program lends to an operation. Only this module copies bytes from and to buffers.

use crate::error::Error;
use sovia_signal::access;
pub use sovia_sys::other_memory::Piece;
use sovia_sys::poll::probe;
use sovia_sys::{Errno, Fd, other_memory};

/// Maximum number of pieces of a buffer.
pub const PIECES_MAX: usize = 4;

/// Memory of this process that the program lends until an operation is over, in up to [`PIECES_MAX`] pieces.
#[derive(Debug, Default)]
pub struct Buffer {
    first: Piece,
    /// The pieces after the first one. Usually empty.
    rest: Box<[Piece]>,
    len: usize,
}

impl Buffer {
    /// Returns a buffer of these pieces.
    ///
    /// # Safety
    /// Each piece must stay readable memory of this process while the buffer lives. It must also stay writable if a
    /// caller writes to the buffer.
    ///
    /// # Errors
    /// Returns [`Error::INVALID`] if there are more than [`PIECES_MAX`] pieces, or if the sum of their lengths
    /// overflows.
    #[inline(always)]
    pub unsafe fn new(pieces: &[Piece]) -> Result<Buffer, Error> {
        let Some((&first, rest)) = pieces.split_first() else { return Ok(Buffer::default()) };
        if rest.is_empty() {
            return Ok(Buffer { first, rest: Box::default(), len: first.len });
        }
        if pieces.len() > PIECES_MAX {
            return Err(Error::INVALID);
        }
        let len = pieces.iter().try_fold(0usize, |sum, piece| sum.checked_add(piece.len));
        Ok(Buffer { first, rest: rest.into(), len: len.ok_or(Error::INVALID)? })
    }

    /// Returns a part of the buffer as a buffer. The program's permission to use the memory covers both buffers.
    pub(crate) fn sub(&self, at: usize, len: usize) -> Buffer {
        let mut pieces = self.part(at, len);
        let first = pieces.next().unwrap_or_default();
        let rest: Box<[Piece]> = pieces.collect();
        let len = first.len + rest.iter().map(|piece| piece.len).sum::<usize>();
        Buffer { first, rest, len }
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address of the first piece.
    #[inline]
    pub fn address(&self) -> usize {
        self.first.address
    }

    /// Returns the pieces of a part of the buffer.
    pub fn part(&self, at: usize, len: usize) -> impl Iterator<Item = Piece> {
        let (mut skip, mut left) = (at, len);
        core::iter::once(self.first).chain(self.rest.iter().copied()).filter_map(move |piece| {
            let skipped = skip.min(piece.len);
            skip -= skipped;
            let len = left.min(piece.len - skipped);
            left -= len;
            (len > 0).then_some(Piece { address: piece.address + skipped, len })
        })
    }

    /// Copies `bytes` to position `at` of the buffer, as many as fit.
    #[inline]
    pub fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the pointer and the length are those of a live slice.
        unsafe { self.write_from(at, bytes.as_ptr(), bytes.len()) }
    }

    /// Like [`Buffer::write`], but from memory that other processes may change meanwhile.
    ///
    /// # Safety
    /// `len` bytes at `from` must be mapped.
    #[inline]
    pub unsafe fn write_from(&self, at: usize, mut from: *const u8, len: usize) {
        if self.rest.is_empty() {
            let len = len.min(self.first.len.saturating_sub(at));
            if len > 0 {
                // SAFETY: the range lies within the piece, which the contract of `new` makes writable. The caller's
                // contract makes `from` readable.
                unsafe { access::copy_valid((self.first.address + at) as *mut u8, from, len) };
            }
            return;
        }
        for piece in self.part(at, len) {
            // SAFETY: the contract of `new` makes each piece writable. All pieces of a part have at most `len` bytes,
            // so `from` stays within the caller's range.
            unsafe {
                access::copy_valid(piece.address as *mut u8, from, piece.len);
                from = from.add(piece.len);
            }
        }
    }

    /// Copies bytes at position `at` of the buffer to `out`, as many as the buffer has.
    #[inline]
    pub fn read(&self, at: usize, out: &mut [u8]) {
        // SAFETY: the pointer and the length are those of a live slice.
        unsafe { self.read_to(at, out.as_mut_ptr(), out.len()) }
    }

    /// Like [`Buffer::read`], but to memory that other processes may read meanwhile.
    ///
    /// # Safety
    /// `len` bytes at `to` must be mapped, and the function may overwrite them.
    #[inline]
    pub unsafe fn read_to(&self, at: usize, mut to: *mut u8, len: usize) {
        if self.rest.is_empty() {
            let len = len.min(self.first.len.saturating_sub(at));
            if len > 0 {
                // SAFETY: the range lies within the piece, which the contract of `new` makes readable. The caller's
                // contract makes `to` writable.
                unsafe { access::copy_valid(to, (self.first.address + at) as *const u8, len) };
            }
            return;
        }
        for piece in self.part(at, len) {
            // SAFETY: the contract of `new` makes each piece readable. All pieces of a part have at most `len` bytes,
            // so `to` stays within the caller's range.
            unsafe {
                access::copy_valid(to, piece.address as *const u8, piece.len);
                to = to.add(piece.len);
            }
        }
    }
}

/// The memory of another process, or of this process.
#[derive(Debug)]
pub(crate) struct OtherMemory {
    pid: i32,
    /// A pidfd, which is readable once the process has ended.
    process: Fd,
    /// Set while the system may let this process read the memory: no attempt has failed yet.
    open: bool,
}

/// Reason why the memory of another process cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missed {
    /// The process has ended.
    Gone,
    /// The system forbids the access, so the other process must send the bytes.
    Closed,
    /// The memory is not mapped in the other process.
    Fault,
}

impl OtherMemory {
    /// Returns the memory of process `pid`, with the pidfd `process`.
    pub(crate) fn new(pid: i32, process: Fd) -> OtherMemory {
        let forbidden = std::env::var_os("SOVIA_DIRECT").is_some_and(|value| value == "off");
        OtherMemory { pid, process, open: pid > 0 && !forbidden }
    }

    /// Returns true if an attempt to read may succeed.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Copies the pieces `from` of the other process to `to`, from position `at` on. Part and pieces have the same
    /// length.
    pub(crate) fn read(&mut self, to: &Buffer, at: usize, from: &[Piece]) -> Result<(), Missed> {
        let len: usize = from.iter().map(|piece| piece.len).sum();
        let mut done = 0;
        while done < len {
            let mut into = [Piece::default(); PIECES_MAX];
            let mut count = 0;
            for (slot, piece) in into.iter_mut().zip(to.part(at + done, len - done)) {
                *slot = piece;
                count += 1;
            }
            let mut rest = [Piece::default(); PIECES_MAX];
            let mut left = 0;
            let mut skip = done;
            for piece in from {
                let skipped = skip.min(piece.len);
                skip -= skipped;
                if piece.len > skipped && left < PIECES_MAX {
                    rest[left] = Piece {
                        address: piece.address.wrapping_add(skipped),
                        len: piece.len - skipped,
                    };
                    left += 1;
                }
            }
            // SAFETY: the contract of `Buffer::new` makes the pieces of `to` writable.
            match unsafe { other_memory::read(self.pid, &into[..count], &rest[..left]) } {
                Ok(0) | Err(Errno::EFAULT) => return Err(Missed::Fault),
                Ok(n) => done += n,
                Err(Errno::EINTR) => {}
                Err(Errno::ESRCH) => return Err(Missed::Gone),
                Err(_) => {
                    self.open = false;
                    return Err(Missed::Closed);
                }
            }
        }
        // If the process is alive now, no other process had its pid while the bytes were read.
        match probe(self.process.raw(), libc::POLLIN) {
            0 => Ok(()),
            _ => Err(Missed::Gone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sovia_sys::{call, process};

    fn pieces(of: &mut [Vec<u8>]) -> Vec<Piece> {
        of.iter_mut()
            .map(|part| Piece { address: part.as_mut_ptr().addr(), len: part.len() })
            .collect()
    }

    #[test]
    fn bytes_are_scattered_and_gathered_at_every_place() {
        for cut in 0..=10 {
            let mut parts = vec![vec![0u8; cut], vec![0u8; 10 - cut], vec![0u8; 3]];
            // SAFETY: the parts outlive the buffer.
            let buffer = unsafe { Buffer::new(&pieces(&mut parts)) }.unwrap();
            assert_eq!(buffer.len(), 13);
            for at in 0..=13 {
                let bytes: Vec<u8> = (1..=14).collect();
                buffer.write(0, &[0; 13]);
                buffer.write(at, &bytes);
                let mut out = [0xee; 13];
                buffer.read(0, &mut out);
                assert_eq!(out[..at], [0; 13][..at]);
                assert_eq!(out[at..], bytes[..13 - at]);
            }
        }
    }

    #[test]
    fn other_memory_is_read_across_pieces() {
        let mut from = vec![(0..7).collect::<Vec<u8>>(), (7..20).collect()];
        let mut to = vec![vec![0u8; 5], vec![0u8; 10], vec![0u8; 10]];
        let pid = call::getpid();
        let mut memory = OtherMemory::new(pid, process::open(pid).unwrap());
        // SAFETY: the parts outlive the buffer.
        let buffer = unsafe { Buffer::new(&pieces(&mut to)) }.unwrap();
        assert_eq!(memory.read(&buffer, 2, &pieces(&mut from)), Ok(()));
        let mut out = [0; 22];
        buffer.read(0, &mut out);
        assert_eq!(out[..2], [0; 2]);
        assert!(out[2..].iter().copied().eq(0..20));
        let bad = [Piece { address: 16, len: 4 }];
        assert_eq!(memory.read(&buffer, 0, &bad), Err(Missed::Fault));
    }

    #[test]
    fn too_many_pieces_are_refused() {
        let piece = Piece { address: 4096, len: usize::MAX };
        // SAFETY: `new` fails or the buffer is dropped at once, so nothing uses the pieces.
        unsafe {
            assert_eq!(Buffer::new(&[piece; PIECES_MAX + 1]).unwrap_err(), Error::INVALID);
            assert_eq!(Buffer::new(&[piece; 2]).unwrap_err(), Error::INVALID);
        }
    }
}
