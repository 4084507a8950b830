//! Parts of messages.

use super::Malformed;
use super::bytes::{Out, Reader, put_u32, put_u64};

/// Message bytes that a frame carries.
pub trait Payload {
    /// Number of bytes.
    fn count(&self) -> usize;
}

/// Message bytes that can be copied into a frame, but need not be readable as a slice.
pub trait Readable: Payload {
    /// Writes the bytes to `room`, which has exactly their length.
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

/// Part of a message. `B` holds the part's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<B> {
    /// Operation that the receiver performs with the message.
    pub operation: Operation,
    /// The message's immediate data.
    pub immediate: Option<u32>,
    /// Number of bytes of the whole message.
    pub total: u32,
    /// Position of this part's bytes in the message.
    pub start: u32,
    /// This part's bytes. The first part is empty if the message is empty, or if the network moves the message by
    /// itself. In both cases it is the only part.
    pub bytes: B,
}

/// Operation that a receiver performs with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Delivers the message to a posted receive.
    Send,
    /// Writes the message to memory.
    Write {
        /// Address to write to.
        address: u64,
        /// Memory handle of the address.
        handle: u32,
    },
    /// Answers an RDMA read.
    ReadReply {
        /// Number of the read's item in its stream.
        read: u64,
    },
}

/// Flag in a part's second byte.
const HAS_IMMEDIATE: u8 = 1;
pub(super) const SEND: u8 = 1;
pub(super) const WRITE: u8 = 2;
pub(super) const READ_REPLY: u8 = 3;

impl<B: Payload> Part<B> {
    /// Returns the position in the message where the part's bytes end.
    pub fn end(&self) -> u32 {
        self.start.saturating_add(self.bytes.count() as u32)
    }

    /// Returns true if this is the last part.
    pub fn is_last(&self) -> bool {
        self.end() == self.total
    }

    /// Returns true if the message has bytes, but the frames carry none of them.
    pub fn is_announcement(&self) -> bool {
        self.total > 0 && self.bytes.count() == 0
    }

    /// Returns the same part with other bytes of the same length.
    pub fn with<C: Payload>(&self, bytes: C) -> Part<C> {
        debug_assert_eq!(bytes.count(), self.bytes.count(), "another part");
        let Part { operation, immediate, total, start, .. } = *self;
        Part { operation, immediate, total, start, bytes }
    }

    /// Number of bytes of the part in a frame.
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
    /// Parses a part whose first byte, `tag`, has been read.
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

    /// Copies the part's bytes into memory of its own.
    pub fn into_owned(self) -> Part<Vec<u8>> {
        let Part { operation, immediate, total, start, bytes } = self;
        Part { operation, immediate, total, start, bytes: bytes.to_vec() }
    }
}
