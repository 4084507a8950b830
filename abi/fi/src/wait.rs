//! Waits in calls. Only calls make progress, so a waiting call makes progress until its time limit. After some rounds
//! it also yields the processor to other threads.

use std::time::{Duration, Instant};

/// Number of rounds after which each round yields the processor.
const SPINS: u32 = 1000;

/// `FI_WAIT_NONE`, `FI_WAIT_UNSPEC` and `FI_WAIT_YIELD`: the kinds of waits that need no object.
pub(crate) const WAITS: [i32; 3] = [0, 1, 5];

/// A wait with or without a time limit.
#[derive(Debug)]
pub(crate) struct Wait {
    until: Option<Instant>,
    turns: u32,
}

impl Wait {
    /// Starts a wait of `timeout` milliseconds. A negative timeout means no limit, as in libfabric.
    pub(crate) fn new(timeout: i32) -> Wait {
        let left = u64::try_from(timeout).ok().map(Duration::from_millis);
        Wait { until: left.map(|left| Instant::now() + left), turns: 0 }
    }

    /// Counts a round, and returns true if the time limit has not passed.
    pub(crate) fn go_on(&mut self) -> bool {
        self.turns += 1;
        if self.turns > SPINS {
            std::thread::yield_now();
        }
        self.until.is_none_or(|until| Instant::now() < until)
    }
}
