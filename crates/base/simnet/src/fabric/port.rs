//! One direction of a cable, with its queue.
//!
//! The queue is first in, first out, and the cable is never idle while a packet waits. So the time at which the cable
//! becomes free describes the whole queue. The port stores no packets and removes none.

use super::plan::Cable;
use crate::Time;
use core::time::Duration;

const SECOND: u128 = 1_000_000_000;

/// Counters of the switches' queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queueing {
    /// Packets without room in a queue.
    pub overflowed: u64,
    /// Packets that were marked.
    pub marked: u64,
    /// Largest number of bytes in one queue, including the packet that is being sent.
    pub most_bytes: u64,
}

/// One direction of a cable.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Port {
    /// Time when all waiting packets have been sent.
    free_at: Time,
    /// Number of failures of the cable. A failure loses the packets in the queue and on the cable.
    failures: u32,
}

/// A packet that a port has accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    /// Arrival time at the other end.
    pub(super) at: Time,
    pub(super) is_marked: bool,
    /// Value of [`Port::failures`] at the sending. If the port has another value on arrival, the packet is lost.
    pub(super) failures: u32,
}

impl Port {
    pub(super) fn free_at(&self) -> Time {
        self.free_at
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    pub(super) fn fail(&mut self, now: Time) {
        self.failures = self.failures.wrapping_add(1);
        self.free_at = now;
    }

    /// Returns the number of bytes that wait to be sent.
    fn waiting(&self, cable: &Cable, now: Time) -> u64 {
        let bytes = self.free_at.since(now).as_nanos() * u128::from(cable.rate) / SECOND;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Sends a packet from a node, which has memory for all its packets.
    pub(super) fn send(&mut self, cable: &Cable, bytes: u32, now: Time) -> Sent {
        let nanos = (u128::from(bytes) * SECOND).div_ceil(u128::from(cable.rate.max(1)));
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.free_at = self.free_at.max(now).after(takes);
        let (at, failures) = (self.free_at.after(cable.latency), self.failures);
        Sent { at, is_marked: false, failures }
    }

    /// Sends a packet from a switch, if the queue has room.
    pub(super) fn offer(
        &mut self,
        cable: &Cable,
        bytes: u32,
        now: Time,
        queueing: &mut Queueing,
    ) -> Option<Sent> {
        let waiting = self.waiting(cable, now);
        let with_it = waiting.saturating_add(u64::from(bytes));
        if with_it > cable.queue {
            queueing.overflowed += 1;
            return None;
        }
        queueing.most_bytes = queueing.most_bytes.max(with_it);
        let is_marked = cable.mark_above.is_some_and(|limit| waiting > limit);
        queueing.marked += u64::from(is_marked);
        Some(Sent { is_marked, ..self.send(cable, bytes, now) })
    }
}
