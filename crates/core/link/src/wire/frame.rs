//! The header of every frame.

use super::Malformed;
use crate::checksum::{crc, crc_of};
use core::ops::Range;

/// Bytes of the header.
pub const HEADER: usize = 28;
/// Version of the format.
const FORMAT: u8 = 2;
/// Flag of a frame without a checksum.
pub(super) const UNCHECKED: u8 = 1;

/// Positions of the header's fields.
pub(super) mod field {
    use super::Range;

    pub(in crate::wire) const VERSION: usize = 0;
    pub(in crate::wire) const KIND: usize = 1;
    pub(in crate::wire) const FLAGS: usize = 2;
    pub(in crate::wire) const RESERVED: usize = 3;
    pub(in crate::wire) const LENGTH: Range<usize> = 4..8;
    pub(in crate::wire) const TO: Range<usize> = 8..16;
    pub(in crate::wire) const FROM: Range<usize> = 16..24;
    pub(in crate::wire) const CHECKSUM: Range<usize> = 24..28;
}

/// Name of one end of a connection or channel. Names are unique and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct EndId(pub u64);

impl EndId {
    /// The name that no end has.
    pub const NONE: EndId = EndId(0);
}

/// How frames are protected against corruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Checksum {
    /// CRC-32C over the whole frame. A receiver refuses a frame without a checksum.
    #[default]
    Crc,
    /// No checksum, because the link below drops corrupt frames. Senders add none. Receivers accept frames without one,
    /// and still check frames that have one.
    Link,
}

/// A view of a frame's bytes.
#[derive(Debug, Clone, Copy)]
pub struct Frame<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// Returns a view of a complete and intact frame, which must have a checksum.
    ///
    /// # Errors
    /// [`Malformed`]. The function checks the length, the version, the flags and the checksum, but not the body.
    pub fn checked(bytes: T) -> Result<Frame<T>, Malformed> {
        Frame::checked_for(bytes, Checksum::Crc)
    }

    /// Returns a view of a frame that a switch forwards. Checks the version and the length, but not the checksum.
    ///
    /// # Errors
    /// [`Malformed::Version`], [`Malformed::Short`].
    pub(super) fn passing(bytes: T) -> Result<Frame<T>, Malformed> {
        let frame = Frame { bytes };
        let all = frame.bytes.as_ref();
        let header = all.first_chunk::<HEADER>().ok_or(Malformed::Short)?;
        if header[field::VERSION] != FORMAT {
            return Err(Malformed::Version(header[field::VERSION]));
        }
        if frame.length() < HEADER || frame.length() > all.len() {
            return Err(Malformed::Short);
        }
        Ok(frame)
    }

    /// Returns a view of a complete frame, for a link that may have its own checksum.
    ///
    /// # Errors
    /// Like [`Frame::checked`].
    pub fn checked_for(bytes: T, link: Checksum) -> Result<Frame<T>, Malformed> {
        let frame = Frame::passing(bytes)?;
        let all = frame.bytes.as_ref();
        let header = &all[..HEADER];
        match header[field::FLAGS] {
            UNCHECKED if link == Checksum::Crc => return Err(Malformed::Unchecked),
            // A checksum of zero is required, so that a corrupt flag alone does not disable the check.
            UNCHECKED if all[field::CHECKSUM] != [0; 4] => return Err(Malformed::Checksum),
            UNCHECKED => {}
            _ if checksum(&all[..frame.length()]).to_be_bytes() != all[field::CHECKSUM] => {
                return Err(Malformed::Checksum);
            }
            0 => {}
            _ => return Err(Malformed::Value("flags")),
        }
        if header[field::RESERVED] != 0 {
            return Err(Malformed::Value("reserved"));
        }
        Ok(frame)
    }

    /// Returns a field of eight bytes. The frame has a whole header.
    fn word(&self, field: Range<usize>) -> u64 {
        let bytes = &self.bytes.as_ref()[..HEADER][field];
        bytes.try_into().map_or(0, u64::from_be_bytes)
    }

    fn length(&self) -> usize {
        let bytes = &self.bytes.as_ref()[..HEADER][field::LENGTH];
        bytes.try_into().map_or(0, u32::from_be_bytes) as usize
    }

    /// Returns the frame's kind.
    pub fn kind(&self) -> u8 {
        self.bytes.as_ref()[field::KIND]
    }

    /// Returns the end that the frame is for.
    pub fn to(&self) -> EndId {
        EndId(self.word(field::TO))
    }

    /// Returns the end that has sent the frame.
    pub fn from(&self) -> EndId {
        EndId(self.word(field::FROM))
    }

    /// Returns the bytes after the header.
    pub fn body(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER..self.length()]
    }
}

impl<'a> Frame<&'a [u8]> {
    /// Returns the frame without padding that a medium has added.
    pub(super) fn whole(&self) -> &'a [u8] {
        &self.bytes[..self.length()]
    }

    /// Like [`Frame::body`], with the lifetime of the frame's bytes.
    pub fn into_body(self) -> &'a [u8] {
        &self.bytes[HEADER..self.length()]
    }
}

/// Returns the header of a new frame. Call [`seal`] after the body has been appended.
pub fn begin(kind: u8, to: EndId, from: EndId) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[field::VERSION] = FORMAT;
    header[field::KIND] = kind;
    header[field::TO].copy_from_slice(&to.0.to_be_bytes());
    header[field::FROM].copy_from_slice(&from.0.to_be_bytes());
    header
}

/// Writes the length and the checksum of an otherwise complete frame. Does nothing if `frame` is shorter than a header.
pub fn seal(frame: &mut [u8]) {
    if frame.len() < HEADER {
        return;
    }
    write_length(frame);
    frame[field::CHECKSUM].fill(0);
    let sum = crc_of(frame).to_be_bytes();
    frame[field::CHECKSUM].copy_from_slice(&sum);
}

/// Like [`seal`], but for [`Checksum::Link`] sets the flag for no checksum.
pub fn seal_for(frame: &mut [u8], link: Checksum) {
    match link {
        Checksum::Crc => seal(frame),
        Checksum::Link if frame.len() >= HEADER => {
            write_length(frame);
            frame[field::FLAGS] = UNCHECKED;
        }
        Checksum::Link => {}
    }
}

fn write_length(frame: &mut [u8]) {
    let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    frame[field::LENGTH].copy_from_slice(&length.to_be_bytes());
}

/// Returns the checksum of a frame with a whole header, as if its checksum field were zero.
fn checksum(frame: &[u8]) -> u32 {
    let (header, body) = frame.split_at(HEADER.min(frame.len()));
    let mut zeroed = [0; HEADER];
    zeroed[..field::CHECKSUM.start].copy_from_slice(&header[..field::CHECKSUM.start]);
    crc(&zeroed, body)
}
