//! Ticks for single calls, finer and cheaper than the clock.
//!
//! On x86-64 it is the time stamp counter, as in the paper, whose pace is taken against the clock;
//! elsewhere it is the clock itself. The counter is fenced: a call is over when it has been executed,
//! and does not run on under the look that ends it.

use std::time::{Duration, Instant};

/// How long the pace is taken.
const PACE_TIME: Duration = Duration::from_millis(3);
const COSTS: usize = 20_000;
/// One of so many times is left out, the longest: those were interrupted.
pub(in crate::measure::bench) const TRIMMED: u64 = 20;

/// The counter now.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(in crate::measure::bench) fn ticks() -> u64 {
    use core::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 processor has the fence and the counter, which Linux lets programs read.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// The clock now, in nanoseconds.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(in crate::measure::bench) fn ticks() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// What ticks are worth on this machine.
#[derive(Clone, Copy, Debug)]
pub(in crate::measure::bench) struct Pace {
    /// Nanoseconds of a tick.
    tick_ns: f64,
    /// Ticks that looking at them takes.
    cost: f64,
}

impl Pace {
    /// Takes the pace, for some milliseconds.
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

    /// Nanoseconds of a call between two looks that were `ticks` apart.
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
