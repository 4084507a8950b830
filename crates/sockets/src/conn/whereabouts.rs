//! Where a keeper has a socket ([`crate::rest`]).

use core::sync::atomic::{AtomicU64, Ordering};

/// A socket that a keeper has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The keeper's process id.
    pub(crate) keeper: i32,
    /// Its descriptor.
    pub(crate) fd: i32,
    /// The socket's inode: the keeper may have been killed, and its id be another process's.
    pub(crate) inode: u64,
}

/// In a connection, which the family's processes and the keeper share.
#[derive(Debug)]
pub(crate) struct Whereabouts {
    /// The keeper's id in the upper half, its descriptor in the lower; 0: there is none.
    place: AtomicU64,
    inode: AtomicU64,
}

impl Kept {
    fn place(self) -> u64 {
        u64::from(self.keeper as u32) << 32 | u64::from(self.fd as u32)
    }
}

impl Whereabouts {
    /// Says where it is.
    pub(crate) fn publish(&self, kept: Kept) {
        self.inode.store(kept.inode, Ordering::Relaxed);
        self.place.store(kept.place(), Ordering::Release);
    }

    /// Where it is, if a keeper has one.
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

    /// No process needs it from there any more. The slot may be another connection's by now.
    pub(crate) fn withdraw(&self, kept: Kept) {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.place.compare_exchange(kept.place(), 0, success, failure);
    }

    /// Begins anew, for another connection.
    pub(super) fn forget(&self) {
        self.place.store(0, Ordering::Relaxed);
    }

    /// Makes it the same as another one.
    pub(super) fn copy_from(&self, other: &Whereabouts) {
        self.inode.store(other.inode.load(Ordering::Relaxed), Ordering::Relaxed);
        self.place.store(other.place.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
