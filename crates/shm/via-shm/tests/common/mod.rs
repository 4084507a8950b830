//! Running one part of a test in another process: the test binary, started again.

#![allow(dead_code, reason = "each test file uses what it needs")]

pub(crate) mod intruder;

use std::env;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough for every test on a busy machine; then it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// Starts this test binary again, to run the test `role` alone, with `variables` set. What it says of its
/// failure goes where this process's words go, so that it is seen although this one hangs or fails first.
pub(crate) fn start(role: &str, variables: &[(&str, &str)]) -> Child {
    Command::new(env::current_exe().unwrap())
        .args([role, "--exact", "--nocapture", "--test-threads=1"])
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for a process to end well; what it says where it does not.
pub(crate) fn finish(mut child: Child) -> Result<(), String> {
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            return Err(format!("hangs\n{}", said(&mut child)));
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    if status.success() { Ok(()) } else { Err(format!("{status}\n{}", said(&mut child))) }
}

fn said(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(stdout) = &mut child.stdout {
        let _ = stdout.read_to_string(&mut text);
    }
    text
}

/// What a process holds that must not grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holdings {
    descriptors: usize,
    segments: usize,
    threads: usize,
}

/// What this process holds now. For a test that has its process to itself.
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
    /// Soon there is no more than this: threads take a moment to end.
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

/// What a process that sleeps for a second or several may use of a processor.
pub(crate) const SLEEP_COST: Duration = Duration::from_millis(10);

/// Processor time of this process.
fn cpu_time() -> Duration {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a live, writable timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut ts) };
    Duration::new(ts.tv_sec as u64, ts.tv_nsec as u32)
}

/// The processor time that a wait costs: the least of several, if the first costs much. Where a
/// machine takes its processors away, it counts that as time of the process that was running.
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

/// A small random number generator (xorshift), so that a failure can be replayed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// From the environment's `SEED`, or the one given; it is printed.
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

    /// One of several.
    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
