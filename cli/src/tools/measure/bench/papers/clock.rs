//! Ticks for timing single calls, finer and cheaper than the clock.
//!
//! On x86-64 a tick is one of the time stamp counter, as in the paper. Its rate is measured against the clock. On other
//! processors the clock itself is used. Fences around the counter make sure that a call has been executed before its
//! end is read.

use std::time::{Duration, Instant};

/// Duration of the measurement of the counter's rate.
const PACE_TIME: Duration = Duration::from_millis(3);
const COSTS: usize = 20_000;
/// One of this many times is left out: the longest ones, which were interrupted.
pub(in crate::measure::bench) const TRIMMED: u64 = 20;

/// Returns the counter's value.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(in crate::measure::bench) fn ticks() -> u64 {
    use core::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 processor has the fence and the counter, and Linux lets programs read the counter.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// Returns the clock's time in nanoseconds.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(in crate::measure::bench) fn ticks() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Rate and cost of ticks on this machine.
#[derive(Clone, Copy, Debug)]
pub(in crate::measure::bench) struct Pace {
    /// Nanoseconds per tick.
    tick_ns: f64,
    /// Ticks that one reading of the counter takes.
    cost: f64,
}

impl Pace {
    /// Measures the rate and the cost, for some milliseconds.
    pub(in crate::measure::bench) fn take() -> Self {
        let (start, from) = (Instant::now(), ticks());
        while start.elapsed() < PACE_TIME {}
        let (count, time) = (ticks() - from, start.elapsed());
        let mut costs = Vec::with_capacity(COSTS);
        for _ in 0..COSTS {
            let before = ticks();
            costs.push(ticks() - before);
        }
        costs.sort_unstable();
        costs.truncate(COSTS - COSTS / TRIMMED as usize);
        let cost = costs.iter().sum::<u64>() as f64 / costs.len() as f64;
        Self { tick_ns: time.as_nanos() as f64 / count.max(1) as f64, cost }
    }

    /// Returns the nanoseconds of a call between two readings that were `ticks` apart.
    pub(in crate::measure::bench) fn call_ns(self, ticks: f64) -> f64 {
        (ticks - self.cost).max(0.0) * self.tick_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_millisecond_is_a_millisecond() {
        let pace = Pace::take();
        let (start, from) = (Instant::now(), ticks());
        while start.elapsed() < Duration::from_millis(2) {}
        let by_ticks = pace.call_ns((ticks() - from) as f64);
        let by_clock = start.elapsed().as_nanos() as f64;
        assert!((by_ticks / by_clock - 1.0).abs() < 0.2, "{by_ticks} ns in {by_clock} ns");
    }
}
