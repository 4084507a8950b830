//! What a stream consists of.

use super::bytes::{Out, Reader, put_u32, put_u64};
use super::part::{READ_REPLY, SEND, WRITE};
use super::{Malformed, Part, Payload, Readable};

/// An item of a stream; each has a number of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<B> {
    /// Part of a message. The parts of a message follow one another.
    Part(Part<B>),
    /// An RDMA read begins; its item's number names it.
    Read {
        /// Where to read.
        address: u64,
        /// The handle of the memory.
        handle: u32,
        /// How many bytes.
        length: u32,
    },
    /// The connection is over, and why. The last item.
    Close(Closing),
}

/// Why a connection is over, as the other end is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// The program has disconnected.
    Disconnected,
    /// Something went wrong that is not the other end's affair.
    Broke,
    /// The message whose last item has that number met no receive.
    NoReceive(u64),
    /// The message whose last item has that number met a receive in error.
    BadReceive(u64),
    /// The RDMA whose last item has that number is not allowed.
    RdmaDenied(u64),
}

const READ: u8 = 4;
const CLOSE: u8 = 5;

impl Closing {
    fn code(self) -> (u8, u64) {
        match self {
            Closing::Disconnected => (0, 0),
            Closing::Broke => (1, 0),
            Closing::NoReceive(number) => (2, number),
            Closing::BadReceive(number) => (3, number),
            Closing::RdmaDenied(number) => (4, number),
        }
    }

    fn of(code: (u8, u64)) -> Result<Closing, Malformed> {
        match code {
            (0, 0) => Ok(Closing::Disconnected),
            (1, 0) => Ok(Closing::Broke),
            (2, number) => Ok(Closing::NoReceive(number)),
            (3, number) => Ok(Closing::BadReceive(number)),
            (4, number) => Ok(Closing::RdmaDenied(number)),
            _ => Err(Malformed::Value("reason of the end")),
        }
    }
}

impl<B: Payload> Item<B> {
    /// Bytes that it occupies in a frame.
    pub(crate) fn size(&self) -> usize {
        match self {
            Item::Part(part) => part.size(),
            Item::Read { .. } => 20,
            Item::Close(_) => 12,
        }
    }

    pub(super) fn emit(&self, out: &mut impl Out)
    where
        B: Readable,
    {
        match self {
            Item::Part(part) => part.emit(out),
            Item::Read { address, handle, length } => {
                out.put(&[READ, 0, 0, 0]);
                put_u64(out, *address);
                put_u32(out, *handle);
                put_u32(out, *length);
            }
            Item::Close(closing) => {
                let (code, number) = closing.code();
                out.put(&[CLOSE, code, 0, 0]);
                put_u64(out, number);
            }
        }
    }
}

impl<'a> Item<&'a [u8]> {
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Item<&'a [u8]>, Malformed> {
        match reader.u8()? {
            tag @ (SEND | WRITE | READ_REPLY) => Part::parse(tag, reader).map(Item::Part),
            READ => {
                reader.zeros::<3>()?;
                let (address, handle, length) = (reader.u64()?, reader.u32()?, reader.u32()?);
                Ok(Item::Read { address, handle, length })
            }
            CLOSE => {
                let code = reader.u8()?;
                reader.zeros::<2>()?;
                Closing::of((code, reader.u64()?)).map(Item::Close)
            }
            _ => Err(Malformed::Value("item")),
        }
    }

    /// The item with bytes of its own.
    pub fn into_owned(self) -> Item<Vec<u8>> {
        match self {
            Item::Part(part) => Item::Part(part.into_owned()),
            Item::Read { address, handle, length } => Item::Read { address, handle, length },
            Item::Close(closing) => Item::Close(closing),
        }
    }
}
