//! The order of locks, as a number (rank) for each kind of lock.
//!
//! A thread that holds a lock waits only for locks of a higher rank. Debug builds assert this. A lock without a
//! rank is outside the order. A fork takes the process's locks in this order, including all locks of the same
//! rank.

use crate::state::{self, State};

/// No rank: a thread never holds such a lock together with another one of the same kind.
pub const NONE: u8 = 0;
/// Lock of one step of a rendezvous, or of the recording of a new connection.
pub const STEP: u8 = 1;
/// Lock of the rendezvous under way.
pub const RENDEZVOUS_TABLE: u8 = 2;
/// Lock of the reactor, which notifies other event loops.
pub const REACTOR: u8 = 3;
/// Lock of an epoll set. The set reads its connections under this lock.
pub const EPOLL_SET: u8 = 4;
/// Lock of a connection. A thread never takes two of them.
pub const CONNECTION: u8 = 5;
/// Lock for the start of a thread.
pub const THREAD: u8 = 6;
/// Lock of the queue of connections whose callbacks the handler thread must call.
pub const CALLS: u8 = 7;
/// Lock of the list of pairs that the handler thread serves.
pub const SERVED_PAIRS: u8 = 8;
/// Lock of the list of sockets from which a pair's segment was offered.
pub const OFFERS: u8 = 9;
/// Lock of the notification sockets that a peer by rule is about to get.
pub const FILE: u8 = 10;
/// Lock of the table of pairs.
pub const PAIRS: u8 = 11;
/// Lock of the epoll instances that watch this process's doorbells.
pub const DOORBELLS: u8 = 12;
/// Lock of the pairs that have left the table.
pub const PAIRS_LEFT: u8 = 13;
/// Lock of the descriptors that notify peers of this process's death.
pub const NOTICES: u8 = 14;
/// Lock of the list of processes that have met this one.
pub const PEERS: u8 = 15;
/// Lock of the queue of descriptors to close.
pub const CLOSING: u8 = 16;
/// Lock of the closed descriptors that are kept for calls in progress.
pub const RETAINED: u8 = 17;
/// Lock of the list of VIs that their connections have left while the program still has loans.
pub const LENT: u8 = 18;
/// Lock of the uses that found no free hazard word ([`crate::hazard`]).
pub const USED: u8 = 19;
/// Lock of the closed connections that still have work to do.
pub const LINGERING: u8 = 20;
/// Lock of the reports by the agent that watches packet filters.
pub const FILTERS: u8 = 21;

/// Records that the calling thread has taken a lock for which it would have waited.
#[inline(always)]
pub(crate) fn taken_on(state: &State, rank: u8) {
    if cfg!(debug_assertions) && rank != NONE {
        let held = state.ranks.get();
        debug_assert!(held >> rank == 0, "lock of rank {rank} under those of ranks {held:#b}");
        state.ranks.set(held | 1 << rank);
    }
}

/// Records that the calling thread has taken a lock without waiting, or one of several locks of a rank.
#[inline(always)]
pub(crate) fn added_on(state: &State, rank: u8) {
    if cfg!(debug_assertions) && rank != NONE {
        state.ranks.set(state.ranks.get() | 1 << rank);
    }
}

/// Records that the calling thread has taken a lock. `limit` says how long it would have waited: a duration or a time,
/// and 0 if not at all.
#[inline(always)]
pub(crate) fn taken_within_on(state: &State, rank: u8, limit: u64) {
    if limit == 0 { added_on(state, rank) } else { taken_on(state, rank) }
}

/// Records that the calling thread has released a lock.
#[inline(always)]
pub(crate) fn given_back(rank: u8) {
    if cfg!(debug_assertions) && rank != NONE {
        state::current(|state| state.ranks.set(state.ranks.get() & !(1 << rank)));
    }
}
