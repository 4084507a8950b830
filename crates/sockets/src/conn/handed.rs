//! Counts the programs outside the family that have got a connection's socket from the family.

use super::Conn;
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use sovia_control::stats_page::References;

/// Smallest value of `handed` that means several programs. Also added if the number of programs is not known.
const SEVERAL: u32 = 2;

/// Number of bytes, from the start of a [`Conn`], that [`Holding::of`] decodes. These are the words that do not
/// change with each transfer.
pub(crate) const RECORD: usize = offset_of!(Conn, transfers);

/// Copy of the words of a [`Conn`] that say which processes and programs hold the connection. The connection may
/// belong to another family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holding {
    generation: u32,
    handed: u32,
    spread: u32,
    /// Processes of the family that hold the connection.
    pub(crate) references: References,
}

impl Holding {
    /// Hash of the positions of these words in [`Conn`]. Another build of the library may have other positions.
    pub(crate) const LAYOUT: u64 = {
        let places = [
            offset_of!(Conn, generation),
            offset_of!(Conn, handed),
            offset_of!(Conn, spread),
            offset_of!(Conn, references),
        ];
        let (mut sum, mut i) = (size_of::<Conn>() as u64, 0);
        while i < places.len() {
            sum = sum.wrapping_mul(0x100_0003) ^ places[i] as u64;
            i += 1;
        }
        sum
    };

    /// Decodes the first bytes of a [`Conn`].
    pub(crate) fn of(record: &[u8; RECORD]) -> Holding {
        let half = |at: usize| {
            let bytes = [record[at], record[at + 1], record[at + 2], record[at + 3]];
            u32::from_ne_bytes(bytes)
        };
        let at = offset_of!(Conn, references);
        let (low, high) = (u64::from(half(at)), u64::from(half(at + 4)));
        let references =
            if cfg!(target_endian = "little") { high << 32 | low } else { low << 32 | high };
        Holding {
            generation: half(offset_of!(Conn, generation)),
            handed: half(offset_of!(Conn, handed)),
            spread: half(offset_of!(Conn, spread)),
            references: References::from_word(references),
        }
    }

    /// Returns true if the slot's generation was `generation` when the words were read.
    pub(crate) fn is_of(&self, generation: u32) -> bool {
        self.generation == generation
    }

    /// Returns true if generation `generation` ended while the words were being read: the generation was read
    /// before the end, and `handed` after the end.
    pub(crate) fn is_settling(&self, generation: u32) -> bool {
        self.is_of(generation) && self.handed == 0
    }

    /// Returns true if more than one program outside the family may have got the connection in generation
    /// `generation`. This generation may have ended.
    pub(crate) fn is_spread(&self, generation: u32) -> bool {
        // `spread` stores only the last generation in which several programs got the connection. So this is true
        // for all earlier generations as well.
        let last = self.spread.checked_sub(1);
        let is_hidden = last.is_some_and(|last| last.wrapping_sub(generation) as i32 >= 0);
        is_hidden || self.is_of(generation) && self.handed >= SEVERAL
    }
}

impl Conn {
    /// Counts a program outside the family that is about to get the connection. Returns true if no other program
    /// has got the connection before.
    pub(crate) fn hand(&self) -> bool {
        self.handed.fetch_add(1, Ordering::AcqRel) == 0
    }

    /// Reverses [`Conn::hand`] if the program has not got the connection after all.
    pub(crate) fn take_back(&self) {
        // The count may already be 0, because the connection's generation may have ended.
        let less = |handed: u32| handed.checked_sub(1);
        let _ = self.handed.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
    }

    /// Returns true if no program outside the family has got the connection.
    pub(crate) fn is_the_familys(&self) -> bool {
        self.handed.load(Ordering::Acquire) == 0
    }

    /// Records that an unknown number of processes outside the family may get the connection.
    pub(crate) fn spread(&self) {
        self.handed.fetch_add(SEVERAL, Ordering::AcqRel);
    }

    /// Called just before the generation changes to `next`. If several programs have got the connection, stores
    /// this in `spread`. The caller clears `handed` later, so a process that reads `handed` and `spread` always
    /// finds one of the two words set.
    pub(super) fn note_spread(&self, next: u32) {
        if self.handed.load(Ordering::Acquire) >= SEVERAL {
            self.spread.store(next, Ordering::Release);
        }
    }

    /// Clears the count of programs after the generation has ended.
    pub(super) fn forget_handed(&self) {
        self.handed.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(conn: &Conn) -> Holding {
        // SAFETY: no other thread has a reference to `conn`. Its memory was allocated as zeros, so padding bytes
        // are initialised as well.
        Holding::of(unsafe { &*core::ptr::from_ref(conn).cast() })
    }

    fn new() -> Box<Conn> {
        // SAFETY: all-zero memory is a valid `Conn`, a free slot.
        unsafe { Box::new_zeroed().assume_init() }
    }

    #[test]
    fn one_program_is_not_several() {
        let conn = new();
        assert!(conn.hand() && !record(&conn).is_spread(0));
        assert!(!conn.hand() && record(&conn).is_spread(0));
        conn.take_back();
        assert!(!record(&conn).is_spread(0));
    }

    #[test]
    fn a_spread_generation_is_reported_after_its_end() {
        let conn = new();
        for generation in 0..5 {
            assert!(conn.hand());
            if generation == 3 {
                conn.spread();
            }
            assert!(conn.end(generation) && !conn.end(generation), "one caller ends a life");
        }
        let now = record(&conn);
        assert!(now.is_of(5) && !now.is_of(3));
        assert!(now.is_spread(3) && !now.is_spread(4));
        // Only generation 3 was spread. Earlier generations count as spread too, because `spread` stores only the
        // last one.
        assert!(now.is_spread(2));
    }
}
