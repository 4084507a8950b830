//! Memory with bytes that a process leaves to its peer when it dies.
//!
//! Bytes in a posted send reach the peer even if the sender dies. Bytes that a layer above holds back, to send more at
//! once, are lost unless the peer can find them. A provider whose ends share memory has a place for these bytes. An end
//! writes the bytes that it has promised to send there, and publishes their number. An end that finds its peer's
//! process dead ([`crate::Cause::PeerDied`]) reads them. The peer does not read while the writer lives, so the two ends
//! need no agreement. Providers between hosts have no such place, so their promises are lost when the process dies.

use core::fmt;

/// Number of words that an end publishes in a bequest.
pub const WORDS: usize = 4;

/// The places of both directions, as one end of a connection accesses them. All bytes and words are zero at first.
pub trait Bequest: Send + Sync + fmt::Debug {
    /// Number of bytes of each direction.
    fn len(&self) -> usize;

    /// Returns true if the places have no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes into this end's place. Returns false if they do not fit.
    fn write(&self, at: usize, bytes: &[u8]) -> bool;

    /// Publishes one of this end's [`WORDS`] words. A peer that reads the word sees all bytes written before.
    fn publish(&self, word: usize, value: u64);

    /// Copies bytes out of the peer's place. Returns false if they are not all within it.
    fn read(&self, at: usize, out: &mut [u8]) -> bool;

    /// Returns one of the peer's words. The value is untrusted.
    fn published(&self, word: usize) -> u64;
}
