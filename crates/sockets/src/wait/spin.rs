//! Spins before a sleep, and learns if spinning pays.
//!
//! Each thread keeps a budget of time to spin. A short wait sets the budget to its maximum, and a long wait halves
//! it. So an idle thread spins for a microsecond or two, then sleeps. If other threads wait for the processor, the
//! thread sleeps at once, because it may be waiting for one of them.

use crate::config;
use core::cell::Cell;
use core::ops::RangeInclusive;
use sovia_sys::{cache, call, clock};

/// Number of rounds in a spin before the first reading of the clock.
const FIRST: u32 = 64;
/// Shortest spin in nanoseconds, unless spinning is off.
const LEAST_NS: u64 = 2_000;

/// Interval in nanoseconds at which a spinning thread checks if another thread wants the processor.
const ASK_NS: u64 = 8_000;
/// Longest time in nanoseconds of a `sched_yield` during which no other thread has run.
const ALONE_NS: u64 = 4_000;
/// Time in nanoseconds for which a thread spins only briefly after other threads wanted the processor. If other
/// threads want it again, the time doubles, up to the end of the range.
const CROWDED_NS: RangeInclusive<u64> = 2_000_000..=32_000_000;

thread_local! {
    static BUDGET: Cell<u64> = const { Cell::new(u64::MAX) };
    /// Time until which this thread spins only briefly, and the length of the next such time.
    static CROWDED: Cell<(u64, u64)> = const { Cell::new((0, *CROWDED_NS.start())) };
}

/// One spin: its longest budget and its start, in nanoseconds.
pub(crate) struct Spin {
    max: u64,
    start: u64,
}

impl Spin {
    /// Begins a spin. `worth` says that spinning may help.
    pub(crate) fn begin(worth: bool) -> Spin {
        Spin { max: if worth { config::spin_max_ns() } else { 0 }, start: 0 }
    }

    /// Spins until `found` or `also` returns true, or until the budget is used up. Returns true if one of them
    /// returned true. Calls `also` about every `also_ns` nanoseconds, for conditions that need a system call.
    #[inline]
    pub(crate) fn run(
        &mut self,
        mut found: impl FnMut() -> bool,
        also_ns: u64,
        also: impl FnMut() -> bool,
    ) -> bool {
        self.first(&mut found) || self.rest(found, also_ns, also)
    }

    /// Does the first part of a spin, without a system call and without reading the clock.
    #[inline]
    pub(crate) fn first(&self, mut found: impl FnMut() -> bool) -> bool {
        if self.max == 0 {
            return found();
        }
        for _ in 0..FIRST {
            if found() {
                return true;
            }
            cache::look_in_turn();
        }
        false
    }

    /// Does the second part of a spin. Call it after [`Spin::first`] has found nothing.
    #[inline]
    pub(crate) fn rest(
        &mut self,
        mut found: impl FnMut() -> bool,
        also_ns: u64,
        mut also: impl FnMut() -> bool,
    ) -> bool {
        if self.max == 0 {
            return false;
        }
        self.start = clock::now_ns();
        if self.start < CROWDED.get().0 {
            return found();
        }
        let mut next_ask = self.start + LEAST_NS / 2;
        let budget = BUDGET.get().clamp(LEAST_NS, self.max.max(LEAST_NS));
        let mut next_also = self.start + also_ns / 4;
        loop {
            for _ in 0..16 {
                if found() {
                    return true;
                }
                core::hint::spin_loop();
            }
            let now = clock::now_ns();
            if now >= next_also {
                if also() {
                    return true;
                }
                next_also = now + also_ns;
            }
            if now >= next_ask {
                if is_crowded() {
                    return found();
                }
                next_ask = now + ASK_NS;
            }
            if now - self.start > budget {
                return false;
            }
        }
    }

    /// Updates the budget. Call it after the whole wait is over, including any sleep.
    pub(crate) fn learn(&self) {
        if self.max == 0 || self.start == 0 {
            return;
        }
        let took = clock::now_ns() - self.start;
        let budget = BUDGET.get().min(self.max);
        BUDGET.set(if took <= self.max { self.max } else { (budget / 2).max(LEAST_NS) });
    }
}

/// Offers the processor to other threads twice. Returns true if other threads ran both times. A thread that runs
/// once and sleeps again does not count.
#[cold]
fn is_crowded() -> bool {
    let crowded = (0..2).all(|_| {
        let offered = clock::now_ns();
        call::sched_yield();
        clock::now_ns() - offered > ALONE_NS
    });
    CROWDED.set(if crowded {
        let (_, period) = CROWDED.get();
        (clock::now_ns() + period, (2 * period).min(*CROWDED_NS.end()))
    } else {
        (0, *CROWDED_NS.start())
    });
    crowded
}

#[cfg(test)]
mod tests {
    use super::Spin;

    /// Returns a spin whose budget suffices for one call of `also`.
    fn spin() -> Spin {
        Spin { max: 100_000, start: 0 }
    }

    #[test]
    fn a_spin_that_finds_nothing_fails_however_often_the_kernel_is_asked() {
        let mut asked = 0;
        let found = spin().rest(
            || false,
            0,
            || {
                asked += 1;
                false
            },
        );
        assert!(asked > 0);
        assert!(!found);
    }

    #[test]
    fn what_only_a_system_call_can_tell_ends_a_spin() {
        assert!(spin().rest(|| false, 0, || true));
    }
}
