//! The words of a thread's record in which it writes down what it uses ([`crate::hazard`]).

use crate::shim::{AtomicUsize, Ordering};

/// Words for what is looked up: things that a thread uses at once without a lock.
const USES: u32 = if cfg!(loom) { 1 } else { 6 };
/// Words for what is waited for, by a call and by those of signal handlers that interrupt it.
const WAITS: u32 = if cfg!(loom) { 1 } else { 18 };
const WORDS: usize = (USES + WAITS) as usize;
pub(crate) const FOR_USES: u32 = (1 << USES) - 1;
pub(crate) const FOR_WAITS: u32 = ((1 << WAITS) - 1) << USES;

/// Nothing is written down.
pub(crate) const NOTHING: usize = 0;

/// A thread's words.
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

    /// Whether one of them names `place`: its thread uses what lies there.
    pub(crate) fn names(&self, place: usize) -> bool {
        // SYNC: pairs with the store that ends a use: what its thread did before is over.
        self.0.iter().any(|word| word.load(Ordering::Acquire) == place)
    }

    /// The word of a bit in [`FOR_USES`] or [`FOR_WAITS`].
    #[inline(always)]
    pub(crate) fn at(&self, bit: u32) -> &AtomicUsize {
        &self.0[bit as usize]
    }

    /// For the record's next owner.
    pub(crate) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(NOTHING, Ordering::Relaxed));
    }
}
