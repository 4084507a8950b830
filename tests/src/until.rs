//! Waits for events outside of this process.

use std::time::{Duration, Instant};

/// Time after which anything counts as hanging.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Waits until a condition holds.
///
/// # Panics
/// With `what`, if the condition does not hold in time.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + WATCHDOG;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
