//! Calls that wait. Progress is made by calls, so one that waits makes it until its time is over, and offers the processor
//! to other threads meanwhile.

use std::time::{Duration, Instant};

/// Turns without news after which the processor is offered to others.
const SPINS: u32 = 1000;

/// `FI_WAIT_NONE`, `FI_WAIT_UNSPEC`, `FI_WAIT_YIELD`: those that need no object.
pub(crate) const WAITS: [i32; 3] = [0, 1, 5];

/// A wait for at most some milliseconds, or without end.
#[derive(Debug)]
pub(crate) struct Wait {
    until: Option<Instant>,
    turns: u32,
}

impl Wait {
    /// As libfabric has timeouts: negative is without end.
    pub(crate) fn new(timeout: i32) -> Wait {
        let left = u64::try_from(timeout).ok().map(Duration::from_millis);
        Wait { until: left.map(|left| Instant::now() + left), turns: 0 }
    }

    /// Whether there is time for another turn.
    pub(crate) fn go_on(&mut self) -> bool {
        self.turns += 1;
        if self.turns > SPINS {
            std::thread::yield_now();
        }
        self.until.is_none_or(|until| Instant::now() < until)
    }
}
