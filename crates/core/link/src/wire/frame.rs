//! The header that all frames have.

use super::Malformed;
use crate::checksum::{crc, crc_of};
use core::ops::Range;

/// Bytes of the header.
pub const HEADER: usize = 28;
/// The version of the format.
const FORMAT: u8 = 2;
/// The flag of a frame whose checksum field is not used.
pub(super) const UNCHECKED: u8 = 1;

/// Where the header's fields lie.
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

/// One end of a connection or of a channel. No two have the same name, not even one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct EndId(pub u64);

impl EndId {
    /// No end.
    pub const NONE: EndId = EndId(0);
}

/// Whether frames bear a checksum of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Checksum {
    /// CRC-32C over the whole frame. A frame without it is refused.
    #[default]
    Crc,
    /// None is sent, and frames without one are taken: the link below drops what is corrupt. Frames that have one
    /// are checked all the same.
    Link,
}

/// A view of a frame's bytes.
#[derive(Debug, Clone, Copy)]
pub struct Frame<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// A view of a whole and undamaged frame, which must have a checksum.
    ///
    /// # Errors
    /// [`Malformed`]: the length, the version, the flags and the checksum are checked; what the body means is not.
    pub fn checked(bytes: T) -> Result<Frame<T>, Malformed> {
        Frame::checked_for(bytes, Checksum::Crc)
    }

    /// A view of a frame that is only passed on: its version and its length are looked at, and whether it is corrupt is not.
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

    /// A view of a whole frame, that has been checked here or by the link below.
    ///
    /// # Errors
    /// As [`Frame::checked`].
    pub fn checked_for(bytes: T, link: Checksum) -> Result<Frame<T>, Malformed> {
        let frame = Frame::passing(bytes)?;
        let all = frame.bytes.as_ref();
        let header = &all[..HEADER];
        match header[field::FLAGS] {
            UNCHECKED if link == Checksum::Crc => return Err(Malformed::Unchecked),
            // So that a changed flag alone turns no check off.
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

    /// A field of eight bytes. The frame has a whole header.
    fn word(&self, field: Range<usize>) -> u64 {
        let bytes = &self.bytes.as_ref()[..HEADER][field];
        bytes.try_into().map_or(0, u64::from_be_bytes)
    }

    fn length(&self) -> usize {
        let bytes = &self.bytes.as_ref()[..HEADER][field::LENGTH];
        bytes.try_into().map_or(0, u32::from_be_bytes) as usize
    }

    /// Which kind of frame it is.
    pub fn kind(&self) -> u8 {
        self.bytes.as_ref()[field::KIND]
    }

    /// The end that it is for.
    pub fn to(&self) -> EndId {
        EndId(self.word(field::TO))
    }

    /// The end that has sent it.
    pub fn from(&self) -> EndId {
        EndId(self.word(field::FROM))
    }

    /// What follows the header.
    pub fn body(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER..self.length()]
    }
}

impl<'a> Frame<&'a [u8]> {
    /// The frame without what a medium has put behind it.
    pub(super) fn whole(&self) -> &'a [u8] {
        &self.bytes[..self.length()]
    }

    /// What follows the header, for as long as the bytes are there.
    pub fn into_body(self) -> &'a [u8] {
        &self.bytes[HEADER..self.length()]
    }
}

/// The header of a frame that is to be sealed once its body is behind it.
pub fn begin(kind: u8, to: EndId, from: EndId) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[field::VERSION] = FORMAT;
    header[field::KIND] = kind;
    header[field::TO].copy_from_slice(&to.0.to_be_bytes());
    header[field::FROM].copy_from_slice(&from.0.to_be_bytes());
    header
}

/// Writes the length and the checksum of a frame whose other bytes are there. Fewer bytes than a header are left
/// as they are.
pub fn seal(frame: &mut [u8]) {
    if frame.len() < HEADER {
        return;
    }
    write_length(frame);
    frame[field::CHECKSUM].fill(0);
    let sum = crc_of(frame).to_be_bytes();
    frame[field::CHECKSUM].copy_from_slice(&sum);
}

/// As [`seal`], for a link that needs a checksum or has its own: then a flag says that there is none.
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

/// The checksum of a frame, which has a whole header, whatever the checksum field has.
fn checksum(frame: &[u8]) -> u32 {
    let (header, body) = frame.split_at(HEADER.min(frame.len()));
    let mut zeroed = [0; HEADER];
    zeroed[..field::CHECKSUM.start].copy_from_slice(&header[..field::CHECKSUM.start]);
    crc(&zeroed, body)
}
