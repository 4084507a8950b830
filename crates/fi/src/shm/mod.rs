//! The transport between processes of one host: a segment for each direction of a pair of endpoints.
//!
//! Each segment has one writer and one reader. So two endpoints may send to each other for the first time at the same moment
//! without an agreement. A process checks what it reads in a segment before use.
//! A peer that writes nonsense loses its connection ([`Corrupt`]) and harms nothing else.

mod meet;
mod reader;
mod segment;
mod writer;

pub(crate) use meet::{Link, News, Station};
pub(crate) use reader::{Body, Reader};
pub(crate) use segment::Head;
pub(crate) use writer::{Load, WORDS_MAX, Writer};

/// Bytes that one message may carry, words and all.
pub(crate) const MESSAGE_MAX: usize = EAGER_MAX + 8 * WORDS_MAX;
/// Bytes of the program's that one message may carry.
pub(crate) const EAGER_MAX: usize = 16 << 10;

/// There is something in a segment that no honest process can have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Corrupt(pub(crate) &'static str);

#[cfg(test)]
mod tests;
