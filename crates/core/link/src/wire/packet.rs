//! Every kind of frame, as plain values.

use super::bytes::{Reader, put_u32, put_u64};
use super::frame::{HEADER, begin, seal};
use super::meeting::{POKED, REQUEST};
use super::{EndId, Frame, Item, Malformed, Meeting, Part};

/// What a frame says; `B` are the bytes of messages.
///
/// ```
/// use sovia_link::Malformed;
/// use sovia_link::wire::{EndId, Packet};
///
/// let ack: Packet<&[u8]> = Packet::Ack { to: EndId::default(), from: EndId::default(), ack: 17 };
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
        /// The item's number, modulo 2^32.
        number: u32,
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
        /// Every item before this number has been received from `to`.
        ack: u32,
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

const STREAM: u8 = 1;
const ACK: u8 = 2;
const DATAGRAM: u8 = 3;
const GONE: u8 = 4;
const HELLO: u8 = 5;
const PROBE: u8 = 6;
const ECHO: u8 = 7;

impl<B: AsRef<[u8]>> Packet<B> {
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

    /// Writes the frame into a buffer, whose contents are lost.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let (kind, to, from) = self.header();
        begin(out, kind, to, from);
        match self {
            Packet::Stream { number, ack, item, .. } => {
                out.reserve(8 + item.size());
                put_u32(out, *number);
                put_u32(out, *ack);
                item.emit(out);
            }
            Packet::Ack { ack, .. } => put_u32(out, *ack),
            Packet::Datagram { message, part, .. } => {
                out.reserve(8 + part.size());
                put_u64(out, *message);
                part.emit(out);
            }
            Packet::Gone { .. } | Packet::Hello { .. } => {}
            Packet::Probe { nonce, .. } | Packet::Echo { nonce, .. } => put_u64(out, *nonce),
            Packet::Meeting(meeting) => meeting.emit_body(out),
        }
        seal(out);
    }
}

impl<'a> Packet<&'a [u8]> {
    /// What a frame says.
    ///
    /// # Errors
    /// [`Malformed`]
    pub fn parse(frame: &'a [u8]) -> Result<Packet<&'a [u8]>, Malformed> {
        let frame = Frame::checked(frame)?;
        let (kind, to, from) = (frame.kind(), frame.to(), frame.from());
        let reader = &mut Reader(frame.into_body());
        let packet = match kind {
            STREAM => {
                let (number, ack) = (reader.u32()?, reader.u32()?);
                Packet::Stream { to, from, number, ack, item: Item::parse(reader)? }
            }
            ACK => Packet::Ack { to, from, ack: reader.u32()? },
            DATAGRAM => {
                let message = reader.u64()?;
                let tag = reader.u8()?;
                Packet::Datagram { to, from, message, part: Part::parse(tag, reader)? }
            }
            GONE if from == EndId::NONE => Packet::Gone { to },
            GONE => return Err(Malformed::Value("ends")),
            HELLO => Packet::Hello { to, from },
            PROBE => Packet::Probe { to, from, nonce: reader.u64()? },
            ECHO => Packet::Echo { to, from, nonce: reader.u64()? },
            REQUEST..=POKED => Packet::Meeting(Meeting::parse(kind, to, from, reader)?),
            _ => return Err(Malformed::Kind(kind)),
        };
        reader.end()?;
        Ok(packet)
    }

    /// Bytes of a frame that carries part of a stream, beside the part's own.
    pub(crate) const STREAM_PART: usize = HEADER + 8 + 16;
}
