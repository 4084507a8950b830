//! Frames as bytes, version 2.
//!
//! [`Frame`] is the checked view of a frame's bytes. [`Packet`] is a plain struct of the frame's values, with
//! [`Packet::parse`] and [`Packet::emit`]. `parse` checks everything once: whatever parses is legal, and emitting the
//! result gives the same bytes. The caller counts and drops a frame that does not parse.
//!
//! The page `docs/reference/wire.md` specifies the format, and what a receiver does with each illegal value. The file
//! `tests/vectors.txt` of this crate has frames and their meanings, on which every implementation must agree.

pub mod bytes;
mod frame;
mod item;
mod malformed;
mod meeting;
mod packet;
mod part;
mod passing;
mod report;
mod train;

pub use frame::{Checksum, EndId, Frame, HEADER, begin, seal, seal_for};
pub use item::{Closing, Item};
pub use malformed::Malformed;
pub use meeting::{Answer, Meeting, Request};
pub(crate) use packet::STREAM_PART;
pub use packet::{OVERHEAD, Packet, Word};
pub use part::{Operation, Part, Payload, Readable};
pub use passing::Passing;
pub use report::{Held, Report, Seen, Sending};
pub use train::Train;
