//! What a process leaves to its peer when it dies.
//!
//! Bytes in a posted send reach the peer whatever becomes of the sender. Bytes that a layer above
//! holds back, to send more at once, do not, unless they lie where the peer can find them. A
//! provider whose ends share memory has such a place: an end writes there what it has promised to
//! send and has not, and publishes how much that is; an end that finds its peer's process dead
//! ([`crate::Cause::PeerDied`]) reads it. The peer does not read while the writer lives, so there is nothing to
//! agree on. Providers that span machines have no such place: there a promise ends with its maker.

use core::fmt;

/// Words that an end publishes in a bequest.
pub const WORDS: usize = 4;

/// Both directions' places, as one end of a connection has them. All is zero at first.
pub trait Bequest: Send + Sync + fmt::Debug {
    /// Bytes of each direction.
    fn len(&self) -> usize;

    /// Whether there is room for nothing.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes into this end's place; false if they do not fit.
    fn write(&self, at: usize, bytes: &[u8]) -> bool;

    /// Publishes one of this end's [`WORDS`] words: a peer that reads it finds what was written before.
    fn publish(&self, word: usize, value: u64);

    /// Copies bytes out of the peer's place; false if they are not within.
    fn read(&self, at: usize, out: &mut [u8]) -> bool;

    /// One of the peer's words. A hostile peer may have put anything there.
    fn published(&self, word: usize) -> u64;
}
