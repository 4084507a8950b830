//! The order of locks, as a number for each kind of lock.
//!
//! A thread that holds one lock waits for another one only if that has a higher rank. Debug builds assert
//! it. A lock without a rank stands outside the order. A fork takes the locks of the process in this
//! order, and all those of one rank.

use crate::state::{self, State};

/// No rank: the lock is never held together with another one of its kind.
pub const NONE: u8 = 0;
/// A step of a meeting.
pub const STEP: u8 = 1;
/// The meetings under way.
pub const MEETINGS: u8 = 2;
/// The reactor, which tells the event loops of others.
pub const REACTOR: u8 = 3;
/// An epoll set. It looks at its connections under its own lock.
pub const SET: u8 = 4;
/// A connection; never two.
pub const CONNECTION: u8 = 5;
/// The start of a thread.
pub const THREAD: u8 = 6;
/// Which threads the handlers' thread is to call.
pub const CALLS: u8 = 7;
/// What handlers serve.
pub const LANES: u8 = 8;
/// Those that a pair's segment is offered to.
pub const OFFERS: u8 = 9;
/// A pair's segment as a descriptor, until both ends have it.
pub const FILE: u8 = 10;
/// The table of pairs.
pub const PAIRS: u8 = 11;
/// Where this process's doorbells are watched.
pub const DOORS: u8 = 12;
/// Pairs that have left the table.
pub const PAIRS_LEFT: u8 = 13;
/// The notices of this process's death.
pub const NOTICES: u8 = 14;
/// The processes that have met this one.
pub const PEERS: u8 = 15;
/// What is to be closed.
pub const CLOSING: u8 = 16;
/// What is kept for calls that go on.
pub const KEPT: u8 = 17;
/// VIs that are left when the program has given its places back.
pub const LENT: u8 = 18;
/// What is used by threads that have no word for it ([`crate::hazard`]).
pub const USED: u8 = 19;
/// Ends of rests that a program is about to get.
pub const AT_HAND: u8 = 20;
/// Connections that have been closed, for which something is still to be done.
pub const LINGERING: u8 = 21;
/// Reports of the agent that watches packet filters.
pub const FILTERS: u8 = 22;

/// The calling thread has got a lock for which it would have waited.
#[inline(always)]
pub(crate) fn taken_on(state: &State, rank: u8) {
    if cfg!(debug_assertions) && rank != NONE {
        let held = state.ranks.get();
        debug_assert!(held >> rank == 0, "lock of rank {rank} under those of ranks {held:#b}");
        state.ranks.set(held | 1 << rank);
    }
}

/// The calling thread has got a lock for which it would not have waited, or one of several of a rank.
#[inline(always)]
pub(crate) fn added_on(state: &State, rank: u8) {
    if cfg!(debug_assertions) && rank != NONE {
        state.ranks.set(state.ranks.get() | 1 << rank);
    }
}

/// The calling thread has got a lock for which it would have waited for so many nanoseconds.
#[inline(always)]
pub(crate) fn taken_within_on(state: &State, rank: u8, ns: u64) {
    if ns == 0 { added_on(state, rank) } else { taken_on(state, rank) }
}

/// The calling thread has given a lock back.
#[inline(always)]
pub(crate) fn given_back(rank: u8) {
    if cfg!(debug_assertions) && rank != NONE {
        state::current(|state| state.ranks.set(state.ranks.get() & !(1 << rank)));
    }
}
