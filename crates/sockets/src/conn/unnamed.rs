//! Connections that this process holds without a name among their holders.
//!
//! A word of holders has room for some 60 names ([`Holders`]). A child that inherits a connection whose word is full is not
//! named there. Nothing that others can see says that it holds the connection, so it keeps that to itself.

use super::{CONNS, Conn};
use crate::members;
use crate::per_engine::{per_engine, per_engine_tables};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sovia_control::board::Holders;

per_engine_tables! {
    /// A bit for each connection.
    static HELD: [AtomicU64; CONNS / 64] = [const { AtomicU64::new(0) }; CONNS / 64];
}

per_engine! {
    /// This process, one that it is a copy of, or a child of its, holds such a connection.
    static MAY_BE: AtomicBool = AtomicBool::new(false);
}

/// Before fork: the child inherits a connection whose word does not name it.
pub(crate) fn expect() {
    MAY_BE.store(true, Ordering::Relaxed);
}

/// Returns true in a child that may have inherited one. It calls [`Conn::inherited`] for each connection in its table then.
pub(crate) fn may_be() -> bool {
    MAY_BE.load(Ordering::Relaxed)
}

impl Conn {
    /// In a forked child, before it has its place: this process holds the connection.
    pub(crate) fn inherited(&self) {
        // A word that is full stays so for as long as the connection lives.
        if Holders::from_word(self.holders.load(Ordering::Acquire)).may_be_more() {
            let (word, bit) = self.bit();
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Returns true if this process holds the connection, as far as those `holders` do not say it.
    #[inline]
    pub(super) fn is_held(&self, holders: u64) -> bool {
        Holders::from_word(holders).may_be_more() && self.looks_held()
    }

    #[cold]
    fn looks_held(&self) -> bool {
        let (word, bit) = self.bit();
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// This process holds the connection no more.
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
