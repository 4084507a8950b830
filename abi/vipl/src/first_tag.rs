//! The tag that stands for the null handle, and that the first `VipCreatePtag` returns.
//!
//! On cLAN these two tags were one, and programs rely on this. ARMCI registers its memory with the tag that it has
//! created, and creates its VIs without a tag. So a program's first tag is the NIC's default tag. Further tags differ
//! from it and from each other.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use via::error::PtagError;
use via::{Nic, Ptag};

/// A NIC's first tag.
pub(crate) struct FirstTag(RwLock<Inner>);

#[derive(Clone, Copy)]
struct Inner {
    tag: Ptag,
    /// True if the program has created the tag from its own point of view.
    created: bool,
}

/// The first tag, which cannot be destroyed while this guard exists.
pub(crate) struct Held<'a>(RwLockReadGuard<'a, Inner>);

impl Held<'_> {
    pub(crate) fn tag(&self) -> Ptag {
        self.0.tag
    }
}

impl FirstTag {
    /// Creates a NIC's first tag.
    ///
    /// # Errors
    /// Like `create_ptag`.
    pub(crate) fn new<N: Nic>(nic: &N) -> Result<FirstTag, PtagError> {
        Ok(FirstTag(RwLock::new(Inner { tag: nic.create_ptag()?, created: false })))
    }

    /// Returns a guard with the tag. Keep it until the tag is given to a region or VI.
    pub(crate) fn held(&self) -> Held<'_> {
        Held(self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives the program a tag: the first tag, or another one if the program has the first already.
    ///
    /// # Errors
    /// Like the NIC's `create_ptag`.
    pub(crate) fn create<N: Nic>(&self, nic: &N) -> Result<Ptag, PtagError> {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if inner.created {
            return nic.create_ptag();
        }
        inner.created = true;
        Ok(inner.tag)
    }

    /// Destroys a tag of the program. If it is the first tag, another tag replaces it, so that its handle becomes
    /// invalid.
    ///
    /// # Errors
    /// Like the NIC's `destroy_ptag`; [`PtagError::InUse`] for the first tag if the program has not created it.
    pub(crate) fn destroy<N: Nic>(&self, nic: &N, ptag: Ptag) -> Result<(), PtagError> {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if ptag != inner.tag {
            return nic.destroy_ptag(ptag);
        }
        if !inner.created {
            return Err(PtagError::InUse);
        }
        nic.destroy_ptag(ptag)?;
        // The NIC has room for at least this tag, and no other code takes the room: only this module makes tags.
        *inner = Inner { tag: nic.create_ptag()?, created: false };
        Ok(())
    }
}
