//! Processor time of this process, beside the time that has passed.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::time::{ClockId, clock_gettime};

/// Both clocks, from its start on.
///
/// The processor time is of all threads, in the program and in the kernel. The scheduler counts it
/// in nanoseconds at every switch, and not by its tick: bursts shorter than a tick are counted too.
pub(super) struct CpuTime {
    start: Instant,
    before: Duration,
    /// As the kernel divides it, which it does by looking at its tick where the process is.
    before_of: [Duration; 2],
}

/// Processor time in percent of the time that has passed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// All of it.
    pub(super) percent: f64,
    /// In the program; the rest in the kernel.
    pub(super) user: f64,
}

impl CpuTime {
    /// Starts both clocks.
    ///
    /// # Errors
    /// Where the kernel has no such clock.
    pub(super) fn start() -> anyhow::Result<Self> {
        Ok(Self { before: of_process()?, before_of: divided()?, start: Instant::now() })
    }

    /// The time that has passed.
    pub(super) fn passed(&self) -> Duration {
        self.start.elapsed()
    }

    /// The processor time that was spent meanwhile.
    ///
    /// # Errors
    /// As for [`CpuTime::start`].
    pub(super) fn spent(&self) -> anyhow::Result<Duration> {
        Ok(of_process()?.saturating_sub(self.before))
    }

    /// The same, divided into the program's part and the kernel's.
    ///
    /// # Errors
    /// As for [`CpuTime::start`].
    pub(super) fn load(&self) -> anyhow::Result<Load> {
        let percent = self.percent()?;
        let [user, system] = divided()?;
        let user = user.saturating_sub(self.before_of[0]).as_secs_f64();
        let system = system.saturating_sub(self.before_of[1]).as_secs_f64();
        let share = if user + system > 0.0 { user / (user + system) } else { 1.0 };
        Ok(Load { percent, user: percent * share })
    }

    /// What was spent, in percent of what has passed: 100 is one processor all the time.
    ///
    /// # Errors
    /// As for [`CpuTime::start`].
    pub(super) fn percent(&self) -> anyhow::Result<f64> {
        Ok(percent(self.spent()?, self.passed()))
    }
}

/// One time in percent of another.
pub(super) fn percent(part: Duration, whole: Duration) -> f64 {
    100.0 * part.as_secs_f64() / whole.as_secs_f64().max(1e-9)
}

fn of_process() -> anyhow::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into())
}

/// In the program and in the kernel.
fn divided() -> anyhow::Result<[Duration; 2]> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let time = |value: TimeVal| Duration::from_micros(value.num_microseconds().unsigned_abs());
    Ok([time(usage.user_time()), time(usage.system_time())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted() {
        let cpu = CpuTime::start().unwrap();
        let mut before = Duration::ZERO;
        while before < Duration::from_millis(1) {
            let now = cpu.spent().unwrap();
            assert!(now >= before, "{now:?} after {before:?}");
            assert!(cpu.passed() < Duration::from_secs(30), "the clock stands still");
            before = now;
        }
    }

    #[test]
    fn shares_are_percent() {
        let second = Duration::from_secs(1);
        assert_eq!(percent(second / 4, second), 25.0);
        assert_eq!(percent(Duration::ZERO, Duration::ZERO), 0.0);
    }
}
