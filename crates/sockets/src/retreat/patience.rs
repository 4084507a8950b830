//! How long a retreat waits for a peer that lives and does nothing.

use crate::conn::Guard;
use crate::pair;
use core::sync::atomic::Ordering;
use sovia_sys::{call, clock};

/// Then what can be done without the peer is done.
const LONGEST_NS: u64 = 2_000_000_000;

/// Of one call of the program's, however many connections that takes back: where a peer is stopped that has many
/// of them, the call waits once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    since: u64,
}

impl Patience {
    pub(crate) fn begin() -> Patience {
        Patience { since: clock::now_ns() }
    }

    /// Whether the peer has been waited for long enough: by this call, or by an earlier one since which it has been
    /// stopped.
    pub(super) fn is_over(self, guard: &Guard<'_>) -> bool {
        let pair = pair::of(guard);
        if clock::now_ns() - self.since >= LONGEST_NS {
            if let Some(pair) = pair {
                pair.silent.store(true, Ordering::Relaxed);
            }
            return true;
        }
        pair.is_some_and(|pair| {
            pair.silent.load(Ordering::Relaxed) && call::is_stopped(pair.peer.pid)
        })
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
