//! One direction of a cable, and what waits for it.
//!
//! The queue is first in, first out, and its cable is never idle while something waits. So the moment at which the cable
//! will be free says all about the queue: no packet is kept here, and none has to be taken out.

use super::plan::Cable;
use crate::Time;
use core::time::Duration;

const SECOND: u128 = 1_000_000_000;

/// What queues of switches have done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queueing {
    /// Packets that found no room.
    pub overflowed: u64,
    /// Packets that were marked.
    pub marked: u64,
    /// The most bytes that have waited in one queue, the packet that is being sent included.
    pub most_bytes: u64,
}

/// A port.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Port {
    /// When everything that waits has been sent.
    free_at: Time,
    /// How often the cable has failed. What was in the queue or on the cable then is lost.
    failures: u32,
}

/// A packet that a port has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    /// When it is at the other end.
    pub(super) at: Time,
    pub(super) is_marked: bool,
    /// To be compared with [`Port::failures`] when it is there.
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

    /// Bytes that are still to be sent.
    fn waiting(&self, cable: &Cable, now: Time) -> u64 {
        let bytes = self.free_at.since(now).as_nanos() * u128::from(cable.rate) / SECOND;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// A node sends a packet: it has memory for all that it sends.
    pub(super) fn send(&mut self, cable: &Cable, bytes: u32, now: Time) -> Sent {
        let nanos = (u128::from(bytes) * SECOND).div_ceil(u128::from(cable.rate.max(1)));
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.free_at = self.free_at.max(now).after(takes);
        let (at, failures) = (self.free_at.after(cable.latency), self.failures);
        Sent { at, is_marked: false, failures }
    }

    /// A switch sends a packet, if the queue has room for it.
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
