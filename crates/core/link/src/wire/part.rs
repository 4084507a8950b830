//! Parts of messages.

use super::Malformed;
use super::bytes::{Out, Reader, put_u32, put_u64};

/// Bytes of a message that a frame carries.
pub trait Payload {
    /// How many there are.
    fn count(&self) -> usize;
}

/// Bytes that a frame is written with. They may lie where they can only be copied from.
pub trait Readable: Payload {
    /// Writes them to `room`, which has room for just these.
    fn write_to(&self, room: &mut [u8]);
}

impl Payload for [u8] {
    fn count(&self) -> usize {
        self.len()
    }
}

impl Readable for [u8] {
    fn write_to(&self, room: &mut [u8]) {
        room.copy_from_slice(self);
    }
}

impl<const N: usize> Payload for [u8; N] {
    fn count(&self) -> usize {
        N
    }
}

impl<const N: usize> Readable for [u8; N] {
    fn write_to(&self, room: &mut [u8]) {
        room.copy_from_slice(self);
    }
}

impl Payload for Vec<u8> {
    fn count(&self) -> usize {
        self.len()
    }
}

impl Readable for Vec<u8> {
    fn write_to(&self, room: &mut [u8]) {
        room.copy_from_slice(self);
    }
}

impl<P: Payload + ?Sized> Payload for &P {
    fn count(&self) -> usize {
        (**self).count()
    }
}

impl<P: Readable + ?Sized> Readable for &P {
    fn write_to(&self, room: &mut [u8]) {
        (**self).write_to(room);
    }
}

/// Part of a message; `B` are the bytes that travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<B> {
    /// What is done with the message.
    pub operation: Operation,
    /// The message's immediate data.
    pub immediate: Option<u32>,
    /// Bytes of the whole message.
    pub total: u32,
    /// Where in the message this part's bytes belong.
    pub start: u32,
    /// This part's bytes. The first part of a message has none where the message has none, or where the network
    /// moves them by itself: then it is the only one.
    pub bytes: B,
}

/// What is done with a message at its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// It meets a posted receive.
    Send,
    /// It is written to memory.
    Write {
        /// Where.
        address: u64,
        /// The handle of the memory.
        handle: u32,
    },
    /// It answers the RDMA read of that number.
    ReadReply {
        /// The number of the read's item in its stream.
        read: u64,
    },
}

/// Bit of a part's second byte.
const HAS_IMMEDIATE: u8 = 1;
pub(super) const SEND: u8 = 1;
pub(super) const WRITE: u8 = 2;
pub(super) const READ_REPLY: u8 = 3;

impl<B: Payload> Part<B> {
    /// Where in the message the part's bytes end.
    pub fn end(&self) -> u32 {
        self.start.saturating_add(self.bytes.count() as u32)
    }

    /// Whether no other part follows.
    pub fn is_last(&self) -> bool {
        self.end() == self.total
    }

    /// Whether the message has bytes of which none come in frames.
    pub fn is_announcement(&self) -> bool {
        self.total > 0 && self.bytes.count() == 0
    }

    /// The part with other bytes, as many as it has.
    pub fn with<C: Payload>(&self, bytes: C) -> Part<C> {
        debug_assert_eq!(bytes.count(), self.bytes.count(), "another part");
        let Part { operation, immediate, total, start, .. } = *self;
        Part { operation, immediate, total, start, bytes }
    }

    /// Bytes that it occupies in a frame.
    pub(super) fn size(&self) -> usize {
        let operand = match self.operation {
            Operation::Send => 0,
            Operation::Write { .. } => 12,
            Operation::ReadReply { .. } => 8,
        };
        16 + operand + self.bytes.count()
    }

    pub(super) fn emit(&self, out: &mut impl Out)
    where
        B: Readable,
    {
        let tag = match self.operation {
            Operation::Send => SEND,
            Operation::Write { .. } => WRITE,
            Operation::ReadReply { .. } => READ_REPLY,
        };
        let flags = if self.immediate.is_some() { HAS_IMMEDIATE } else { 0 };
        out.put(&[tag, flags, 0, 0]);
        put_u32(out, self.immediate.unwrap_or(0));
        put_u32(out, self.total);
        put_u32(out, self.start);
        match self.operation {
            Operation::Send => {}
            Operation::Write { address, handle } => {
                put_u64(out, address);
                put_u32(out, handle);
            }
            Operation::ReadReply { read } => put_u64(out, read),
        }
        out.put_payload(&self.bytes);
    }
}

impl<'a> Part<&'a [u8]> {
    /// The part whose first byte, `tag`, has been read.
    pub(super) fn parse(tag: u8, reader: &mut Reader<'a>) -> Result<Part<&'a [u8]>, Malformed> {
        let flags = reader.u8()?;
        reader.zeros::<2>()?;
        let immediate = match (flags, reader.u32()?) {
            (HAS_IMMEDIATE, data) => Some(data),
            (0, 0) => None,
            _ => return Err(Malformed::Value("immediate data")),
        };
        let (total, start) = (reader.u32()?, reader.u32()?);
        let operation = match tag {
            SEND => Operation::Send,
            WRITE => Operation::Write { address: reader.u64()?, handle: reader.u32()? },
            READ_REPLY => Operation::ReadReply { read: reader.u64()? },
            _ => return Err(Malformed::Value("item")),
        };
        let bytes = reader.rest();
        let length = u32::try_from(bytes.len()).map_err(|_| Malformed::Long)?;
        let fits = start.checked_add(length).is_some_and(|end| end <= total);
        if !fits || (length == 0 && start > 0) {
            return Err(Malformed::Value("offset in the message"));
        }
        Ok(Part { operation, immediate, total, start, bytes })
    }

    /// The part with bytes of its own.
    pub fn into_owned(self) -> Part<Vec<u8>> {
        let Part { operation, immediate, total, start, bytes } = self;
        Part { operation, immediate, total, start, bytes: bytes.to_vec() }
    }
}
