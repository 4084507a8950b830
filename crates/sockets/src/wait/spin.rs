//! Spinning before a sleep, and whether it pays.
//!
//! Each thread keeps a budget: a wait that turned out short puts it to its maximum, a long one halves it, so an idle
//! thread spins for a microsecond or two and then sleeps without using the processor. Where other threads wait for
//! the processor it sleeps at once: one of them may be the one that it waits for.

use crate::config;
use core::cell::Cell;
use core::ops::RangeInclusive;
use sovia_sys::{cache, call, clock};

/// Spins without looking at the clock.
const FIRST: u32 = 64;
/// Never spin less than this, in nanoseconds, unless spinning is off.
const LEAST_NS: u64 = 2_000;

/// A spin asks this often whether another thread wants the processor, in nanoseconds.
const ASK_NS: u64 = 8_000;
/// None does if the spinner has the processor again after so long.
const ALONE_NS: u64 = 4_000;
/// For so long a thread that has met others does not spin for more than a moment; twice as long each time that
/// it meets them again, but no longer than that.
const CROWDED_NS: RangeInclusive<u64> = 2_000_000..=32_000_000;

thread_local! {
    static BUDGET: Cell<u64> = const { Cell::new(u64::MAX) };
    /// Until when others are taken to want the thread's processor, and for how long the next time.
    static CROWDED: Cell<(u64, u64)> = const { Cell::new((0, *CROWDED_NS.start())) };
}

/// A spin's budget, and what it learns.
pub(crate) struct Spin {
    max: u64,
    start: u64,
}

impl Spin {
    /// A wait begins. `worth` says whether spinning can help at all.
    pub(crate) fn begin(worth: bool) -> Spin {
        Spin { max: if worth { config::spin_max_ns() } else { 0 }, start: 0 }
    }

    /// Spins until `found`, or until the budget is used up; true if found.
    /// `also` is called about every `also_ns`, for what only a system call can tell.
    #[inline]
    pub(crate) fn run(
        &mut self,
        mut found: impl FnMut() -> bool,
        also_ns: u64,
        also: impl FnMut() -> bool,
    ) -> bool {
        self.first(&mut found) || self.rest(found, also_ns, also)
    }

    /// The beginning of a spin: a moment in which nothing is asked for, not even the time.
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

    /// What follows the beginning, if that has found nothing.
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

    /// The wait is over, after a sleep if the spin had failed.
    pub(crate) fn learn(&self) {
        if self.max == 0 || self.start == 0 {
            return;
        }
        let took = clock::now_ns() - self.start;
        let budget = BUDGET.get().min(self.max);
        BUDGET.set(if took <= self.max { self.max } else { (budget / 2).max(LEAST_NS) });
    }
}

/// Whether other threads want the processor of the calling one, which offers it to them. Twice: one that has run
/// and sleeps again is none.
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

    /// A spin whose budget lasts long enough for one look at what only a system call can tell.
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
