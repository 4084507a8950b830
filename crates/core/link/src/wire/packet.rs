//! Every kind of frame, as plain values.

use super::bytes::{Out, Reader, Room, put_u32, put_u64};
use super::frame::{Checksum, HEADER, begin, seal_for};
use super::meeting::{POKED, REQUEST};
use super::{EndId, Frame, Item, Malformed, Meeting, Part, Readable, Report, Sending};

/// What a frame says; `B` are the bytes of messages.
///
/// ```
/// use sovia_link::Malformed;
/// use sovia_link::wire::{EndId, Packet, Report};
///
/// let (to, from) = (EndId::default(), EndId::default());
/// let ack: Packet<&[u8]> = Packet::Ack { to, from, report: Report::plain(17) };
/// let mut frame = Vec::new();
/// ack.emit(&mut frame);
/// assert_eq!(Packet::parse(&frame), Ok(ack));
///
/// frame[30] ^= 1;
/// assert_eq!(Packet::parse(&frame), Err(Malformed::Checksum));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet<B> {
    /// Part of a connection's stream, with an acknowledgement of the other direction's.
    Stream {
        /// The end that receives it.
        to: EndId,
        /// The end that sends it.
        from: EndId,
        /// The item's number, and that of this sending.
        sending: Sending,
        /// Every item before this number has been received from `to`.
        ack: u32,
        /// What it carries.
        item: Item<B>,
    },
    /// An acknowledgement alone.
    Ack {
        /// The end that receives it.
        to: EndId,
        /// The end that sends it.
        from: EndId,
        /// What has been received from `to`.
        report: Report,
    },
    /// Part of a message of an unreliable connection.
    Datagram {
        /// The end that receives it.
        to: EndId,
        /// The end that sends it.
        from: EndId,
        /// The message's number.
        message: u64,
        /// What it carries.
        part: Part<B>,
    },
    /// The peer of that end does not exist, or not any more.
    Gone {
        /// The end that receives it.
        to: EndId,
    },
    /// An end is there.
    Hello {
        /// The end that it has heard of; of a channel of which it has not: the channel, without an epoch.
        to: EndId,
        /// The end that is there.
        from: EndId,
    },
    /// Asks whether an end is there still.
    Probe {
        /// The end that is asked.
        to: EndId,
        /// The end that asks.
        from: EndId,
        /// To be echoed.
        nonce: u64,
        /// Bytes of zeros behind it, which make the frame as long as the path is to be tried for.
        padding: u32,
    },
    /// It is.
    Echo {
        /// The end that has asked.
        to: EndId,
        /// The end that is there.
        from: EndId,
        /// The probe's.
        nonce: u64,
    },
    /// A word about a connection that is to be.
    Meeting(Meeting),
}

/// A packet without bytes of a message.
pub type Word = Packet<[u8; 0]>;

pub(super) const STREAM: u8 = 1;
pub(super) const ACK: u8 = 2;
pub(super) const DATAGRAM: u8 = 3;
pub(super) const GONE: u8 = 4;
const HELLO: u8 = 5;
const PROBE: u8 = 6;
const ECHO: u8 = 7;

/// Bytes of a frame that carries a part of a send by a stream, beside the part's own.
pub(crate) const STREAM_PART: usize = HEADER + 12 + 16;
/// Bytes of a frame that carries a part of any message, beside the part's own, at most: an RDMA write's has the most.
pub const OVERHEAD: usize = STREAM_PART + 12;

impl<B: Readable> Packet<B> {
    /// Bytes of a probe without padding.
    pub const PROBE: usize = HEADER + 8;

    fn header(&self) -> (u8, EndId, EndId) {
        match *self {
            Packet::Stream { to, from, .. } => (STREAM, to, from),
            Packet::Ack { to, from, .. } => (ACK, to, from),
            Packet::Datagram { to, from, .. } => (DATAGRAM, to, from),
            Packet::Gone { to } => (GONE, to, EndId::NONE),
            Packet::Hello { to, from } => (HELLO, to, from),
            Packet::Probe { to, from, .. } => (PROBE, to, from),
            Packet::Echo { to, from, .. } => (ECHO, to, from),
            Packet::Meeting(ref meeting) => meeting.header(),
        }
    }

    /// Writes the frame into a buffer, whose contents are lost. It has a checksum.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_for(out, Checksum::Crc);
    }

    /// Writes the frame into a buffer, whose contents are lost, for a link that needs a checksum or has its own.
    pub fn emit_for(&self, out: &mut Vec<u8>, link: Checksum) {
        out.clear();
        self.put(out);
        seal_for(out, link);
    }

    /// Writes the frame to the beginning of `room`, and gives its length; `None` if there is too little room. It has a
    /// checksum.
    pub fn emit_into(&self, room: &mut [u8]) -> Option<usize> {
        self.emit_into_for(room, Checksum::Crc)
    }

    /// As [`Packet::emit_into`], for a link that needs a checksum or has its own.
    pub fn emit_into_for(&self, room: &mut [u8], link: Checksum) -> Option<usize> {
        let mut out = Room::new(room);
        self.put(&mut out);
        let len = out.len;
        seal_for(room.get_mut(..len)?, link);
        Some(len)
    }

    /// The frame, to be finished.
    fn put(&self, out: &mut impl Out) {
        let (kind, to, from) = self.header();
        out.put(&begin(kind, to, from));
        match self {
            Packet::Stream { sending, ack, item, .. } => {
                put_u32(out, sending.number);
                put_u32(out, sending.transmission);
                put_u32(out, *ack);
                item.emit(out);
            }
            Packet::Ack { report, .. } => report.emit(out),
            Packet::Datagram { message, part, .. } => {
                put_u64(out, *message);
                part.emit(out);
            }
            Packet::Gone { .. } | Packet::Hello { .. } => {}
            Packet::Probe { nonce, padding, .. } => {
                put_u64(out, *nonce);
                const ZEROS: [u8; 64] = [0; 64];
                let mut left = *padding as usize;
                while left > 0 {
                    let some = left.min(ZEROS.len());
                    out.put(&ZEROS[..some]);
                    left -= some;
                }
            }
            Packet::Echo { nonce, .. } => put_u64(out, *nonce),
            Packet::Meeting(meeting) => meeting.emit_body(out),
        }
    }
}

impl<'a> Packet<&'a [u8]> {
    /// What a frame says, which must have a checksum.
    ///
    /// # Errors
    /// [`Malformed`]
    pub fn parse(frame: &'a [u8]) -> Result<Packet<&'a [u8]>, Malformed> {
        Packet::parse_for(frame, Checksum::Crc)
    }

    /// What a frame says that came over a link which needs a checksum or has its own.
    ///
    /// # Errors
    /// [`Malformed`]
    pub fn parse_for(frame: &'a [u8], link: Checksum) -> Result<Packet<&'a [u8]>, Malformed> {
        let packet = Packet::parse_announcing(frame, link)?;
        match &packet {
            Packet::Stream { item: Item::Part(part), .. } | Packet::Datagram { part, .. }
                if part.is_announcement() =>
            {
                Err(Malformed::Value("offset in the message"))
            }
            _ => Ok(packet),
        }
    }

    /// As [`Packet::parse_for`], over a network that moves long messages by itself: parts without bytes announce them
    /// ([`Part::is_announcement`]).
    ///
    /// # Errors
    /// [`Malformed`]
    pub fn parse_announcing(
        frame: &'a [u8],
        link: Checksum,
    ) -> Result<Packet<&'a [u8]>, Malformed> {
        let frame = Frame::checked_for(frame, link)?;
        let (kind, to, from) = (frame.kind(), frame.to(), frame.from());
        let reader = &mut Reader(frame.into_body());
        let packet = match kind {
            STREAM => {
                let sending = Sending { number: reader.u32()?, transmission: reader.u32()? };
                let ack = reader.u32()?;
                Packet::Stream { to, from, sending, ack, item: Item::parse(reader)? }
            }
            ACK => Packet::Ack { to, from, report: Report::parse(reader)? },
            DATAGRAM => {
                let message = reader.u64()?;
                let tag = reader.u8()?;
                Packet::Datagram { to, from, message, part: Part::parse(tag, reader)? }
            }
            GONE if from == EndId::NONE => Packet::Gone { to },
            GONE => return Err(Malformed::Value("ends")),
            HELLO => Packet::Hello { to, from },
            PROBE => {
                let nonce = reader.u64()?;
                Packet::Probe { to, from, nonce, padding: reader.padding()? }
            }
            ECHO => Packet::Echo { to, from, nonce: reader.u64()? },
            REQUEST..=POKED => Packet::Meeting(Meeting::parse(kind, to, from, reader)?),
            _ => return Err(Malformed::Kind(kind)),
        };
        reader.end()?;
        Ok(packet)
    }
}
