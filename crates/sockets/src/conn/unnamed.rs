//! Tracks connections that this process holds without an entry among their holders.
//!
//! A connection's word of holders has room for up to about 60 process slots ([`Holders`]). If the word is full, a child
//! that inherits the connection has no entry. No other process can then see that the child holds the connection, so the
//! child records it privately.

use super::{CONNS, Conn};
use crate::members;
use crate::per_engine::{per_engine, per_engine_tables};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sovia_control::board::Holders;

per_engine_tables! {
    /// Bitmap of connections that this process holds without an entry.
    static HELD: [AtomicU64; CONNS / 64] = [const { AtomicU64::new(0) }; CONNS / 64];
}

per_engine! {
    /// Set if this process holds such a connection. Also set if a child of this process does, or the process that this
    /// one was forked from.
    static MAY_BE: AtomicBool = AtomicBool::new(false);
}

/// Called before a fork whose child inherits a connection without getting an entry.
pub(crate) fn expect() {
    MAY_BE.store(true, Ordering::Relaxed);
}

/// Returns true in a child that may have inherited such a connection. The child then calls [`Conn::inherited`] for each
/// connection in its table.
pub(crate) fn may_be() -> bool {
    MAY_BE.load(Ordering::Relaxed)
}

impl Conn {
    /// Records in a forked child, before it has its process slot, that this process holds the connection.
    pub(crate) fn inherited(&self) {
        // A full word stays full for as long as the connection lives.
        if Holders::from_word(self.holders.load(Ordering::Acquire)).may_be_more() {
            let (word, bit) = self.bit();
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Returns true if this process holds the connection without an entry in `holders`.
    #[inline]
    pub(super) fn is_held(&self, holders: u64) -> bool {
        Holders::from_word(holders).may_be_more() && self.looks_held()
    }

    #[cold]
    fn looks_held(&self) -> bool {
        let (word, bit) = self.bit();
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// Records that this process no longer holds the connection.
    pub(crate) fn let_go(&self) {
        members::strike_me(&self.holders);
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
