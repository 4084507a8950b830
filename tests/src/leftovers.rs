//! What a run may not leave behind: files in shared memory and abstract names.

use std::collections::BTreeSet;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What was there before.
#[derive(Debug)]
pub struct Leftovers(BTreeSet<String>);

impl Leftovers {
    /// Looks around before a run.
    pub fn before() -> Self {
        Self(present())
    }

    /// What has come since and stays: what dying processes leave to the kernel is given time to go,
    /// and so are the processes of tests that run beside this one, which have names of their own.
    pub fn after(&self) -> BTreeSet<String> {
        let deadline = Instant::now() + Duration::from_secs(90);
        let mut new: BTreeSet<String> = present().difference(&self.0).cloned().collect();
        while !new.is_empty() && Instant::now() < deadline {
            sleep(Duration::from_millis(50));
            // What others make in the meantime is not ours.
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
