//! How long a retreat waits for a peer that lives and does nothing.

use crate::conn::Guard;
use crate::pair;
use crate::stream::returned::DRAIN_NS;
use core::sync::atomic::Ordering;
use sovia_sys::{call, clock};

/// Then what can be done without the peer is done.
const LONGEST_NS: u64 = if cfg!(test) { u64::MAX } else { 2_000_000_000 };

/// Long enough for a peer that has been waited for in vain before, and is stopped now. (A relative of it may run on,
/// and answer.)
const SHORT_NS: u64 = 100_000_000;

/// From when on a peer is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    since: u64,
}

impl Patience {
    pub(crate) fn begin() -> Patience {
        Patience { since: clock::now_ns() }
    }

    /// Whether the peer has been waited for, so that it is worth asking whether it lives.
    pub(super) fn is_used(self) -> bool {
        clock::now_ns() - self.since >= DRAIN_NS
    }

    /// Whether the peer has been waited for long enough.
    pub(super) fn is_over(self, guard: &Guard<'_>) -> bool {
        let waited = clock::now_ns() - self.since;
        if waited < SHORT_NS {
            return false;
        }
        let pair = pair::of(guard);
        // The number of a stranger may be another process's here. One that does not answer may do so for no reason.
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

/// The peer has done its part.
pub(super) fn answered(guard: &Guard<'_>) {
    if let Some(pair) = pair::of(guard)
        && pair.silent.load(Ordering::Relaxed)
    {
        pair.silent.store(false, Ordering::Relaxed);
    }
}
