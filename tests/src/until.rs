//! Waiting for something outside of this process.

use std::time::{Duration, Instant};

/// How long anything may take before it counts as hanging.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Waits until something holds.
///
/// # Panics
/// With `what`, when the watchdog has lost its patience.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + WATCHDOG;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
