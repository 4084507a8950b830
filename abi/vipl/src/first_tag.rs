//! The tag that stands in where a program names none, and that `VipCreatePtag` gives first.
//!
//! On cLAN these were one, and programs rely on it: ARMCI registers its memory with the tag that it
//! has created and creates its VIs with none. So a program's first tag is the NIC's default one;
//! tags that it creates beyond are apart from it and from each other.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use via::error::PtagError;
use via::{Nic, Ptag};

/// A NIC's first tag.
pub(crate) struct FirstTag(RwLock<Inner>);

#[derive(Clone, Copy)]
struct Inner {
    tag: Ptag,
    /// Whether the program has created it, as it thinks.
    created: bool,
}

/// The first tag, which is not destroyed meanwhile.
pub(crate) struct Held<'a>(RwLockReadGuard<'a, Inner>);

impl Held<'_> {
    pub(crate) fn tag(&self) -> Ptag {
        self.0.tag
    }
}

impl FirstTag {
    /// Makes one.
    ///
    /// # Errors
    /// As for `create_ptag`.
    pub(crate) fn new<N: Nic>(nic: &N) -> Result<FirstTag, PtagError> {
        Ok(FirstTag(RwLock::new(Inner { tag: nic.create_ptag()?, created: false })))
    }

    /// The tag, for as long as it takes to give it to a region or a VI.
    pub(crate) fn held(&self) -> Held<'_> {
        Held(self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives the program a tag: this one, or if it has that already another.
    ///
    /// # Errors
    /// As for the NIC's own.
    pub(crate) fn create<N: Nic>(&self, nic: &N) -> Result<Ptag, PtagError> {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if inner.created {
            return nic.create_ptag();
        }
        inner.created = true;
        Ok(inner.tag)
    }

    /// Destroys a tag of the program's. If it is this one, another takes its place, so that its
    /// handle is good for nothing any more.
    ///
    /// # Errors
    /// As for the NIC's own; [`PtagError::InUse`] for this one if the program did not create it.
    pub(crate) fn destroy<N: Nic>(&self, nic: &N, ptag: Ptag) -> Result<(), PtagError> {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if ptag != inner.tag {
            return nic.destroy_ptag(ptag);
        }
        if !inner.created {
            return Err(PtagError::InUse);
        }
        nic.destroy_ptag(ptag)?;
        // There is room for one at least, and no other code takes it: tags are made in here only.
        *inner = Inner { tag: nic.create_ptag()?, created: false };
        Ok(())
    }
}
