//! How fast a path delivers (draft-ietf-ccwg-bbr, section 4.1).

use super::proportion;
use crate::Time;

/// What a frame remembers of the moment when it was sent.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::stream) struct Snapshot {
    /// Bytes that had been delivered.
    pub(super) delivered: u64,
    /// When the last of them were.
    pub(super) delivered_at: Time,
    /// When the first frame of the flight was sent.
    pub(super) first_sent_at: Time,
    /// Bytes on their way, this frame's included.
    pub(super) in_flight: u64,
    /// Bytes that had been lost.
    pub(super) lost: u64,
    /// There was not enough to send.
    pub(super) is_starved: bool,
}

/// The newest sending that an acknowledgement tells of.
#[derive(Debug, Clone, Copy)]
pub(in crate::stream) struct Sample {
    pub(in crate::stream) transmission: u64,
    pub(in crate::stream) sent_at: Time,
    pub(in crate::stream) snapshot: Snapshot,
}

/// What an acknowledgement has changed.
#[derive(Debug, Clone, Copy)]
pub(in crate::stream) struct Acked {
    pub(in crate::stream) now: Time,
    /// Bytes that have arrived.
    pub(in crate::stream) bytes: u64,
    /// Bytes on their way before it, and after.
    pub(in crate::stream) in_flight_before: u64,
    pub(in crate::stream) in_flight: u64,
    pub(in crate::stream) sample: Option<Sample>,
    /// A round trip that has been measured, in nanoseconds.
    pub(in crate::stream) rtt: Option<u64>,
}

/// A measurement of the path by one acknowledgement.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rate {
    /// Bytes per second; zero if the time was too short to say.
    pub(super) rate: u64,
    /// Bytes delivered since the frame was sent.
    pub(super) delivered: u64,
    /// As the frame's snapshot.
    pub(super) prior_delivered: u64,
    pub(super) is_starved: bool,
}

/// What has become of all bytes so far.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    pub(super) delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    pub(super) lost: u64,
    /// There was nothing to send until so many bytes have been delivered; zero: there always was.
    starved_until: u64,
}

impl Delivery {
    /// A frame is sent.
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

    /// There is nothing to send.
    pub(super) fn starved(&mut self, in_flight: u64) {
        self.starved_until = (self.delivered + in_flight).max(1);
    }

    /// Bytes have arrived, the newest by that sample; `shortest` is the shortest round trip in nanoseconds.
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
        // A shorter time than a round trip is that of an acknowledgement which many frames share.
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
