//! The clock and the timers of a medium.

use core::cell::Cell;
use core::cmp::Reverse;
use sovia_link::Time;
use sovia_softnic::Timer;
use std::collections::{BinaryHeap, VecDeque};

/// Number of looks for frames per look at the clock, for a thread that finds nothing. Asking the time takes as long as
/// looking for frames.
const UNLOOKED: u32 = 16;

/// The clock of a medium, with its timers.
#[derive(Debug, Default)]
pub struct Clock {
    /// The time, if some code has read the clock since the lock was taken.
    now: Cell<Option<Time>>,
    timers: BinaryHeap<Reverse<(Time, Timer)>>,
    /// Timers that are already due.
    ready: VecDeque<Timer>,
    /// Number of successive calls of [`Clock::due`] that did not read the clock.
    unlooked: u32,
    /// Number of successive calls of [`Clock::seldom`] that returned no time.
    unasked: u32,
}

impl Clock {
    /// Returns the time.
    pub fn now(&self) -> Time {
        let now = self.now.get();
        now.unwrap_or_else(|| {
            let now = Time::from_nanos(sovia_sys::clock::now_ns());
            self.now.set(Some(now));
            now
        })
    }

    /// Returns the time for work that is not urgent. Returns the time if it is known, and otherwise only at each
    /// sixteenth call.
    pub fn seldom(&mut self) -> Option<Time> {
        if self.now.get().is_none() {
            self.unasked += 1;
            if self.unasked < UNLOOKED {
                return None;
            }
        }
        self.unasked = 0;
        Some(self.now())
    }

    /// Forgets the time, because time has passed.
    pub fn pass(&self) {
        self.now.set(None);
    }

    /// Sets a timer.
    pub fn set(&mut self, at: Time, timer: Timer) {
        if self.now.get().is_some_and(|now| at <= now) {
            self.ready.push_back(timer);
        } else {
            self.timers.push(Reverse((at, timer)));
        }
    }

    /// Returns the time of the next timer.
    pub fn next(&self) -> Option<Time> {
        self.timers.peek().map(|&Reverse((at, _))| at)
    }

    /// Returns a timer that is due.
    pub fn due(&mut self) -> Option<Timer> {
        if let Some(timer) = self.ready.pop_front() {
            return Some(timer);
        }
        let &Reverse((at, _)) = self.timers.peek()?;
        if self.now.get().is_none() {
            self.unlooked += 1;
            if self.unlooked < UNLOOKED {
                return None;
            }
        }
        self.unlooked = 0;
        if at > self.now() {
            return None;
        }
        self.timers.pop().map(|Reverse((_, timer))| timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_for_what_is_not_urgent_is_known_or_asked_each_sixteenth_time() {
        let mut clock = Clock::default();
        for _ in 1..UNLOOKED {
            assert_eq!(clock.seldom(), None);
        }
        let now = clock.seldom().expect("it is asked now");
        assert_eq!(clock.seldom(), Some(now), "it is known");
        clock.pass();
        assert_eq!(clock.seldom(), None);
    }
}
