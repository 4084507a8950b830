//! EMP's frames, as values and as bytes. docs/research/emp.md describes their format.
//!
//! The header is the header of `sovia-link`, with kinds that `sovia-link` does not use. [`Frame::parse`] does all
//! checks: whatever parses is valid, and emitting it returns the same bytes.

use crate::Node;
use sovia_link::Malformed;
use sovia_link::wire::bytes::{Out, Reader, Room, put_u32, put_u64};
use sovia_link::wire::{Checksum, EndId, HEADER, begin, seal_for};

/// Maximum number of frames of a collection.
pub const COLLECTION_MAX: u8 = 8;
/// In an acknowledgement: all collections of the message.
pub const WHOLE: u32 = u32::MAX;
/// Length of a frame with the first bytes of a message and an acknowledgement, without the message's bytes.
pub const OVERHEAD: usize = HEADER + 12 + ACK + MESSAGE;

const ACK: usize = 16;
const MESSAGE: usize = 16;

const FIRST: u8 = 48;
const LATER: u8 = 49;
const ACKNOWLEDGED: u8 = 50;
const REFUSED: u8 = 51;
const NOTED: u8 = 52;
const NOT_READY: u8 = 53;
const GO: u8 = 54;
const HELLO: u8 = 55;
const WELCOME: u8 = 56;
const GONE: u8 = 57;

/// Flag: the frame contains an acknowledgement.
const HAS_ACK: u8 = 1;

/// A frame. `B` is the type of message bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame<B> {
    /// The receiving station.
    pub to: EndId,
    /// The sending station.
    pub from: EndId,
    /// The contents.
    pub body: Body<B>,
}

/// The contents of a frame. `sender` is the number by which the receiver knows the sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body<B> {
    /// A part of a message.
    Data {
        /// The sender's number.
        sender: Node,
        /// Message and number of the frame.
        head: Head,
        /// In the first frame: the message's properties.
        message: Option<Message>,
        /// An acknowledgement for messages in the other direction.
        ack: Option<Ack>,
        /// The bytes of the part.
        bytes: B,
    },
    /// An acknowledgement without data.
    Ack {
        /// The sender's number.
        sender: Node,
        /// The acknowledged parts.
        ack: Ack,
    },
    /// A refusal: the receiver will never take the message.
    Refused {
        /// The sender's number.
        sender: Node,
        /// The message.
        id: u32,
        /// The reason.
        why: Why,
    },
    /// A confirmation that the sender has received the refusal of a message.
    Noted {
        /// The sender's number.
        sender: Node,
        /// The message.
        id: u32,
    },
    /// A report that the first frame of a message was dropped because no receive matched.
    NotReady {
        /// The sender's number.
        sender: Node,
        /// The message.
        id: u32,
        /// Set if an earlier message with the same tag has not arrived.
        is_early: bool,
    },
    /// A report that a receive now exists for messages with a tag. An earlier message with the tag found no receive.
    Go {
        /// The sender's number.
        sender: Node,
        /// The tag.
        tag: u32,
    },
    /// A question if the other station is alive.
    Hello(Hello),
    /// The answer to a hello.
    Welcome(Greeting),
    /// A report that no station has this name, or no longer.
    Gone {
        /// The name.
        name: EndId,
    },
}

/// The number of a frame, and its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The message.
    pub id: u32,
    /// The frame; the first frame is 0.
    pub number: u32,
}

/// Properties of a message, which its first frame contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Length of the message in bytes.
    pub total: u32,
    /// Number of frames.
    pub frames: u32,
    /// Bytes of each frame except the last.
    pub size: u16,
    /// Distance to the last earlier message of this sender with the same tag, if no receive is known to match that
    /// message; otherwise 0.
    pub after: u16,
    /// The tag.
    pub tag: u32,
    /// Number of frames per collection.
    pub collection: u8,
}

impl Message {
    /// Returns the number of frames of a message of `total` bytes.
    pub fn frames_of(total: u32, size: u16) -> u32 {
        total.div_ceil(u32::from(size.max(1))).max(1)
    }

    /// Returns position and length of a frame's bytes in the message. The message must have the frame.
    pub fn place_of(&self, number: u32) -> (u32, u32) {
        let at = number.saturating_mul(u32::from(self.size)).min(self.total);
        (at, (self.total - at).min(u32::from(self.size)))
    }
}

/// An acknowledgement: the header of a collection's last arrived frame, and all that arrived before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// The frame's message.
    pub id: u32,
    /// The frame.
    pub number: u32,
    /// All collections of the message before this one have arrived. [`WHOLE`]: the whole message has arrived.
    pub below: u32,
    /// All messages before this one have arrived.
    pub done: u32,
}

/// Reason why a message is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The message is longer than the receive that it met.
    TooLong,
    /// The receiver gave up the sender in the middle of the message.
    GivenUp,
}

/// The introduction of a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    /// A number that the answer repeats.
    pub nonce: u64,
    /// The number by which the sender knows the receiver.
    pub you: Node,
    /// The sender sends no message before this one any more.
    pub first: u32,
}

/// A question if a station is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The receiver's key.
    pub key: u64,
    /// The sender's own key.
    pub own_key: u64,
    /// The introduction of the sender.
    pub greeting: Greeting,
}

impl<B> Body<B> {
    fn kind(&self) -> u8 {
        match self {
            Body::Data { message: Some(_), .. } => FIRST,
            Body::Data { .. } => LATER,
            Body::Ack { .. } => ACKNOWLEDGED,
            Body::Refused { .. } => REFUSED,
            Body::Noted { .. } => NOTED,
            Body::NotReady { .. } => NOT_READY,
            Body::Go { .. } => GO,
            Body::Hello(_) => HELLO,
            Body::Welcome(_) => WELCOME,
            Body::Gone { .. } => GONE,
        }
    }
}

impl<B: AsRef<[u8]>> Frame<B> {
    /// Writes the frame to the beginning of `room` and returns its length; `None` if `room` is too short.
    pub fn emit(&self, room: &mut [u8], link: Checksum) -> Option<usize> {
        self.emit_with(room, link, 0, |_| ())
    }

    /// Like [`Frame::emit`], with `more` bytes after the frame, which `fill` writes.
    pub fn emit_with(
        &self,
        room: &mut [u8],
        link: Checksum,
        more: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Option<usize> {
        let mut out = Room::new(room);
        self.put(&mut out);
        let (begin, len) = (out.len, out.len + more);
        let frame = room.get_mut(..len)?;
        fill(&mut frame[begin..]);
        seal_for(frame, link);
        Some(len)
    }

    fn put(&self, out: &mut impl Out) {
        out.put(&begin(self.body.kind(), self.to, self.from));
        match &self.body {
            Body::Data { sender, head, message, ack, bytes } => {
                let flags = if ack.is_some() { HAS_ACK } else { 0 };
                put_sender(out, *sender, flags, message.map_or(0, |message| message.collection));
                put_u32(out, head.id);
                put_u32(out, head.number);
                if let Some(ack) = ack {
                    put_ack(out, ack);
                }
                if let Some(message) = message {
                    put_u32(out, message.total);
                    put_u32(out, message.frames);
                    out.put(&message.size.to_be_bytes());
                    out.put(&message.after.to_be_bytes());
                    put_u32(out, message.tag);
                }
                out.put(bytes.as_ref());
            }
            Body::Ack { sender, ack } => {
                put_sender(out, *sender, 0, 0);
                put_ack(out, ack);
            }
            Body::Refused { sender, id, why } => {
                let why = match why {
                    Why::TooLong => 1,
                    Why::GivenUp => 2,
                };
                put_sender(out, *sender, why, 0);
                put_u32(out, *id);
            }
            Body::NotReady { sender, id, is_early } => {
                put_sender(out, *sender, u8::from(*is_early), 0);
                put_u32(out, *id);
            }
            Body::Noted { sender, id: word } | Body::Go { sender, tag: word } => {
                put_sender(out, *sender, 0, 0);
                put_u32(out, *word);
            }
            Body::Hello(hello) => {
                put_greeting(out, &hello.greeting);
                put_u64(out, hello.key);
                put_u64(out, hello.own_key);
            }
            Body::Welcome(greeting) => put_greeting(out, greeting),
            Body::Gone { name } => put_u64(out, name.0),
        }
    }
}

fn put_sender(out: &mut impl Out, sender: Node, flags: u8, collection: u8) {
    out.put(&sender.to_be_bytes());
    out.put(&[flags, collection]);
}

fn put_ack(out: &mut impl Out, ack: &Ack) {
    let Ack { id, number, below, done } = *ack;
    [id, number, below, done].into_iter().for_each(|value| put_u32(out, value));
}

fn put_greeting(out: &mut impl Out, greeting: &Greeting) {
    out.put(&greeting.you.to_be_bytes());
    out.put(&[0, 0]);
    put_u32(out, greeting.first);
    put_u64(out, greeting.nonce);
}

impl<'a> Frame<&'a [u8]> {
    /// Returns true if the kind of a frame is one of EMP's kinds. Checks nothing else.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.get(1).is_some_and(|kind| (FIRST..=GONE).contains(kind))
    }

    /// Parses a frame.
    ///
    /// # Errors
    /// Returns [`Malformed`] if the frame is invalid.
    pub fn parse(bytes: &'a [u8], link: Checksum) -> Result<Frame<&'a [u8]>, Malformed> {
        let frame = sovia_link::wire::Frame::checked_for(bytes, link)?;
        let (kind, to, from) = (frame.kind(), frame.to(), frame.from());
        let reader = &mut Reader(frame.into_body());
        let body = match kind {
            FIRST | LATER => data(kind == FIRST, reader)?,
            ACKNOWLEDGED => {
                let sender = plain_sender(reader)?;
                Body::Ack { sender, ack: ack(reader)? }
            }
            REFUSED => {
                let (sender, why) = flagged_sender(reader)?;
                let why = match why {
                    1 => Why::TooLong,
                    2 => Why::GivenUp,
                    _ => return Err(Malformed::Value("reason of the refusal")),
                };
                Body::Refused { sender, id: reader.u32()?, why }
            }
            NOTED => Body::Noted { sender: plain_sender(reader)?, id: reader.u32()? },
            NOT_READY => {
                let (sender, is_early) = flagged_sender(reader)?;
                if is_early > 1 {
                    return Err(Malformed::Value("early flag"));
                }
                Body::NotReady { sender, id: reader.u32()?, is_early: is_early == 1 }
            }
            GO => Body::Go { sender: plain_sender(reader)?, tag: reader.u32()? },
            HELLO => {
                let greeting = greeting(reader)?;
                let (key, own_key) = (reader.u64()?, reader.u64()?);
                Body::Hello(Hello { key, own_key, greeting })
            }
            WELCOME => Body::Welcome(greeting(reader)?),
            GONE => Body::Gone { name: EndId(reader.u64()?) },
            _ => return Err(Malformed::Kind(kind)),
        };
        reader.end()?;
        // Only a hello may be for a station whose name is unknown.
        let is_named = kind == HELLO || to != EndId::NONE;
        if !is_named || (from == EndId::NONE) != (kind == GONE) {
            return Err(Malformed::Value("ends"));
        }
        Ok(Frame { to, from, body })
    }
}

fn flagged_sender(reader: &mut Reader<'_>) -> Result<(Node, u8), Malformed> {
    let (sender, flags) = (reader.u16()?, reader.u8()?);
    reader.zeros::<1>()?;
    Ok((sender, flags))
}

fn plain_sender(reader: &mut Reader<'_>) -> Result<Node, Malformed> {
    let sender = reader.u16()?;
    reader.zeros::<2>()?;
    Ok(sender)
}

fn ack(reader: &mut Reader<'_>) -> Result<Ack, Malformed> {
    let (id, number) = (reader.u32()?, reader.u32()?);
    Ok(Ack { id, number, below: reader.u32()?, done: reader.u32()? })
}

fn greeting(reader: &mut Reader<'_>) -> Result<Greeting, Malformed> {
    let you = reader.u16()?;
    reader.zeros::<2>()?;
    let first = reader.u32()?;
    Ok(Greeting { you, first, nonce: reader.u64()? })
}

fn data<'a>(is_first: bool, reader: &mut Reader<'a>) -> Result<Body<&'a [u8]>, Malformed> {
    let (sender, flags, collection) = (reader.u16()?, reader.u8()?, reader.u8()?);
    if flags & !HAS_ACK != 0 {
        return Err(Malformed::Value("flags of the message"));
    }
    let head = Head { id: reader.u32()?, number: reader.u32()? };
    let is_legal =
        if is_first { (1..=COLLECTION_MAX).contains(&collection) } else { collection == 0 };
    if !is_legal {
        return Err(Malformed::Value("frames of a collection"));
    }
    if is_first != (head.number == 0) {
        return Err(Malformed::Value("frame number"));
    }
    let ack = if flags & HAS_ACK == 0 { None } else { Some(ack(reader)?) };
    let message = if is_first { Some(message(collection, reader)?) } else { None };
    let bytes = reader.rest();
    let is_legal = match &message {
        Some(message) => bytes.len() as u32 == message.place_of(0).1,
        // The first frame determines the length.
        None => !bytes.is_empty(),
    };
    if !is_legal {
        return Err(Malformed::Value("offset in the message"));
    }
    Ok(Body::Data { sender, head, message, ack, bytes })
}

fn message(collection: u8, reader: &mut Reader<'_>) -> Result<Message, Malformed> {
    let (total, frames) = (reader.u32()?, reader.u32()?);
    let (size, after) = (reader.u16()?, reader.u16()?);
    let tag = reader.u32()?;
    if size == 0 || frames != Message::frames_of(total, size) {
        return Err(Malformed::Value("number of frames"));
    }
    Ok(Message { total, frames, size, after, tag, collection })
}
