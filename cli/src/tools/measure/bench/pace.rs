//! A timetable: so many bytes a second and no more.
//!
//! Its keeper sends what is due, then sleeps until more is. A timetable in steps of less than
//! [`STEP`] would measure the sleeping; so small messages go in bursts, as they would from a program
//! that gets its work from elsewhere.

use std::time::{Duration, Instant};

/// For how long is slept, at least.
const STEP: Duration = Duration::from_micros(500);
/// Messages between two looks at the clock, which would be part of what is measured.
const BURST: usize = 64;

/// What is offered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Bytes of a message, at least one.
    pub(super) size: usize,
    pub(super) bytes_per_second: f64,
}

impl Pace {
    /// Messages that are due after so much time.
    fn due(self, passed: Duration) -> usize {
        (passed.as_secs_f64() * self.bytes_per_second) as usize / self.size
    }

    /// When message `number` is due, counted from 1.
    fn at(self, number: usize) -> Duration {
        Duration::from_secs_f64(number as f64 * self.size as f64 / self.bytes_per_second)
    }

    /// Sends what is due when it is, until so much time has passed or so many messages have gone.
    /// Returns how many have. A sender that cannot keep the pace never sleeps.
    pub(super) fn keep<E>(
        self,
        time_max: Duration,
        messages_max: usize,
        mut send: impl FnMut() -> Result<(), E>,
    ) -> Result<usize, E> {
        let (start, mut sent) = (Instant::now(), 0);
        while sent < messages_max {
            let passed = start.elapsed();
            if passed >= time_max {
                break;
            }
            let due = self.due(passed).min(messages_max).saturating_sub(sent);
            if due == 0 {
                std::thread::sleep(self.at(sent + 1).saturating_sub(passed).max(STEP));
            }
            for _ in 0..due.min(BURST) {
                send()?;
                sent += 1;
            }
        }
        Ok(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { size: 100, bytes_per_second: 1e6 };

    #[test]
    fn the_timetable_is_kept() {
        assert_eq!(PACE.due(PACE.at(7) + Duration::from_nanos(100)), 7);
        let (start, mut late) = (Instant::now(), 0);
        let sent = PACE.keep(Duration::MAX, 200, || {
            late += 1;
            // Never before its time.
            assert!(start.elapsed() + Duration::from_micros(1) >= PACE.at(late));
            Ok::<_, ()>(())
        });
        assert_eq!((sent, late), (Ok(200), 200));
    }

    #[test]
    fn a_late_sender_ends_in_time() {
        let pace = Pace { bytes_per_second: 1e15, ..PACE };
        let sent = pace.keep(Duration::from_millis(5), usize::MAX, || Ok::<_, ()>(()));
        assert!(sent.unwrap() > 0);
        assert_eq!(pace.keep(Duration::MAX, 9, || Err("broken")), Err("broken"));
    }
}
