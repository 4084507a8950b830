//! The transport between processes of one host: a segment for each direction between two endpoints.
//!
//! Each segment has one writer and one reader. So two endpoints may send to each other for the first time at the same
//! moment without an agreement. A process checks what it reads in a segment before use. A peer that writes invalid data
//! loses its connection ([`Corrupt`]) and harms nothing else.

mod meet;
mod reader;
mod segment;
mod writer;

pub(crate) use meet::{Link, News, Station};
pub(crate) use reader::{Body, Reader};
pub(crate) use segment::Head;
pub(crate) use writer::{Load, WORDS_MAX, Writer};

/// Maximum number of bytes of a message, including its words.
pub(crate) const MESSAGE_MAX: usize = EAGER_MAX + 8 * WORDS_MAX;
/// Maximum number of the program's bytes in a message.
pub(crate) const EAGER_MAX: usize = 16 << 10;

/// A segment holds data that no correct process writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Corrupt(pub(crate) &'static str);

#[cfg(test)]
mod tests;
