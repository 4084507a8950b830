//! Processor time of this process, relative to the elapsed time.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::time::{ClockId, clock_gettime};

/// Processor time and elapsed time since the start.
///
/// The processor time is that of all threads, in user and in kernel mode. The scheduler counts nanoseconds at each
/// switch, and not at its tick. So bursts shorter than a tick are counted too.
pub(super) struct CpuTime {
    start: Instant,
    before: Duration,
    /// User and system time, which the kernel divides by samples at its tick.
    before_of: [Duration; 2],
}

/// Processor time in percent of the elapsed time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// User and system time.
    pub(super) percent: f64,
    /// User time.
    pub(super) user: f64,
}

impl CpuTime {
    /// Starts both clocks.
    ///
    /// # Errors
    /// An error if the kernel has no such clock.
    pub(super) fn start() -> anyhow::Result<Self> {
        Ok(Self { before: of_process()?, before_of: divided()?, start: Instant::now() })
    }

    /// Returns the elapsed time.
    pub(super) fn passed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the processor time since the start.
    ///
    /// # Errors
    /// Like [`CpuTime::start`].
    pub(super) fn spent(&self) -> anyhow::Result<Duration> {
        Ok(of_process()?.saturating_sub(self.before))
    }

    /// Returns the load since the start, in total and in user mode.
    ///
    /// # Errors
    /// Like [`CpuTime::start`].
    pub(super) fn load(&self) -> anyhow::Result<Load> {
        let percent = self.percent()?;
        let [user, system] = divided()?;
        let user = user.saturating_sub(self.before_of[0]).as_secs_f64();
        let system = system.saturating_sub(self.before_of[1]).as_secs_f64();
        let share = if user + system > 0.0 { user / (user + system) } else { 1.0 };
        Ok(Load { percent, user: percent * share })
    }

    /// Returns the processor time in percent of the elapsed time. One fully used processor is 100 %.
    ///
    /// # Errors
    /// Like [`CpuTime::start`].
    pub(super) fn percent(&self) -> anyhow::Result<f64> {
        Ok(percent(self.spent()?, self.passed()))
    }
}

/// Returns `part` in percent of `whole`.
pub(super) fn percent(part: Duration, whole: Duration) -> f64 {
    100.0 * part.as_secs_f64() / whole.as_secs_f64().max(1e-9)
}

fn of_process() -> anyhow::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into())
}

/// Returns the user time and the system time.
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
