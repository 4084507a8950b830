//! Counts the threads that are inside a call during which something must not change, in memory that processes share.
//!
//! The first few threads are known by their robust-list entries ([`crate::robust_entry`]), so a thread that has been
//! killed or cancelled inside no longer counts. Further threads are only counted. A thread that was killed
//! inside, or has left by `longjmp`, may have left its work there unfinished ([`Callers::was_abandoned`]).

use crate::robust_entry;
use crate::shim::{AtomicU32, Ordering};
use crate::state;

/// Number of threads that are known one by one.
const KNOWN: usize = 3;
/// Set in `others` after a thread has taken the slot of a thread that was killed inside or has left by `longjmp`.
const ABANDONED: u32 = 1 << 31;

/// Count of active callers: the threads inside. All-zero memory means none.
#[derive(Debug)]
#[repr(C)]
pub struct Callers {
    known: [AtomicU32; KNOWN],
    others: AtomicU32,
}

/// Keeps the calling thread inside until this value is dropped.
#[derive(Debug)]
pub struct CountedCaller<'p> {
    at: &'p AtomicU32,
    is_known: bool,
}

impl Callers {
    /// Puts the calling thread inside. A thread that makes a change sees this before it checks whether any thread
    /// is inside. `is_first`: the calling thread is inside nowhere else, so an entry with its own word was left
    /// by `longjmp`.
    #[inline]
    pub fn enter(&self, is_first: bool) -> CountedCaller<'_> {
        let me = state::current(robust_entry::shared);
        let first = &self.known[0];
        // SYNC: pairs with the fence that a thread executes between its change and `is_empty`.
        let order = Ordering::SeqCst;
        if first.compare_exchange(0, me, order, Ordering::Relaxed).is_ok() {
            return CountedCaller { at: first, is_known: true };
        }
        self.enter_beside(me, is_first)
    }

    #[cold]
    #[inline(never)]
    fn enter_beside(&self, me: u32, is_first: bool) -> CountedCaller<'_> {
        for at in &self.known {
            let seen = at.load(Ordering::Relaxed);
            let may = seen == 0 || is_first && seen == me || !robust_entry::shared_lives(seen);
            if may && seen != 0 {
                self.others.fetch_or(ABANDONED, Ordering::SeqCst);
            }
            if may && at.compare_exchange(seen, me, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                return CountedCaller { at, is_known: true };
            }
        }
        self.others.fetch_add(1, Ordering::SeqCst);
        CountedCaller { at: &self.others, is_known: false }
    }

    /// Returns true if no living thread is inside.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let is_free = |at: &AtomicU32| match at.load(Ordering::SeqCst) {
            0 => true,
            owner => !robust_entry::shared_lives(owner),
        };
        self.known.iter().all(is_free) && self.others.load(Ordering::SeqCst) & !ABANDONED == 0
    }

    /// Returns true if a thread was killed inside or has left by `longjmp`. Valid only while no living thread is
    /// inside.
    pub fn was_abandoned(&self) -> bool {
        let is_taken = |at: &AtomicU32| at.load(Ordering::SeqCst) != 0;
        self.known.iter().any(is_taken) || self.others.load(Ordering::SeqCst) & ABANDONED != 0
    }

    /// Records that work inside may be unfinished. For callers that do not know what happened before.
    pub fn abandon(&self) {
        self.others.fetch_or(ABANDONED, Ordering::SeqCst);
    }

    /// Resets this to no threads, for something new.
    pub fn clear(&self) {
        self.known.iter().for_each(|at| at.store(0, Ordering::Relaxed));
        self.others.store(0, Ordering::Relaxed);
    }

    /// Copies the threads inside `other` to this.
    pub fn copy_from(&self, other: &Callers) {
        for (to, from) in self.known.iter().zip(&other.known) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.others.store(other.others.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Drop for CountedCaller<'_> {
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

    fn empty() -> Callers {
        // SAFETY: all fields are integers, for which all-zero memory is valid, and it means no threads.
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
        // The kernel marks the entry when the thread ends, which may be a moment after the join.
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
