//! Threads that are inside something which must not change under them, in memory that processes share.
//!
//! Each of the first few is known by its record ([`crate::record`]), so one that has been killed or cancelled
//! inside is there no more. What is beyond them is only counted. A thread that has been killed inside, or has left
//! by `longjmp`, may have left unfinished what it did there ([`Presence::was_abandoned`]).

use crate::record;
use crate::shim::{AtomicU32, Ordering};
use crate::state;

/// Threads that are known one by one.
const KNOWN: usize = 3;
/// Of `others`: a thread has taken the place of one that was killed inside or had left by `longjmp`.
const ABANDONED: u32 = 1 << 31;

/// The threads inside. All-zero memory: none.
#[derive(Debug)]
#[repr(C)]
pub struct Presence {
    known: [AtomicU32; KNOWN],
    others: AtomicU32,
}

/// The calling thread is inside until this is dropped.
#[derive(Debug)]
pub struct Present<'p> {
    at: &'p AtomicU32,
    is_known: bool,
}

impl Presence {
    /// The calling thread goes inside, which threads that change something see before it looks whether they have.
    /// `is_first`: it is inside nowhere else, so that where it is still known it has left by `longjmp`.
    #[inline]
    pub fn enter(&self, is_first: bool) -> Present<'_> {
        let me = state::current(record::shared);
        let first = &self.known[0];
        // SYNC: with the fence that a thread puts between its change and `is_empty`.
        let order = Ordering::SeqCst;
        if first.compare_exchange(0, me, order, Ordering::Relaxed).is_ok() {
            return Present { at: first, is_known: true };
        }
        self.enter_beside(me, is_first)
    }

    #[cold]
    #[inline(never)]
    fn enter_beside(&self, me: u32, is_first: bool) -> Present<'_> {
        for at in &self.known {
            let seen = at.load(Ordering::Relaxed);
            let may = seen == 0 || is_first && seen == me || !record::shared_lives(seen);
            if may && seen != 0 {
                self.others.fetch_or(ABANDONED, Ordering::SeqCst);
            }
            if may && at.compare_exchange(seen, me, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                return Present { at, is_known: true };
            }
        }
        self.others.fetch_add(1, Ordering::SeqCst);
        Present { at: &self.others, is_known: false }
    }

    /// Whether no living thread is inside.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let is_free = |at: &AtomicU32| match at.load(Ordering::SeqCst) {
            0 => true,
            owner => !record::shared_lives(owner),
        };
        self.known.iter().all(is_free) && self.others.load(Ordering::SeqCst) & !ABANDONED == 0
    }

    /// Whether a thread has been killed inside or has left by `longjmp`, where no living one is inside.
    pub fn was_abandoned(&self) -> bool {
        let is_taken = |at: &AtomicU32| at.load(Ordering::SeqCst) != 0;
        self.known.iter().any(is_taken) || self.others.load(Ordering::SeqCst) & ABANDONED != 0
    }

    /// What was done before is not known.
    pub fn abandon(&self) {
        self.others.fetch_or(ABANDONED, Ordering::SeqCst);
    }

    /// For something new: no thread is inside.
    pub fn clear(&self) {
        self.known.iter().for_each(|at| at.store(0, Ordering::Relaxed));
        self.others.store(0, Ordering::Relaxed);
    }

    /// The threads inside `other` are inside this, too.
    pub fn copy_from(&self, other: &Presence) {
        for (to, from) in self.known.iter().zip(&other.known) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.others.store(other.others.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Drop for Present<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_known {
            self.at.store(0, Ordering::SeqCst);
        } else {
            self.at.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn empty() -> Presence {
        // SAFETY: all-zero memory is one without threads.
        unsafe { core::mem::zeroed() }
    }

    #[test]
    fn threads_are_inside_until_they_leave() {
        let room = empty();
        let first = room.enter(true);
        let all: Vec<_> = (0..2 * KNOWN).map(|_| room.enter(false)).collect();
        drop(first);
        assert!(!room.is_empty());
        drop(all);
        assert!(room.is_empty() && !room.was_abandoned());
    }

    #[test]
    fn a_thread_that_has_ended_inside_is_there_no_more() {
        let room = empty();
        std::thread::scope(|scope| {
            for _ in 0..KNOWN {
                scope.spawn(|| core::mem::forget(room.enter(true))).join().unwrap();
            }
        });
        // The kernel marks the record when the thread ends, a moment after it can be joined.
        while !room.is_empty() {
            std::thread::yield_now();
        }
        assert!(room.was_abandoned());
        let mine = room.enter(true);
        assert!(!room.is_empty() && mine.is_known);
    }

    #[test]
    fn a_thread_that_has_left_by_longjmp_is_inside_once() {
        let room = empty();
        core::mem::forget(room.enter(true));
        drop(room.enter(true));
        assert!(room.is_empty() && room.was_abandoned());
        core::mem::forget(room.enter(true));
        let handlers = room.enter(false);
        drop(handlers);
        assert!(!room.is_empty());
    }
}
