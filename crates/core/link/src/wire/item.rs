//! Items: the elements of a stream.

use super::bytes::{Out, Reader, put_u32, put_u64};
use super::part::{READ_REPLY, SEND, WRITE};
use super::{Malformed, Part, Payload, Readable};

/// An item of a stream. Each item has its own number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<B> {
    /// Part of a message. The parts of a message follow one another.
    Part(Part<B>),
    /// Begins an RDMA read. The item's number identifies the read.
    Read {
        /// Address to read from.
        address: u64,
        /// Memory handle of the address.
        handle: u32,
        /// Number of bytes.
        length: u32,
    },
    /// Ends the connection, with a reason. No item follows.
    Close(Closing),
}

/// Reason for the end of a connection, as sent to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// The program has disconnected.
    Disconnected,
    /// An error occurred that does not concern the peer.
    Broke,
    /// No receive was posted for the message whose last item has this number.
    NoReceive(u64),
    /// The message whose last item has this number met a receive in error.
    BadReceive(u64),
    /// The RDMA whose last item has this number is not allowed.
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
    /// Number of bytes of the item in a frame.
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

    /// Copies the item's bytes into memory of its own.
    pub fn into_owned(self) -> Item<Vec<u8>> {
        match self {
            Item::Part(part) => Item::Part(part.into_owned()),
            Item::Read { address, handle, length } => Item::Read { address, handle, length },
            Item::Close(closing) => Item::Close(closing),
        }
    }
}
