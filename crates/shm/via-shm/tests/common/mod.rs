//! Runs one part of a test in another process, by starting the test binary again.

#![allow(dead_code, reason = "each test file uses what it needs")]

pub(crate) mod intruder;

use std::env;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum time of a test on a busy machine. After this time the test counts as hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// Starts this test binary again to run only the test `role`, with `variables` set. The child shares this process's
/// standard error, so its failure is visible even if this process hangs or fails first.
pub(crate) fn start(role: &str, variables: &[(&str, &str)]) -> Child {
    Command::new(env::current_exe().unwrap())
        .args([role, "--exact", "--nocapture", "--test-threads=1"])
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until a process ends successfully. Otherwise returns its output as the error.
pub(crate) fn finish(mut child: Child) -> Result<(), String> {
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err(format!("hangs\n{}", output(&mut child)));
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    if status.success() { Ok(()) } else { Err(format!("{status}\n{}", output(&mut child))) }
}

fn output(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(stdout) = &mut child.stdout {
        let _ = stdout.read_to_string(&mut text);
    }
    text
}

/// Resources of a process that must not grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holdings {
    descriptors: usize,
    segments: usize,
    threads: usize,
}

/// Returns this process's resources. For a test that runs alone in its process.
pub(crate) fn left_behind() -> Holdings {
    let count = |folder| std::fs::read_dir(folder).unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    Holdings {
        descriptors: count("/proc/self/fd"),
        segments: maps.matches("/memfd:sovia").count(),
        threads: count("/proc/self/task"),
    }
}

impl Holdings {
    /// Waits until this process has no more resources than `self`. Threads take a moment to end.
    #[track_caller]
    pub(crate) fn is_all_there_is(&self) {
        let begin = Instant::now();
        loop {
            let now = left_behind();
            let more = now.descriptors > self.descriptors
                || now.segments > self.segments
                || now.threads > self.threads;
            if !more {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{now:?} instead of {self:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Maximum processor time of a process that sleeps for a few seconds.
pub(crate) const SLEEP_COST: Duration = Duration::from_millis(10);

/// Returns the processor time of this process.
fn cpu_time() -> Duration {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a live, writable timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut ts) };
    Duration::new(ts.tv_sec as u64, ts.tv_nsec as u32)
}

/// Returns the processor time of `wait`. Repeats an expensive call and returns the least time. On a virtual machine,
/// time for which the host takes the processor away counts as time of the running process.
pub(crate) fn least_cost(mut wait: impl FnMut()) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..5 {
        let before = cpu_time();
        wait();
        least = least.min(cpu_time() - before);
        if least < SLEEP_COST {
            break;
        }
    }
    least
}

/// A small random number generator (xorshift), so that a failure can be repeated.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Uses the seed from the environment variable `SEED`, or `default`, and prints it.
    pub(crate) fn seeded(default: u64) -> Random {
        let seed = env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(default);
        println!("SEED={seed}");
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Returns a random element of `all`.
    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
