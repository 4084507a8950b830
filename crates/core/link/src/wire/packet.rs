//! All kinds of frames, as plain values.

use super::bytes::{Out, Reader, Room, put_u32, put_u64};
use super::frame::{Checksum, HEADER, begin, seal_for};
use super::meeting::{POKED, REQUEST};
use super::{EndId, Frame, Item, Malformed, Meeting, Part, Readable, Report, Sending};

/// The contents of a frame. `B` holds message bytes.
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
    /// An item of a connection's stream, with an acknowledgement of the opposite direction.
    Stream {
        /// The receiving end.
        to: EndId,
        /// The sending end.
        from: EndId,
        /// The numbers of the item and of this transmission.
        sending: Sending,
        /// The sender of this frame has received every item before this number from `to`.
        ack: u32,
        /// The item.
        item: Item<B>,
    },
    /// An acknowledgement alone.
    Ack {
        /// The receiving end.
        to: EndId,
        /// The sending end.
        from: EndId,
        /// Report of the items received from `to`.
        report: Report,
    },
    /// Part of a message of an unreliable connection.
    Datagram {
        /// The receiving end.
        to: EndId,
        /// The sending end.
        from: EndId,
        /// The message's number.
        message: u64,
        /// The part.
        part: Part<B>,
    },
    /// The peer of the end `to` does not exist, or no longer.
    Gone {
        /// The receiving end.
        to: EndId,
    },
    /// Announces an end.
    Hello {
        /// The known peer, or the channel without an epoch if the sender does not know the peer.
        to: EndId,
        /// The announced end.
        from: EndId,
    },
    /// Asks whether an end still exists.
    Probe {
        /// The end that is asked.
        to: EndId,
        /// The end that asks.
        from: EndId,
        /// Number that the echo returns.
        nonce: u64,
        /// Number of zero bytes that follow, to give the frame the length that the sender wants to try on the path.
        padding: u32,
    },
    /// Answers a probe: the end exists.
    Echo {
        /// The end that has asked.
        to: EndId,
        /// The end that exists.
        from: EndId,
        /// The probe's nonce.
        nonce: u64,
    },
    /// A frame about a future connection.
    Meeting(Meeting),
}

/// A packet without message bytes.
pub type Word = Packet<[u8; 0]>;

pub(super) const STREAM: u8 = 1;
pub(super) const ACK: u8 = 2;
pub(super) const DATAGRAM: u8 = 3;
pub(super) const GONE: u8 = 4;
const HELLO: u8 = 5;
const PROBE: u8 = 6;
const ECHO: u8 = 7;

/// Bytes of a frame with a part of a send in a stream, without the part's own bytes.
pub(crate) const STREAM_PART: usize = HEADER + 12 + 16;
/// Largest number of bytes of a frame with a part of a message, without the part's own bytes. An RDMA write has the
/// most.
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

    /// Writes the frame with a checksum to `out`, replacing the contents of `out`.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_for(out, Checksum::Crc);
    }

    /// Writes the frame to `out`, replacing the contents of `out`. `link` says whether the frame needs a checksum.
    pub fn emit_for(&self, out: &mut Vec<u8>, link: Checksum) {
        out.clear();
        self.put(out);
        seal_for(out, link);
    }

    /// Writes the frame with a checksum to the beginning of `room`. Returns the frame's length, or `None` if `room` is
    /// too short.
    pub fn emit_into(&self, room: &mut [u8]) -> Option<usize> {
        self.emit_into_for(room, Checksum::Crc)
    }

    /// Like [`Packet::emit_into`]. `link` says whether the frame needs a checksum.
    pub fn emit_into_for(&self, room: &mut [u8], link: Checksum) -> Option<usize> {
        let mut out = Room::new(room);
        self.put(&mut out);
        let len = out.len;
        seal_for(room.get_mut(..len)?, link);
        Some(len)
    }

    /// Writes the frame, except for its length and checksum.
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
    /// Parses a frame, which must have a checksum.
    ///
    /// # Errors
    /// [`Malformed`]
    pub fn parse(frame: &'a [u8]) -> Result<Packet<&'a [u8]>, Malformed> {
        Packet::parse_for(frame, Checksum::Crc)
    }

    /// Parses a frame. `link` says whether the frame needs a checksum.
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

    /// Like [`Packet::parse_for`], for a network that moves long messages by itself. Parts without bytes announce these
    /// messages ([`Part::is_announcement`]).
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
