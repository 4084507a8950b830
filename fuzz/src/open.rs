//! Descriptors that are open: a target must leave as many as it found.

use std::time::{Duration, Instant};

/// How long descriptors that strangers have sent may take to be closed, by the thread that does so.
const PATIENCE: Duration = Duration::from_secs(5);

/// The descriptors of this process, by number.
pub fn descriptors() -> Vec<i32> {
    let mut all = Vec::with_capacity(64);
    sovia_sys::call::each_descriptor(|fd| all.push(fd));
    all.sort_unstable();
    all
}

/// That no more are open than `before`, soon.
///
/// # Panics
/// If one is left: that is what the target is to find.
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
