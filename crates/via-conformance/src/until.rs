//! Waits until a condition is true, or checks that it stays false.

use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
const A_WHILE: Duration = Duration::from_millis(30);
const PAUSE: Duration = Duration::from_micros(100);

/// Polls until the condition is true. Panics if that takes too long.
#[track_caller]
pub(super) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "not yet: {what}");
        thread::sleep(PAUSE);
    }
}

/// Polls for a while, and panics if the condition becomes true.
#[track_caller]
pub(super) fn never(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while begin.elapsed() < A_WHILE {
        assert!(!is_so(), "but: {what}");
        thread::sleep(PAUSE);
    }
}
