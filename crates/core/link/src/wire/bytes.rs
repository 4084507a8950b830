//! Reads and writes the fields of a frame's body in sequence, for every format with this crate's header.

use super::{Malformed, Readable};

/// The unread rest of a body.
#[derive(Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Reads `count` bytes.
    ///
    /// # Errors
    /// [`Malformed::Short`].
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// Reads a number of one byte.
    ///
    /// # Errors
    /// [`Malformed::Short`].
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    /// Reads a number of two bytes.
    ///
    /// # Errors
    /// [`Malformed::Short`].
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads a number of four bytes.
    ///
    /// # Errors
    /// [`Malformed::Short`].
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a number of eight bytes.
    ///
    /// # Errors
    /// [`Malformed::Short`].
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads reserved bytes, which must be zero.
    ///
    /// # Errors
    /// [`Malformed::Short`], [`Malformed::Value`].
    pub fn zeros<const N: usize>(&mut self) -> Result<(), Malformed> {
        if self.array()? == [0; N] { Ok(()) } else { Err(Malformed::Value("reserved")) }
    }

    /// Reads zeros up to the end, and returns their number.
    pub(super) fn padding(&mut self) -> Result<u32, Malformed> {
        let rest = self.rest();
        if rest.iter().any(|&byte| byte != 0) {
            return Err(Malformed::Value("padding"));
        }
        u32::try_from(rest.len()).map_err(|_| Malformed::Long)
    }

    /// Reads all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    /// [`Malformed::Long`].
    pub fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Long) }
    }
}

/// Destination of an outgoing frame.
pub trait Out {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
    /// Appends a payload, which usually lies in the program's memory.
    fn put_payload(&mut self, payload: &impl Readable);
}

impl Out for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn put_payload(&mut self, payload: &impl Readable) {
        let begin = self.len();
        self.resize(begin + payload.count(), 0);
        payload.write_to(&mut self[begin..]);
    }
}

/// A fixed buffer for a frame. Bytes beyond its end are counted but not written.
#[derive(Debug)]
pub struct Room<'a> {
    bytes: &'a mut [u8],
    /// Bytes of the frame so far, including those that did not fit.
    pub len: usize,
}

impl<'a> Room<'a> {
    /// Creates an empty frame in `bytes`.
    pub fn new(bytes: &'a mut [u8]) -> Room<'a> {
        Room { bytes, len: 0 }
    }
}

impl Out for Room<'_> {
    fn put(&mut self, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.len += bytes.len();
    }

    fn put_payload(&mut self, payload: &impl Readable) {
        let len = payload.count();
        if let Some(room) = self.bytes.get_mut(self.len..self.len + len) {
            payload.write_to(room);
        }
        self.len += len;
    }
}

/// Writes a number of four bytes.
pub fn put_u32(out: &mut impl Out, value: u32) {
    out.put(&value.to_be_bytes());
}

/// Writes a number of eight bytes.
pub fn put_u64(out: &mut impl Out, value: u64) {
    out.put(&value.to_be_bytes());
}
