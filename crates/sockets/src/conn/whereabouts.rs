//! Names a socket that a keeper holds ([`crate::rest`]).

use core::sync::atomic::{AtomicU64, Ordering};

/// A socket that a keeper holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The keeper's process id.
    pub(crate) keeper: i32,
    /// The keeper's descriptor.
    pub(crate) fd: i32,
    /// The socket's inode. If the keeper has been killed, its process id may be in use by another process.
    pub(crate) inode: u64,
}

/// A [`Kept`] in a connection, which the family's processes and the keeper share.
#[derive(Debug)]
pub(crate) struct Whereabouts {
    /// The keeper's process id in the upper half, its descriptor in the lower half; 0 if there is no socket.
    place: AtomicU64,
    inode: AtomicU64,
}

impl Kept {
    fn place(self) -> u64 {
        u64::from(self.keeper as u32) << 32 | u64::from(self.fd as u32)
    }
}

impl Whereabouts {
    /// Publishes the socket.
    pub(crate) fn publish(&self, kept: Kept) {
        self.inode.store(kept.inode, Ordering::Relaxed);
        self.place.store(kept.place(), Ordering::Release);
    }

    /// Returns the socket, if a keeper holds one.
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

    /// Removes the socket, if it is still the published one: no process needs it any more. The slot may already be in
    /// use by another connection.
    pub(crate) fn withdraw(&self, kept: Kept) {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.place.compare_exchange(kept.place(), 0, success, failure);
    }

    /// Clears the data for a new connection.
    pub(super) fn forget(&self) {
        self.place.store(0, Ordering::Relaxed);
    }

    /// Copies the data of another connection.
    pub(super) fn copy_from(&self, other: &Whereabouts) {
        self.inode.store(other.inode.load(Ordering::Relaxed), Ordering::Relaxed);
        self.place.store(other.place.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
