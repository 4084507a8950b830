//! Measures the path's delivery rate (draft-ietf-ccwg-bbr, section 4.1).

use super::proportion;
use crate::Time;

/// State of the stream when a frame was sent, stored with the frame.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::stream) struct Snapshot {
    /// Bytes delivered before the frame was sent.
    pub(super) delivered: u64,
    /// Time of the last delivery before the frame was sent.
    pub(super) delivered_at: Time,
    /// Time when the first frame of the flight was sent.
    pub(super) first_sent_at: Time,
    /// Bytes in flight, including this frame.
    pub(super) in_flight: u64,
    /// Bytes lost before the frame was sent.
    pub(super) lost: u64,
    /// Set if the program did not supply enough data to fill the path.
    pub(super) is_starved: bool,
}

/// The newest transmission that an acknowledgement covers.
#[derive(Debug, Clone, Copy)]
pub(in crate::stream) struct Sample {
    pub(in crate::stream) transmission: u64,
    pub(in crate::stream) sent_at: Time,
    pub(in crate::stream) snapshot: Snapshot,
}

/// Changes by one acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(in crate::stream) struct Acked {
    pub(in crate::stream) now: Time,
    /// Number of bytes that have arrived.
    pub(in crate::stream) bytes: u64,
    /// Bytes in flight before the acknowledgement, and after it.
    pub(in crate::stream) in_flight_before: u64,
    pub(in crate::stream) in_flight: u64,
    pub(in crate::stream) sample: Option<Sample>,
    /// A measured round trip, in nanoseconds.
    pub(in crate::stream) rtt: Option<u64>,
}

/// A measurement of the path by one acknowledgement.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rate {
    /// Bytes per second; zero if the measured time was too short.
    pub(super) rate: u64,
    /// Bytes delivered since the frame was sent.
    pub(super) delivered: u64,
    /// Copies of the fields of the frame's snapshot.
    pub(super) prior_delivered: u64,
    pub(super) is_starved: bool,
}

/// Counts of delivered and lost bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    pub(super) delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    pub(super) lost: u64,
    /// Count of delivered bytes up to which samples count as starved; zero if the sender always had data.
    starved_until: u64,
}

impl Delivery {
    /// Notes that a frame is sent.
    pub(super) fn sent(&mut self, bytes: u64, in_flight: u64, now: Time) -> Snapshot {
        if in_flight == 0 {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            in_flight: in_flight + bytes,
            lost: self.lost,
            is_starved: self.is_starved(),
        }
    }

    pub(super) fn is_starved(&self) -> bool {
        self.starved_until > 0
    }

    /// Notes that no data waits to be sent.
    pub(super) fn starved(&mut self, in_flight: u64) {
        self.starved_until = (self.delivered + in_flight).max(1);
    }

    /// Measures the rate after bytes have arrived. `sample` is the newest arrival, and `shortest` the shortest round
    /// trip in nanoseconds.
    pub(super) fn arrived(&mut self, acked: &Acked, sample: &Sample, shortest: u64) -> Rate {
        self.delivered += acked.bytes;
        self.delivered_at = acked.now;
        if self.starved_until > 0 && self.delivered > self.starved_until {
            self.starved_until = 0;
        }
        let Sample { snapshot, sent_at, .. } = sample;
        self.first_sent_at = *sent_at;
        let delivered = self.delivered - snapshot.delivered;
        let sending = sent_at.nanos_since(snapshot.first_sent_at);
        let arriving = acked.now.nanos_since(snapshot.delivered_at);
        let nanos = sending.max(arriving);
        // A time shorter than a round trip means that one acknowledgement covers many frames.
        let rate = match nanos {
            0 => 0,
            nanos if nanos < shortest => 0,
            nanos => proportion(delivered, 1_000_000_000, nanos),
        };
        Rate {
            rate,
            delivered,
            prior_delivered: snapshot.delivered,
            is_starved: snapshot.is_starved,
        }
    }
}
