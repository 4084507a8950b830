//! A pace: a number of bytes a second that is not exceeded.
//!
//! The sender sends all due messages, then sleeps until more are due. With steps shorter than [`STEP`], the measurement
//! would measure the sleeping. So small messages are sent in bursts, like those of a program that gets its work from
//! elsewhere.

use std::time::{Duration, Instant};

/// Shortest sleep.
const STEP: Duration = Duration::from_micros(500);
/// Number of messages between two readings of the clock, because readings would be part of the measured time.
const BURST: usize = 64;

/// The offered load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Size of a message in bytes, at least 1.
    pub(super) size: usize,
    pub(super) bytes_per_second: f64,
}

impl Pace {
    /// Returns the number of messages that are due after the time `passed`.
    fn due(self, passed: Duration) -> usize {
        (passed.as_secs_f64() * self.bytes_per_second) as usize / self.size
    }

    /// Returns the time when message `number` is due. Numbers begin at 1.
    fn at(self, number: usize) -> Duration {
        Duration::from_secs_f64(number as f64 * self.size as f64 / self.bytes_per_second)
    }

    /// Sends each message when it is due, until `time_max` has passed or `messages_max` messages are sent. Returns the
    /// number of sent messages. A sender that is slower than the pace never sleeps.
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
            // No message is sent before it is due.
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
