//! Hazard words of a thread, in which the thread names the objects that it uses ([`crate::hazard`]).

use crate::shim::{AtomicUsize, Ordering};

/// Number of words for look-ups, whose objects a thread uses for a short time without a lock.
const USES: u32 = if cfg!(loom) { 1 } else { 6 };
/// Number of words for waits, of a call and of the signal handlers that interrupt the call.
const WAITS: u32 = if cfg!(loom) { 1 } else { 18 };
const WORDS: usize = (USES + WAITS) as usize;
pub(crate) const FOR_USES: u32 = (1 << USES) - 1;
pub(crate) const FOR_WAITS: u32 = ((1 << WAITS) - 1) << USES;

/// Value of a word that names no object.
pub(crate) const NOTHING: usize = 0;

/// The hazard words of one thread.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Words([AtomicUsize; WORDS]);

impl Words {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Words {
        Words([const { AtomicUsize::new(NOTHING) }; WORDS])
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Words {
        Words(core::array::from_fn(|_| AtomicUsize::new(NOTHING)))
    }

    /// Returns true if one of the words names `place`: the thread uses the object there.
    pub(crate) fn names(&self, place: usize) -> bool {
        // SYNC: pairs with the Release store that ends a use, so the user's earlier accesses are complete.
        self.0.iter().any(|word| word.load(Ordering::Acquire) == place)
    }

    /// Returns the word with the bit number `bit` in [`FOR_USES`] or [`FOR_WAITS`].
    #[inline(always)]
    pub(crate) fn at(&self, bit: u32) -> &AtomicUsize {
        &self.0[bit as usize]
    }

    /// Clears the words for the entry's next owner.
    pub(crate) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(NOTHING, Ordering::Relaxed));
    }
}
