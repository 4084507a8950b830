//! The memory that a keeper shares with the process that makes it.

use crate::conn::Kept;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use sovia_sys::Mapping;

const PAGE: usize = 4096;

/// A Unix socket of the keeper's.
#[derive(Debug)]
#[repr(C)]
struct Socket {
    fd: AtomicI32,
    /// 0: there is none.
    inode: AtomicU64,
}

/// What the two tell each other of a connection.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Place {
    /// The end that the rest is read from.
    end: Socket,
    /// The end that the rest goes into, and that what the program writes comes out of.
    source: Socket,
    /// How long the rest is, and how much of it is in the socket.
    len: AtomicUsize,
    fed: AtomicUsize,
    /// The connection was reset: an error comes behind the rest, not the end of the stream.
    is_cut: AtomicBool,
    /// It lies nowhere else any more.
    is_moved: AtomicBool,
}

/// The memory begins with the keeper's id, which is 0 until it waits for its maker, and the places. The rests follow.
#[derive(Debug)]
pub(super) struct Shared {
    memory: Mapping,
    /// Where the rest of each connection lies, and where the last one ends: whole pages.
    at: Vec<usize>,
}

/// Places begin there.
const PLACES: usize = 64;

impl Shared {
    /// For rests of such lengths.
    pub(super) fn new(lens: impl ExactSizeIterator<Item = usize>) -> Option<Shared> {
        let mut end = (PLACES + lens.len() * size_of::<Place>()).next_multiple_of(PAGE);
        let mut at = vec![end];
        for len in lens {
            end = end.checked_add(len.checked_next_multiple_of(PAGE)?)?;
            at.push(end);
        }
        Some(Shared { memory: Mapping::for_family(end).ok()?, at })
    }

    /// The keeper's id, once it waits for its maker.
    pub(super) fn keeper(&self) -> &AtomicI32 {
        // SAFETY: the memory begins with that word, is aligned to a page, and mapped for as long as `self` is there.
        unsafe { &*self.memory.base().cast() }
    }

    pub(super) fn place(&self, n: usize) -> &Place {
        assert!(n + 1 < self.at.len(), "a connection without a place");
        // SAFETY: there are as many places there, of atomics, for which zeroed memory will do.
        unsafe { &*self.memory.base().add(PLACES).cast::<Place>().add(n) }
    }

    /// Room for a rest.
    ///
    /// # Safety
    /// No other reference to it may be in use: until it [`Place::is_the_keepers`] it is its maker's, and the keeper's
    /// afterwards.
    #[allow(clippy::mut_from_ref, reason = "the memory is shared with another process in any case")]
    pub(super) unsafe fn bytes(&self, n: usize) -> &mut [u8] {
        let (from, to) = (self.at[n], self.at[n + 1]);
        // SAFETY: the range lies in the mapping; the rest is the caller's contract.
        unsafe { core::slice::from_raw_parts_mut(self.memory.base().add(from), to - from) }
    }

    /// Gives the memory of a rest back.
    pub(super) fn discard(&self, n: usize) {
        self.memory.discard(self.at[n], self.at[n + 1] - self.at[n]);
    }
}

impl Socket {
    fn is(&self, fd: i32, inode: u64) {
        self.fd.store(fd, Ordering::Relaxed);
        self.inode.store(inode, Ordering::Relaxed);
    }

    fn of(&self, keeper: i32) -> Option<Kept> {
        let (fd, inode) = (self.fd.load(Ordering::Relaxed), self.inode.load(Ordering::Relaxed));
        (inode != 0).then_some(Kept { keeper, fd, inode })
    }
}

impl Place {
    /// Descriptors and inodes of the end that is read from, and of the other one, as the keeper will have them.
    pub(super) fn has_sockets(&self, end: (i32, u64), source: (i32, u64)) {
        self.end.is(end.0, end.1);
        self.source.is(source.0, source.1);
    }

    /// The end that the rest is read from, and that where what the program writes comes out.
    pub(super) fn sockets(&self, keeper: i32) -> Option<(Kept, Kept)> {
        Some((self.end.of(keeper)?, self.source.of(keeper)?))
    }

    /// The rest is there. SYNC: before the connection, or `is_moved`, says that the keeper has it.
    pub(super) fn holds(&self, len: usize, fed: usize, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        self.fed.store(fed, Ordering::Relaxed);
    }

    /// The maker has no part in the rest any more.
    pub(super) fn is_the_keepers(&self) {
        self.is_moved.store(true, Ordering::Release);
    }

    pub(super) fn is_moved(&self) -> bool {
        self.is_moved.load(Ordering::Acquire)
    }

    /// Returns true if an error comes behind the rest.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    /// The part of the rest that is not in the socket.
    pub(super) fn left(&self) -> core::ops::Range<usize> {
        self.fed.load(Ordering::Relaxed)..self.len.load(Ordering::Relaxed)
    }
}
