//! Settings of a channel.

use crate::stream::{Control, Timing};
use crate::wire::{Checksum, HEADER, Report, STREAM_PART};
use core::time::Duration;

/// Settings of a channel. The two ends may differ in everything but `message_max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Bytes of the longest frame, including its header; at least [`Config::MTU_MIN`].
    pub mtu: usize,
    /// Largest number of frames in flight in one direction.
    pub window: usize,
    /// Congestion control, which further limits the frames in flight.
    pub control: Control,
    /// Number of unacknowledged frames from which [`send`](super::Channel::send) returns [`Full`](super::Full).
    pub send_buffer: usize,
    /// Bytes of complete messages not yet polled, from which this end acknowledges no more frames. The peer's send
    /// buffer then fills.
    pub receive_buffer: usize,
    /// Bytes of the longest message. Both ends refuse longer messages.
    pub message_max: usize,
    /// Checksum required of incoming frames. An end checks every checksum that a frame has, on any link.
    pub link: Checksum,
    /// Checksum of outgoing frames.
    pub sends: Checksum,
    /// Shortest time to wait for an acknowledgement before frames are sent again.
    pub retransmit_first: Duration,
    /// Longest time to wait. Each wait without an answer is twice the previous one.
    pub retransmit_longest: Duration,
}

impl Default for Config {
    /// Settings for a network within one host or one room: frames for Ethernet, a window of 64 frames.
    fn default() -> Config {
        Config {
            mtu: 1500,
            window: 64,
            control: Control::Fixed,
            send_buffer: 256,
            receive_buffer: 256 << 10,
            message_max: 1 << 20,
            link: Checksum::Crc,
            sends: Checksum::Crc,
            retransmit_first: Duration::from_millis(1),
            retransmit_longest: Duration::from_millis(250),
        }
    }
}

impl Config {
    /// The smallest MTU, which leaves 8 bytes for a part of a message.
    pub const MTU_MIN: usize = 64;

    /// Number of message bytes that one frame carries.
    pub(super) fn part(&self) -> usize {
        self.mtu.max(Config::MTU_MIN) - STREAM_PART
    }

    /// Number of ranges that fit into an acknowledgement.
    pub(super) fn ranges(&self) -> usize {
        (self.mtu.max(Config::MTU_MIN) - HEADER - Report::BYTES) / Report::RANGE_BYTES
    }

    pub(super) fn longest(&self) -> u32 {
        u32::try_from(self.message_max).unwrap_or(u32::MAX)
    }

    /// Returns the limits of retransmission. A channel never gives up.
    pub(super) fn timing(&self) -> Timing {
        let (first, longest) = (self.retransmit_first, self.retransmit_longest);
        Timing { first: first.max(Duration::from_nanos(1)), longest, tries: None }
    }
}
