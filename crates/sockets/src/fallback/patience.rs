//! Time limit of a fallback for a peer that is alive but does not do its part.

use crate::conn::Guard;
use crate::pair;
use crate::stream::returned::DRAIN_NS;
use core::sync::atomic::Ordering;
use sovia_sys::{call, clock};

/// Nanoseconds after which a fallback continues without the peer.
const LONGEST_NS: u64 = if cfg!(test) { u64::MAX } else { 2_000_000_000 };

/// Time limit in nanoseconds for a stopped peer that has let an earlier fallback time out. The limit is not 0,
/// because a running relative of the peer may answer.
const SHORT_NS: u64 = 100_000_000;

/// Time at which the wait for a peer began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    since: u64,
}

impl Patience {
    pub(crate) fn begin() -> Patience {
        Patience { since: clock::now_ns() }
    }

    /// Returns true once the thread has waited so long that it should ask the kernel if the peer is alive.
    pub(super) fn is_used(self) -> bool {
        clock::now_ns() - self.since >= DRAIN_NS
    }

    /// Returns true once the time limit has passed.
    pub(super) fn is_over(self, guard: &Guard<'_>) -> bool {
        let waited = clock::now_ns() - self.since;
        if waited < SHORT_NS {
            return false;
        }
        let pair = pair::of(guard);
        // Treat a peer by rule as stopped. Its process id may name another process in this PID namespace, and the
        // peer may stay silent on purpose.
        let is_stopped = || {
            pair.is_some_and(|pair| pair.other_user.is_some() || call::is_stopped(pair.peer.pid))
        };
        if waited < LONGEST_NS {
            return pair.is_some_and(|pair| pair.silent.load(Ordering::Relaxed)) && is_stopped();
        }
        if let Some(pair) = pair
            && is_stopped()
        {
            pair.silent.store(true, Ordering::Relaxed);
        }
        true
    }
}

/// Records that the peer has done its part of a fallback, so that the next fallback waits for the full time limit.
pub(super) fn answered(guard: &Guard<'_>) {
    if let Some(pair) = pair::of(guard)
        && pair.silent.load(Ordering::Relaxed)
    {
        pair.silent.store(false, Ordering::Relaxed);
    }
}
