//! Pacing: computes when the next frame may be sent. Frames are sent in quanta.

use super::proportion;
use crate::Time;

/// Nanoseconds of sending in one quantum. The frames of a quantum are sent at once, and a quantum has at least two
/// frames. The port passes a quantum to the kernel in few system calls, and a timer fires once a quantum instead of
/// once a frame. (BBR's draft has a millisecond and at most 64 KB. On a fast path a timer would fire every few
/// microseconds.)
const QUANTUM_NANOS: u64 = 250_000;
/// Nanoseconds of sending that the pacer makes up for after a late timer.
const LATE_NANOS: u64 = 1_000_000;
/// Bytes of the largest quantum.
const QUANTUM_MAX: u64 = 1 << 20;

/// The pace of a stream. All values are in bytes and nanoseconds.
#[derive(Debug)]
pub(super) struct Pacer {
    /// Bytes of the longest frame.
    frame: u64,
    /// `rate` is in bytes per second. `quantum` is the number of bytes sent at once, and `quantum_nanos` their time at
    /// this rate.
    rate: u64,
    quantum: u64,
    quantum_nanos: u64,
    /// `paced_at` is the time of the next frame at an even pace. `next_at` is when the next frame may be sent, which is
    /// later within a quantum.
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
        // A rate of zero would never send the frame that measures a higher rate.
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

    /// Returns the time that the pace takes for `bytes` bytes.
    fn nanos(&self, bytes: u64) -> u64 {
        // The product does not overflow: `bytes` is at most one frame or quantum.
        bytes * 1_000_000_000 / self.rate
    }

    /// Notes that a frame is sent.
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

    /// Limits the next frame's wait to one quantum of the current pace. Call it after an arrival.
    ///
    /// A pace that was slow for one frame would otherwise delay the next frame by the old pace. The pace is slow after
    /// losses, when nearly nothing arrived. The path may have become faster since.
    pub(super) fn arrived(&mut self, now: Time) {
        let latest = Time::from_nanos(now.nanos().saturating_add(self.quantum_nanos));
        (self.paced_at, self.next_at) = (self.paced_at.min(latest), self.next_at.min(latest));
    }
}

#[cfg(test)]
impl Pacer {
    /// Returns the longest time that a frame may have to wait.
    pub(super) fn longest_wait(&self) -> u64 {
        self.nanos(self.frame).max(self.quantum_nanos)
    }
}
