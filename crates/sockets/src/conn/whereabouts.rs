//! Stores which socket of a connection a keeper process holds ([`crate::rest`]).

use core::sync::atomic::{AtomicU64, Ordering};

/// A socket that a keeper process holds for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The keeper's process id.
    pub(crate) keeper: i32,
    /// The socket's descriptor in the keeper.
    pub(crate) fd: i32,
    /// The socket's inode number. It shows whether the process with this id and descriptor is still the keeper.
    pub(crate) inode: u64,
}

/// A [`Kept`] in the memory of a connection, or none. The family's processes and the keeper share this memory.
#[derive(Debug)]
pub(crate) struct Whereabouts {
    /// The keeper's process id in the upper half, and the descriptor in the lower half; 0 if no keeper holds a
    /// socket.
    place: AtomicU64,
    inode: AtomicU64,
}

impl Kept {
    fn place(self) -> u64 {
        u64::from(self.keeper as u32) << 32 | u64::from(self.fd as u32)
    }
}

impl Whereabouts {
    /// Publishes that a keeper holds the socket `kept`.
    pub(crate) fn publish(&self, kept: Kept) {
        self.inode.store(kept.inode, Ordering::Relaxed);
        self.place.store(kept.place(), Ordering::Release);
    }

    /// Returns the published socket, if there is one.
    #[inline]
    pub(crate) fn find(&self) -> Option<Kept> {
        let place = self.place.load(Ordering::Acquire);
        let inode = || self.inode.load(Ordering::Relaxed);
        (place != 0).then(|| Kept {
            keeper: (place >> 32) as i32,
            fd: place as i32,
            inode: inode(),
        })
    }

    /// Removes the published socket, if it is still `kept`. If not, another connection already uses the slot.
    pub(crate) fn withdraw(&self, kept: Kept) {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.place.compare_exchange(kept.place(), 0, success, failure);
    }

    /// Removes the published socket when a new connection uses the slot.
    pub(super) fn forget(&self) {
        self.place.store(0, Ordering::Relaxed);
    }

    /// Copies the published socket of another connection.
    pub(super) fn copy_from(&self, other: &Whereabouts) {
        self.inode.store(other.inode.load(Ordering::Relaxed), Ordering::Relaxed);
        self.place.store(other.place.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
