//! Tracks connections that this process holds without an entry in the connection's `references` word.
//!
//! The `references` word of a connection has room for about 60 process slots ([`References`]). If the word is full, a
//! forked child that inherits the connection gets no entry. Then only the child itself knows that it holds the
//! connection, and it records this in private memory.

use super::{CONNS, Conn};
use crate::per_engine::{per_engine, per_engine_tables};
use crate::process_slots;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sovia_control::stats_page::References;

per_engine_tables! {
    /// Bitmap of the connections that this process holds without an entry in their `references` word.
    static HELD: [AtomicU64; CONNS / 64] = [const { AtomicU64::new(0) }; CONNS / 64];
}

per_engine! {
    /// Set if this process, one of its children or its parent may hold a connection without an entry in the
    /// connection's `references` word.
    static MAY_BE: AtomicBool = AtomicBool::new(false);
}

/// Called before a fork if the child will inherit a connection without an entry in the connection's `references` word.
pub(crate) fn expect() {
    MAY_BE.store(true, Ordering::Relaxed);
}

/// Returns true in a forked child that may have inherited a connection without an entry in the connection's
/// `references` word. The child must then call [`Conn::inherited`] for each connection in its table.
pub(crate) fn may_be() -> bool {
    MAY_BE.load(Ordering::Relaxed)
}

impl Conn {
    /// Records that this process holds the connection, if the connection's `references` word is full. Called in a
    /// forked child before it uses its process slot.
    pub(crate) fn inherited(&self) {
        // A full `references` word stays full as long as the connection exists, so it was full at the fork as well.
        if References::from_word(self.references.load(Ordering::Acquire)).may_be_more() {
            let (word, bit) = self.bit();
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Returns true if this process holds the connection without an entry in `references`, the value of the
    /// connection's `references` word.
    #[inline]
    pub(super) fn is_held(&self, references: u64) -> bool {
        References::from_word(references).may_be_more() && self.looks_held()
    }

    #[cold]
    fn looks_held(&self) -> bool {
        let (word, bit) = self.bit();
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// Records that this process no longer holds the connection.
    pub(crate) fn let_go(&self) {
        process_slots::strike_me(&self.references);
        if MAY_BE.load(Ordering::Relaxed) {
            let (word, bit) = self.bit();
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    fn bit(&self) -> (&'static AtomicU64, u64) {
        let index = self.index.load(Ordering::Relaxed) as usize % CONNS;
        (&HELD[index / 64], 1 << (index % 64))
    }
}
