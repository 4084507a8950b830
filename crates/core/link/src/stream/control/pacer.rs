//! When the next frame may go: a pace, by which frames go in quanta.

use super::proportion;
use crate::Time;

/// A quantum, which goes at once, is what the pace sends in so many nanoseconds, at least two frames: the port hands it to the
/// kernel in few system calls, and a timer goes off for each quantum and not for each frame. (BBR's draft has a
/// millisecond and at most 64 KB; where a path is fast that would be a timer each few microseconds.)
const QUANTUM_NANOS: u64 = 250_000;
/// What a timer that goes off too late has left out is made good, up to what the pace sends in so many nanoseconds.
const LATE_NANOS: u64 = 1_000_000;
/// Bytes of the largest quantum.
const QUANTUM_MAX: u64 = 1 << 20;

/// The pace of a stream. All in bytes and nanoseconds.
#[derive(Debug)]
pub(super) struct Pacer {
    /// Bytes of the longest frame.
    frame: u64,
    /// Bytes per second, bytes that go at once, and how long the pace takes for these.
    rate: u64,
    quantum: u64,
    quantum_nanos: u64,
    /// When the pace sends the next frame, and when it really goes: together with the rest of a quantum.
    paced_at: Time,
    next_at: Time,
}

impl Pacer {
    pub(super) fn new(frame: u64, rate: u64) -> Pacer {
        let (paced_at, next_at) = (Time::ZERO, Time::ZERO);
        let mut pacer = Pacer { frame, rate: 0, quantum: 0, quantum_nanos: 0, paced_at, next_at };
        pacer.pace(rate);
        pacer
    }

    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    pub(super) fn quantum(&self) -> u64 {
        self.quantum
    }

    pub(super) fn next_at(&self) -> Time {
        self.next_at
    }

    pub(super) fn pace(&mut self, rate: u64) {
        // A rate of zero would never send the frame that measures a higher one.
        let rate = rate.max(self.frame);
        if rate == self.rate {
            return;
        }
        self.rate = rate;
        let quantum = proportion(rate, QUANTUM_NANOS, 1_000_000_000);
        let least = 2 * self.frame;
        self.quantum = quantum.clamp(least, QUANTUM_MAX.max(least));
        self.quantum_nanos = self.nanos(self.quantum);
    }

    /// How long the pace takes for so many bytes.
    fn nanos(&self, bytes: u64) -> u64 {
        // Bytes of one frame or of a quantum: no overflow.
        bytes * 1_000_000_000 / self.rate
    }

    /// A frame is sent.
    pub(super) fn sent(&mut self, bytes: u64, now: Time) {
        let quantum = self.quantum_nanos;
        let earliest = Time::from_nanos(now.nanos().saturating_sub(quantum.max(LATE_NANOS)));
        let from = self.paced_at.max(earliest).nanos();
        let took = self.nanos(bytes);
        self.paced_at = Time::from_nanos(from.saturating_add(took));
        self.next_at = match self.paced_at > now {
            true => {
                Time::from_nanos(self.paced_at.nanos().saturating_add(quantum - took.min(quantum)))
            }
            false => self.paced_at,
        };
    }

    /// Something has arrived, and the pace may be another one: a frame waits for no more than a quantum of this one. A pace that was
    /// slow for one frame (after losses, when nearly nothing arrived) would otherwise hold that frame's successor back for
    /// as long as it was slow, however fast the path has turned out to be since.
    pub(super) fn arrived(&mut self, now: Time) {
        let latest = Time::from_nanos(now.nanos().saturating_add(self.quantum_nanos));
        (self.paced_at, self.next_at) = (self.paced_at.min(latest), self.next_at.min(latest));
    }
}

#[cfg(test)]
impl Pacer {
    /// How long a frame may have to wait.
    pub(super) fn longest_wait(&self) -> u64 {
        self.nanos(self.frame).max(self.quantum_nanos)
    }
}
