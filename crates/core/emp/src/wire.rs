//! Frames of EMP, as plain values and as bytes. Their format is in docs/develop/emp.md.
//!
//! The header is `sovia-link`'s; the kinds are beyond those of link. Everything is checked once, in [`Frame::parse`]: whatever
//! parses is legal, and emitting it gives the same bytes again.

use crate::Node;
use sovia_link::Malformed;
use sovia_link::wire::bytes::{Out, Reader, Room, put_u32, put_u64};
use sovia_link::wire::{Checksum, EndId, HEADER, begin, seal_for};

/// Frames of a collection at most.
pub const COLLECTION_MAX: u8 = 8;
/// An acknowledgement of every collection of its message.
pub const WHOLE: u32 = u32::MAX;
/// Bytes of a frame that carries a message's first bytes and an acknowledgement, beside the bytes.
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

/// The bit that says that there is an acknowledgement.
const HAS_ACK: u8 = 1;

/// A frame; `B` are the bytes of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame<B> {
    /// The station that receives it.
    pub to: EndId,
    /// The station that sends it.
    pub from: EndId,
    /// What it says.
    pub body: Body<B>,
}

/// What a frame says. `sender` is the number by which its receiver knows its sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body<B> {
    /// Part of a message.
    Data {
        /// The sender's number.
        sender: Node,
        /// Which part of which message.
        head: Head,
        /// Of the first frame: what the message is like.
        message: Option<Message>,
        /// An acknowledgement of the other direction's.
        ack: Option<Ack>,
        /// The part.
        bytes: B,
    },
    /// An acknowledgement alone.
    Ack {
        /// The sender's number.
        sender: Node,
        /// What has come.
        ack: Ack,
    },
    /// The receiver will never take the message.
    Refused {
        /// The sender's number.
        sender: Node,
        /// The message.
        id: u32,
        /// Why.
        why: Why,
    },
    /// The sender has heard that the message is refused.
    Noted {
        /// The sender's number.
        sender: Node,
        /// The message.
        id: u32,
    },
    /// The message has found no receive, and its frame was dropped.
    NotReady {
        /// The sender's number.
        sender: Node,
        /// The message.
        id: u32,
        /// One before it with the same tag has not come.
        is_early: bool,
    },
    /// There is a receive now for messages with that tag, one of which had found none.
    Go {
        /// The sender's number.
        sender: Node,
        /// The tag.
        tag: u32,
    },
    /// The station is there, and asks whether the other one is.
    Hello(Hello),
    /// The answer to that.
    Welcome(Greeting),
    /// There is no station of that name (any more).
    Gone {
        /// The name.
        name: EndId,
    },
}

/// Which frame of which message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The message.
    pub id: u32,
    /// The frame; the first is 0.
    pub number: u32,
}

/// What a message is like, as its first frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Bytes of all of it.
    pub total: u32,
    /// Frames of all of it.
    pub frames: u32,
    /// Bytes of each frame but the last.
    pub size: u16,
    /// How many messages of this sender back the last one is that has the same tag and is not known to be matched; 0: none.
    pub after: u16,
    /// Its tag.
    pub tag: u32,
    /// Frames of a collection.
    pub collection: u8,
}

impl Message {
    /// Frames of a message of so many bytes.
    pub fn frames_of(total: u32, size: u16) -> u32 {
        total.div_ceil(u32::from(size.max(1))).max(1)
    }

    /// Where a frame's bytes lie in the message, and how many they are. The frame is one of the message's.
    pub fn place_of(&self, number: u32) -> (u32, u32) {
        let at = number.saturating_mul(u32::from(self.size)).min(self.total);
        (at, (self.total - at).min(u32::from(self.size)))
    }
}

/// An acknowledgement: the header of the last frame that came of a collection, and what has come before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// The frame's message.
    pub id: u32,
    /// The frame.
    pub number: u32,
    /// All collections of the message before this one have come; [`WHOLE`]: all of the message.
    pub below: u32,
    /// All messages before this one have come.
    pub done: u32,
}

/// Why a message is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It is longer than the receive that it met.
    TooLong,
    /// The receiver had given the sender up in the middle of it.
    GivenUp,
}

/// What a station says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    /// What the answer has to repeat, or repeats.
    pub nonce: u64,
    /// The number by which the sender knows the receiver.
    pub you: Node,
    /// The sender sends no message before this one any more.
    pub first: u32,
}

/// A question whether a station is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The receiver's key.
    pub key: u64,
    /// The sender's own key.
    pub own_key: u64,
    /// What the station says of itself.
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
    /// Writes the frame to the beginning of `room`, and gives its length; `None` if there is too little room.
    pub fn emit(&self, room: &mut [u8], link: Checksum) -> Option<usize> {
        self.emit_with(room, link, 0, |_| ())
    }

    /// As [`Frame::emit`], with `more` bytes behind those of the frame, which `fill` writes.
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
    /// Whether bytes are a frame of EMP, by their kind alone.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.get(1).is_some_and(|kind| (FIRST..=GONE).contains(kind))
    }

    /// What a frame says.
    ///
    /// # Errors
    /// [`Malformed`]
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
        // A hello may be for a station whose name is not known; nothing else is.
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
        // How many there are to be is known where the first frame is.
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
