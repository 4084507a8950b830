//! Spins before a sleep, and learns if spinning pays.
//!
//! Each thread keeps a budget of time to spin. A spin that succeeds sets the budget to its maximum, and a spin that
//! fails halves the budget. So an idle thread spins for a microsecond or two, then sleeps. A thread whose peer waits
//! for a processor does the same, because the peer's answer never comes during a spin.
//!
//! A small budget hides that a longer spin would succeed. So now and then, after failed spins with a soon answer, one
//! spin takes as long as the setting allows. If it fails as well, the next such spin comes after twice as many.
//!
//! A spin makes no system call to find out if other threads wait for the processor. `sched_yield` finds out, but a
//! thread that calls it may get the processor back only after ten milliseconds.

use crate::config;
use core::cell::Cell;
use core::ops::RangeInclusive;
use sovia_sys::{cache, clock};

/// Number of rounds in a spin before the first reading of the clock.
const FIRST: u32 = 64;
/// Shortest spin in nanoseconds, unless spinning is off.
const LEAST_NS: u64 = 2_000;
/// Budget of a new thread in nanoseconds.
const NEW_NS: u64 = 10_000;
/// Number of failed spins with a soon answer, after which one spin is as long as possible. The first number doubles,
/// up to the second, while long spins fail.
const EXPLORES_AFTER: RangeInclusive<u32> = 8..=256;

thread_local! {
    static BUDGET: Cell<u64> = const { Cell::new(NEW_NS) };
    /// Number of failed spins with a soon answer that are left until a long spin, and the number before the last one.
    static EXPLORES: Cell<(u32, u32)> =
        const { Cell::new((*EXPLORES_AFTER.start(), *EXPLORES_AFTER.start())) };
}

/// One spin: its longest budget and its start, in nanoseconds.
pub(crate) struct Spin {
    max: u64,
    start: u64,
    /// Set if the second part has succeeded.
    has_found: bool,
}

impl Spin {
    /// Begins a spin. `worth` says that spinning may help.
    pub(crate) fn begin(worth: bool) -> Spin {
        let max = if worth { config::spin_max_ns() } else { 0 };
        Spin { max, start: 0, has_found: false }
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

    /// Does the second part of a spin. Call it after [`Spin::first`] has found nothing. Not inlined, to keep the stack
    /// frame and the registers of the first part few.
    #[cold]
    #[inline(never)]
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
        let budget = self.budget();
        let mut next_also = self.start + also_ns / 4;
        loop {
            for _ in 0..16 {
                if found() {
                    self.has_found = true;
                    return true;
                }
                core::hint::spin_loop();
            }
            let now = clock::now_ns();
            if now >= next_also {
                if also() {
                    self.has_found = true;
                    return true;
                }
                next_also = now + also_ns;
            }
            if now - self.start > budget {
                return false;
            }
        }
    }

    /// Records that the spin has found a change that is of no use to the caller.
    pub(crate) fn was_in_vain(&mut self) {
        self.has_found = false;
    }

    /// Returns the nanoseconds that this spin may take.
    fn budget(&self) -> u64 {
        match EXPLORES.get() {
            (0, _) => self.max,
            _ => BUDGET.get().min(self.max).max(LEAST_NS),
        }
    }

    /// Updates the budget. Call it after the whole wait is over, including any sleep.
    #[inline]
    pub(crate) fn learn(&self) {
        if self.start != 0 {
            self.learn_from(clock::now_ns() - self.start);
        }
    }

    /// Updates the budget after a wait of `took` nanoseconds.
    #[cold]
    fn learn_from(&self, took: u64) {
        let least = *EXPLORES_AFTER.start();
        EXPLORES.set(match EXPLORES.get() {
            _ if self.has_found => (least, least),
            (0, after) => {
                let after = (2 * after).min(*EXPLORES_AFTER.end());
                (after, after)
            }
            (left, after) => (left - u32::from(took <= self.max), after),
        });
        BUDGET.set(match self.has_found {
            true => self.max,
            false => (BUDGET.get() / 2).max(LEAST_NS),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{EXPLORES_AFTER, LEAST_NS, Spin};

    /// Returns a spin whose budget suffices for one call of `also`.
    fn spin() -> Spin {
        Spin { max: 100_000, start: 0, has_found: false }
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
    fn spin_ends_at_events_that_only_a_system_call_reports() {
        assert!(spin().rest(|| false, 0, || true));
    }

    #[test]
    fn budget_is_halved_by_failed_spins_and_restored_by_a_successful_one() {
        let ends = |has_found, took| Spin { has_found, ..spin() }.learn_from(took);
        ends(true, 5_000);
        assert_eq!(spin().budget(), 100_000);
        ends(false, 200_000);
        assert_eq!(spin().budget(), 50_000);
        (0..20).for_each(|_| ends(false, 200_000));
        assert_eq!(spin().budget(), LEAST_NS);
        ends(true, 1_000);
        assert_eq!(spin().budget(), 100_000);
    }

    #[test]
    fn one_spin_is_long_after_failed_spins_with_soon_answers() {
        let ends = |has_found, took| Spin { has_found, ..spin() }.learn_from(took);
        let least = *EXPLORES_AFTER.start();
        ends(true, 5_000);
        for after in [least, 2 * least, 4 * least] {
            (0..after).for_each(|_| ends(false, 90_000));
            assert_eq!(spin().budget(), 100_000, "after {after}");
            ends(false, 90_000);
            assert_eq!(spin().budget(), LEAST_NS, "after {after}");
        }
        // Late answers do not count, because no spin would be long enough.
        (0..100 * least).for_each(|_| ends(false, 200_000));
        assert_eq!(spin().budget(), LEAST_NS);
    }
}
