//! Encodes and decodes the words of the table.

use super::{Entry, Ref};
use crate::conn::Conn;
use crate::{family, process};

pub(super) const KIND: u64 = 0xff << 56;
pub(super) const CONN: u64 = 1 << 56;
pub(super) const EPOLL: u64 = 2 << 56;
pub(super) const PRIVATE: u64 = 3 << 56;
/// Kind of a TCP socket without a connection. The word says nothing else about the socket except if it is fresh.
pub(super) const TCP: u64 = 4 << 56;

impl Ref {
    pub(super) fn word(self) -> u64 {
        CONN | u64::from(self.generation & 0xff_ffff) << 32 | u64::from(self.index)
    }
}

#[inline(always)]
fn refer_to(word: u64, conn: &'static Conn) -> Ref {
    Ref { index: word as u32, generation: (word >> 32) as u32 & 0xff_ffff, conn }
}

#[inline]
pub(super) fn decode(word: u64) -> Entry {
    match word & KIND {
        CONN => match family::conn(word as u32) {
            Some(conn) => Entry::Conn(refer_to(word, conn)),
            None => Entry::Foreign,
        },
        EPOLL => Entry::Epoll(word as u32),
        PRIVATE => Entry::Private,
        _ => Entry::Foreign,
    }
}

/// Returns the connection that `word` means, if the connection lies in the family's first chunk. `None` for all
/// other words. Short, because every call uses this function.
#[inline(always)]
pub(super) fn conn_at_once(word: u64) -> Option<Ref> {
    if word & KIND == CONN && process::is_at_home() {
        let conn = family::conn_among_first(word as u32)?;
        Some(refer_to(word, conn))
    } else {
        None
    }
}
