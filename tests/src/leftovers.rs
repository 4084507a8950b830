//! Files in shared memory and abstract names, which a run must not leave behind.

use std::collections::BTreeSet;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Files and names that existed before the run.
#[derive(Debug)]
pub struct Leftovers(BTreeSet<String>);

impl Leftovers {
    /// Lists what exists before a run.
    pub fn before() -> Self {
        Self(present())
    }

    /// Returns new files and names that stay. Waits for the kernel to remove those of dying
    /// processes. Waits also for processes of other tests, which run at the same time and have
    /// files and names of their own.
    pub fn after(&self) -> BTreeSet<String> {
        let deadline = Instant::now() + Duration::from_secs(90);
        let mut new: BTreeSet<String> = present().difference(&self.0).cloned().collect();
        while !new.is_empty() && Instant::now() < deadline {
            sleep(Duration::from_millis(50));
            // Ignore files and names that others make meanwhile.
            new = new.intersection(&present()).cloned().collect();
        }
        new
    }
}

fn present() -> BTreeSet<String> {
    let shared_memory = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let files = shared_memory.map(|entry| entry.path().display().to_string());
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let names = sockets.lines().filter_map(|line| line.split_whitespace().nth(7));
    let ours = names.filter(|name| name.starts_with('@') && name.contains("sovia"));
    files.chain(ours.map(String::from)).collect()
}
