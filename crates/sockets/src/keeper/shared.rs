//! Memory that a keeper shares with the process that makes it.

use crate::conn::Kept;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use sovia_sys::Mapping;

const PAGE: usize = 4096;

/// A Unix socket of the keeper.
#[derive(Debug)]
#[repr(C)]
struct Socket {
    fd: AtomicI32,
    /// Inode of the socket; 0 if there is none.
    inode: AtomicU64,
}

/// Data about one connection that the maker and the keeper exchange.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Place {
    /// End of a Unix socket from which the remaining bytes are read.
    end: Socket,
    /// End of the Unix socket into which the remaining bytes go, and where the program's bytes come out.
    source: Socket,
    /// Number of remaining bytes. `fed` is the number of remaining bytes that the maker has put into the socket.
    len: AtomicUsize,
    fed: AtomicUsize,
    /// Set if the connection was reset: an error follows the remaining bytes, not the end of the stream.
    is_cut: AtomicBool,
    /// Set once the maker has removed the remaining bytes from their old place, so that only this memory has them.
    is_moved: AtomicBool,
}

/// Shared memory of maker and keeper. First comes the keeper's id, which is 0 until the keeper waits for its maker.
/// The places follow, then the remaining bytes of each connection.
#[derive(Debug)]
pub(super) struct Shared {
    memory: Mapping,
    /// Offset of each connection's bytes, and at last the offset after the last connection's bytes. All offsets are
    /// multiples of the page size.
    at: Vec<usize>,
}

/// Offset of the first [`Place`] in the shared memory.
const PLACES: usize = 64;

impl Shared {
    /// Maps memory for connections with these numbers of remaining bytes.
    pub(super) fn new(lens: impl ExactSizeIterator<Item = usize>) -> Option<Shared> {
        let mut end = (PLACES + lens.len() * size_of::<Place>()).next_multiple_of(PAGE);
        let mut at = vec![end];
        for len in lens {
            end = end.checked_add(len.checked_next_multiple_of(PAGE)?)?;
            at.push(end);
        }
        Some(Shared { memory: Mapping::for_family(end).ok()?, at })
    }

    /// Returns the word with the keeper's id. The keeper stores its id once it waits for its maker.
    pub(super) fn keeper(&self) -> &AtomicI32 {
        // SAFETY: the mapping begins with this word. The mapping is aligned to a page, and lasts as long as `self`.
        unsafe { &*self.memory.base().cast() }
    }

    pub(super) fn place(&self, n: usize) -> &Place {
        assert!(n + 1 < self.at.len(), "a connection without a place");
        // SAFETY: the mapping has `at.len() - 1` places from the offset `PLACES` on, as `new` computed, and the
        // assertion bounds `n`. A place consists of atomics, for which zeroed memory is valid.
        unsafe { &*self.memory.base().add(PLACES).cast::<Place>().add(n) }
    }

    /// Returns the memory for a connection's remaining bytes.
    ///
    /// # Safety
    /// No other reference to these bytes may be in use. Until [`Place::is_the_keepers`] only the maker may call
    /// this function, and only the keeper afterwards.
    #[allow(clippy::mut_from_ref, reason = "the memory is shared with another process in any case")]
    pub(super) unsafe fn bytes(&self, n: usize) -> &mut [u8] {
        let (from, to) = (self.at[n], self.at[n + 1]);
        // SAFETY: `new` reserved this range in the mapping. The caller guarantees that no other reference to the
        // range is in use.
        unsafe { core::slice::from_raw_parts_mut(self.memory.base().add(from), to - from) }
    }

    /// Returns the memory of a connection's bytes to the kernel.
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
    /// Stores the keeper's descriptor and the inode of both ends of the Unix socket.
    pub(super) fn has_sockets(&self, end: (i32, u64), source: (i32, u64)) {
        self.end.is(end.0, end.1);
        self.source.is(source.0, source.1);
    }

    /// Returns the end from which the remaining bytes are read, and the end where the program's bytes come out.
    pub(super) fn sockets(&self, keeper: i32) -> Option<(Kept, Kept)> {
        Some((self.end.of(keeper)?, self.source.of(keeper)?))
    }

    /// Stores the number of remaining bytes, the number of them in the socket, and if an error follows. SYNC: the
    /// caller then publishes the keeper with release order, in the connection or by `is_moved`. The keeper reads
    /// these three words after it has acquired the connection's word or `is_moved`.
    pub(super) fn holds(&self, len: usize, fed: usize, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        self.fed.store(fed, Ordering::Relaxed);
    }

    /// Gives the remaining bytes to the keeper: from then on, the maker does not use them.
    pub(super) fn is_the_keepers(&self) {
        self.is_moved.store(true, Ordering::Release);
    }

    pub(super) fn is_moved(&self) -> bool {
        self.is_moved.load(Ordering::Acquire)
    }

    /// Returns true if an error follows the remaining bytes.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    /// Returns the range of the remaining bytes that are not in the socket yet.
    pub(super) fn left(&self) -> core::ops::Range<usize> {
        self.fed.load(Ordering::Relaxed)..self.len.load(Ordering::Relaxed)
    }
}
