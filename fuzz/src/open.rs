//! Descriptors that are open: a target must leave as many as it found.

use std::time::{Duration, Instant};

/// Time within which a thread must close the descriptors that other processes have sent.
const PATIENCE: Duration = Duration::from_secs(5);

/// The descriptors of this process, by number.
pub fn descriptors() -> Vec<i32> {
    let mut all = Vec::with_capacity(64);
    sovia_sys::call::each_descriptor(|fd| all.push(fd));
    all.sort_unstable();
    all
}

/// Checks that soon no more descriptors are open than in `before`.
///
/// # Panics
/// If one stays open.
pub fn expect_no_more_than(before: &[i32]) {
    let begun = Instant::now();
    loop {
        let now = descriptors();
        if now.len() <= before.len() {
            return;
        }
        if begun.elapsed() > PATIENCE {
            let left: Vec<_> = now.iter().filter(|fd| !before.contains(fd)).collect();
            let what = |fd: &&i32| (**fd, std::fs::read_link(format!("/proc/self/fd/{fd}")));
            panic!("descriptors left open: {:?}", left.iter().map(what).collect::<Vec<_>>());
        }
        std::thread::yield_now();
    }
}
