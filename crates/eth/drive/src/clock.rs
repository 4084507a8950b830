//! The time, and what is to happen later.

use core::cell::Cell;
use core::cmp::Reverse;
use sovia_link::Time;
use sovia_softnic::Timer;
use std::collections::{BinaryHeap, VecDeque};

/// A thread that finds nothing looks at the clock for the timers' sake so seldom: asking the time takes as long as looking for
/// frames.
const UNLOOKED: u32 = 16;

/// The clock of a medium, with its timers.
#[derive(Debug, Default)]
pub struct Clock {
    /// The time, if it has been looked at since the lock was taken.
    now: Cell<Option<Time>>,
    timers: BinaryHeap<Reverse<(Time, Timer)>>,
    /// Timers that go off at once.
    ready: VecDeque<Timer>,
    /// How often the timers were not looked at in a row.
    unlooked: u32,
    /// How often [`Clock::seldom`] gave no time in a row.
    unasked: u32,
}

impl Clock {
    /// The present.
    pub fn now(&self) -> Time {
        let now = self.now.get();
        now.unwrap_or_else(|| {
            let now = Time::from_nanos(sovia_sys::clock::now_ns());
            self.now.set(Some(now));
            now
        })
    }

    /// The present, for what is not urgent: if it is known, or each sixteenth time in a row that it is not.
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

    /// Time has passed since it was looked at.
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

    /// When the next timer goes off.
    pub fn next(&self) -> Option<Time> {
        self.timers.peek().map(|&Reverse((at, _))| at)
    }

    /// A timer whose time has come.
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
