//! The program's memory, and that of other processes.
//!
//! A [`Buffer`] is what a program has lent for an operation. Bytes go between it and other memory here and nowhere else.

use crate::error::Error;
use sovia_signal::access;
pub use sovia_sys::other_memory::Piece;
use sovia_sys::poll::probe;
use sovia_sys::{Errno, Fd, other_memory};

/// Pieces of which a buffer may consist.
pub const PIECES_MAX: usize = 4;

/// Memory of this process that its program has lent until an operation is over, in up to [`PIECES_MAX`] pieces.
#[derive(Debug, Default)]
pub struct Buffer {
    first: Piece,
    /// Empty, as a rule.
    rest: Box<[Piece]>,
    len: usize,
}

impl Buffer {
    /// A buffer of these pieces.
    ///
    /// # Safety
    /// While the buffer lives each piece is readable memory of this process's, and writable if the buffer is written to.
    ///
    /// # Errors
    /// [`Error::INVALID`] if there are too many, or they are longer than memory is.
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

    /// A part of it, as a buffer of its own: what its program has lent, it has lent for both.
    pub(crate) fn sub(&self, at: usize, len: usize) -> Buffer {
        let mut pieces = self.part(at, len);
        let first = pieces.next().unwrap_or_default();
        let rest: Box<[Piece]> = pieces.collect();
        let len = first.len + rest.iter().map(|piece| piece.len).sum::<usize>();
        Buffer { first, rest, len }
    }

    /// Its length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where its first piece begins.
    #[inline]
    pub fn address(&self) -> usize {
        self.first.address
    }

    /// The pieces of a part of it.
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

    /// Copies bytes in; as many as there is room for from `at` on.
    #[inline]
    pub fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the slice is valid.
        unsafe { self.write_from(at, bytes.as_ptr(), bytes.len()) }
    }

    /// Likewise, from memory that other processes may be writing to.
    ///
    /// # Safety
    /// `len` bytes from `from` on are mapped.
    #[inline]
    pub unsafe fn write_from(&self, at: usize, mut from: *const u8, len: usize) {
        if self.rest.is_empty() {
            let len = len.min(self.first.len.saturating_sub(at));
            if len > 0 {
                // SAFETY: within the piece, which is writable by the contract of `new`; `from` by the caller's.
                unsafe { access::copy_valid((self.first.address + at) as *mut u8, from, len) };
            }
            return;
        }
        for piece in self.part(at, len) {
            // SAFETY: as above; the pieces of a part come to `len` bytes at most.
            unsafe {
                access::copy_valid(piece.address as *mut u8, from, piece.len);
                from = from.add(piece.len);
            }
        }
    }

    /// Copies bytes out; as many as there are from `at` on.
    #[inline]
    pub fn read(&self, at: usize, out: &mut [u8]) {
        // SAFETY: the slice is valid.
        unsafe { self.read_to(at, out.as_mut_ptr(), out.len()) }
    }

    /// Likewise, to memory that other processes may look at.
    ///
    /// # Safety
    /// `len` bytes from `to` on are mapped and may be overwritten.
    #[inline]
    pub unsafe fn read_to(&self, at: usize, mut to: *mut u8, len: usize) {
        if self.rest.is_empty() {
            let len = len.min(self.first.len.saturating_sub(at));
            if len > 0 {
                // SAFETY: within the piece, which is readable by the contract of `new`; `to` by the caller's.
                unsafe { access::copy_valid(to, (self.first.address + at) as *const u8, len) };
            }
            return;
        }
        for piece in self.part(at, len) {
            // SAFETY: as above.
            unsafe {
                access::copy_valid(to, piece.address as *const u8, piece.len);
                to = to.add(piece.len);
            }
        }
    }
}

/// The memory of another process, which may be this one itself.
#[derive(Debug)]
pub(crate) struct OtherMemory {
    pid: i32,
    /// Readable once the process has ended.
    process: Fd,
    /// Whether the system lets this process read it, as far as is known.
    open: bool,
}

/// Why bytes of another process's memory cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missed {
    /// The process has ended.
    Gone,
    /// The system forbids it: the other process must send them.
    Closed,
    /// It has no such memory.
    Fault,
}

impl OtherMemory {
    /// The memory of the process `pid`, of which `process` is the handle.
    pub(crate) fn new(pid: i32, process: Fd) -> OtherMemory {
        let forbidden = std::env::var_os("SOVIA_DIRECT").is_some_and(|value| value == "off");
        OtherMemory { pid, process, open: pid > 0 && !forbidden }
    }

    /// Whether it is worth a try.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Copies what `from` names of the other process to `to`, from its byte `at` on. `from` is as long as that part.
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
            // SAFETY: the pieces of `to` may be overwritten by the contract of `Buffer::new`.
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
        // If it lives now, its number was its own while the bytes were read.
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
        // SAFETY: they are not used.
        unsafe {
            assert_eq!(Buffer::new(&[piece; PIECES_MAX + 1]).unwrap_err(), Error::INVALID);
            assert_eq!(Buffer::new(&[piece; 2]).unwrap_err(), Error::INVALID);
        }
    }
}
