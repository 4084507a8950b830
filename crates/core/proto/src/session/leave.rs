//! A request for leave to send one message, and the leave: how long it may be and, where it is to be written by RDMA, to where.

use crate::Violation;

/// A request for leave, as it goes to the other end.
///
/// ```
/// use sovia_proto::session::Request;
///
/// let request = Request { bytes: 1000, waits: true };
/// assert_eq!(Request::decode(&request.encode()), Ok(request));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Bytes of the message.
    pub bytes: u32,
    /// The program's call stays until the message is written, so leave is used as soon as it comes. Only such leave may name memory
    /// that its owner wants back: a program that has gone on might never use it.
    pub waits: bool,
}

impl Request {
    /// Bytes of a request.
    pub const LEN: usize = 4;
    /// In the length's bits, none of which is as high.
    const WAITS: u32 = 1 << 31;

    /// As it travels.
    pub fn encode(&self) -> [u8; Request::LEN] {
        let waits = if self.waits { Request::WAITS } else { 0 };
        (self.bytes | waits).to_le_bytes()
    }

    /// From received bytes.
    ///
    /// # Errors
    /// [`Violation`] for another length.
    pub fn decode(body: &[u8]) -> Result<Request, Violation> {
        let body = body.try_into().map_err(|_| Violation("a handshake of the wrong length"))?;
        let bits = u32::from_le_bytes(body);
        Ok(Request { bytes: bits & !Request::WAITS, waits: bits & Request::WAITS != 0 })
    }
}

/// Memory of an end's, as the other end's RDMA writes name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Target {
    /// Address of its first byte, in the process that gives leave.
    pub address: u64,
    /// Raw handle of the region that it lies in.
    pub handle: u32,
}

/// Leave, as it comes from the other end.
///
/// ```
/// use sovia_proto::session::{Leave, Target};
///
/// let leave = Leave { bytes: 1000, to: Target { address: 0x7000_0000_1000, handle: 7 } };
/// assert_eq!(Leave::decode(&leave.encode()), Ok(leave));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leave {
    /// Bytes of the message at most.
    pub bytes: u32,
    /// Where it is to be written.
    pub to: Target,
}

impl Leave {
    /// Bytes of a leave that names memory.
    pub const LEN: usize = 16;

    /// As it travels.
    pub fn encode(&self) -> [u8; Leave::LEN] {
        let mut bytes = [0; Leave::LEN];
        bytes[..4].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.to.handle.to_le_bytes());
        bytes[8..].copy_from_slice(&self.to.address.to_le_bytes());
        bytes
    }

    /// From received bytes.
    ///
    /// # Errors
    /// [`Violation`] for another length.
    pub fn decode(body: &[u8]) -> Result<Leave, Violation> {
        let Ok(&[b0, b1, b2, b3, h0, h1, h2, h3, ref address @ ..]) =
            <&[u8; Leave::LEN]>::try_from(body)
        else {
            return Err(Violation("a permission of the wrong length"));
        };
        let to = Target {
            address: u64::from_le_bytes(*address),
            handle: u32::from_le_bytes([h0, h1, h2, h3]),
        };
        Ok(Leave { bytes: u32::from_le_bytes([b0, b1, b2, b3]), to })
    }
}
