//! What a channel is like.

use crate::stream::{Control, Timing};
use crate::wire::{Checksum, HEADER, Report, STREAM_PART};
use core::time::Duration;

/// What a channel is like. The two ends may differ in everything but `message_max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Bytes of the longest frame, header included; at least [`Config::MTU_MIN`].
    pub mtu: usize,
    /// Frames of one direction that may be on their way.
    pub window: usize,
    /// What else limits them.
    pub control: Control,
    /// Frames not acknowledged from which on [`send`](super::Channel::send) returns [`Full`](super::Full).
    pub send_buffer: usize,
    /// Bytes of whole messages not yet polled from which on frames are not acknowledged any more, so that the
    /// other end's buffer fills.
    pub receive_buffer: usize,
    /// Bytes of the longest message. One that is longer is refused by both ends.
    pub message_max: usize,
    /// Checksum by which corrupt incoming frames are found. A frame that has a checksum is checked on any link.
    pub link: Checksum,
    /// Whether frames that are sent have a checksum.
    pub sends: Checksum,
    /// How long an acknowledgement is awaited at least before frames are sent again.
    pub retransmit_first: Duration,
    /// How long at most; each wait without an answer is twice the one before.
    pub retransmit_longest: Duration,
}

impl Default for Config {
    /// For a network within one host or one room: frames for Ethernet, a window of 64 frames.
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
    /// The smallest MTU: it leaves a part 8 bytes of its message.
    pub const MTU_MIN: usize = 64;

    /// Bytes of a message that one frame carries.
    pub(super) fn part(&self) -> usize {
        self.mtu.max(Config::MTU_MIN) - STREAM_PART
    }

    /// Ranges that fit into an acknowledgement.
    pub(super) fn ranges(&self) -> usize {
        (self.mtu.max(Config::MTU_MIN) - HEADER - Report::BYTES) / Report::RANGE_BYTES
    }

    pub(super) fn longest(&self) -> u32 {
        u32::try_from(self.message_max).unwrap_or(u32::MAX)
    }

    /// A channel is never given up.
    pub(super) fn timing(&self) -> Timing {
        let (first, longest) = (self.retransmit_first, self.retransmit_longest);
        Timing { first: first.max(Duration::from_nanos(1)), longest, tries: None }
    }
}
