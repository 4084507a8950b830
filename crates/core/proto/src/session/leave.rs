//! Request for permission to send one message, and the permission (*leave* in the code).
//!
//! A permission gives the message's maximum length. With RDMA writes it also names the receiver's memory for the
//! message.

use crate::Violation;

/// A request for permission, as sent to the other end.
///
/// ```
/// use sovia_proto::session::Request;
///
/// let request = Request { bytes: 1000, waits: true };
/// assert_eq!(Request::decode(&request.encode()), Ok(request));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Length of the message in bytes.
    pub bytes: u32,
    /// Set if the sending program waits in its call until the message is written. Then the sender uses the
    /// permission as soon as the permission arrives. So the receiver may lend memory that it needs back. If the
    /// call has returned, the program might never send the message.
    pub waits: bool,
}

impl Request {
    /// Length of an encoded request in bytes.
    pub const LEN: usize = 4;
    /// Bit for `waits` in the word of the length. Lengths never use this bit.
    const WAITS: u32 = 1 << 31;

    /// Encodes the request for a packet.
    pub fn encode(&self) -> [u8; Request::LEN] {
        let waits = if self.waits { Request::WAITS } else { 0 };
        (self.bytes | waits).to_le_bytes()
    }

    /// Decodes a received request.
    ///
    /// # Errors
    /// [`Violation`] if `body` has another length.
    pub fn decode(body: &[u8]) -> Result<Request, Violation> {
        let body = body.try_into().map_err(|_| Violation("a handshake of the wrong length"))?;
        let bits = u32::from_le_bytes(body);
        Ok(Request { bytes: bits & !Request::WAITS, waits: bits & Request::WAITS != 0 })
    }
}

/// Memory of one end, to which the other end writes by RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Target {
    /// Address of the first byte, in the process that gives permission.
    pub address: u64,
    /// Raw handle of the memory region that contains the bytes.
    pub handle: u32,
}

/// A permission, as received from the other end.
///
/// ```
/// use sovia_proto::session::{Leave, Target};
///
/// let leave = Leave { bytes: 1000, to: Target { address: 0x7000_0000_1000, handle: 7 } };
/// assert_eq!(Leave::decode(&leave.encode()), Ok(leave));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leave {
    /// Maximum length of the message in bytes.
    pub bytes: u32,
    /// Memory to which the sender writes the message.
    pub to: Target,
}

impl Leave {
    /// Length in bytes of an encoded permission that names memory.
    pub const LEN: usize = 16;

    /// Encodes the permission for a packet.
    pub fn encode(&self) -> [u8; Leave::LEN] {
        let mut bytes = [0; Leave::LEN];
        bytes[..4].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.to.handle.to_le_bytes());
        bytes[8..].copy_from_slice(&self.to.address.to_le_bytes());
        bytes
    }

    /// Decodes a received permission.
    ///
    /// # Errors
    /// [`Violation`] if `body` has another length.
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
