//! Keys of servers in the connection history.

use super::PLACES;
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU32;

/// Information about the server's end, from the call that makes a connection.
#[derive(Debug, Clone, Copy)]
pub enum Server {
    /// The call connects to this address.
    At(SocketAddr),
    /// The call accepts from the listener with this descriptor.
    Listener(i32),
    /// The call does not know the server's address or listener.
    Unknown,
}

/// Identifies a server's address, or a listener of this process, in the connection history. Two addresses have the same
/// key only if 30 bits of their hashes are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(NonZeroU32);

impl Key {
    fn new(hash: u32, is_listener: bool) -> Key {
        Key(NonZeroU32::MIN.saturating_add(hash >> 2 << 1 | u32::from(is_listener)))
    }

    /// Returns the key of connections with this server, or `None` if the call that made the connection does not know
    /// the server's address.
    pub(crate) fn of(server: Server) -> Option<Key> {
        match server {
            Server::At(address) => Some(Key::of_address(address)),
            Server::Listener(fd) => {
                Some(Key::new((fd as u32).wrapping_mul(0x9e37_79b1).swap_bytes(), true))
            }
            Server::Unknown => None,
        }
    }

    /// Returns the key of connections to this server address.
    pub(in crate::rendezvous) fn of_address(server: SocketAddr) -> Key {
        let mut hash = u32::from(server.port()).wrapping_mul(0x9e37_79b1);
        let mut mix = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
            }
        };
        match server.ip() {
            IpAddr::V4(ip) => mix(&ip.octets()),
            IpAddr::V6(ip) => mix(&ip.octets()),
        }
        Key::new(hash >> 16 ^ hash, false)
    }

    /// Returns the key as a word, which is neither 0 nor `u32::MAX`.
    pub(crate) fn word(self) -> u32 {
        self.0.get()
    }

    pub(in crate::rendezvous) fn from_word(word: u32) -> Option<Key> {
        NonZeroU32::new(word).map(Key)
    }

    /// Returns true if the key identifies a listener of this process.
    pub(super) fn is_listener(self) -> bool {
        (self.0.get() - 1) & 1 != 0
    }

    /// Returns the key's place in tables of [`PLACES`] entries.
    pub(super) fn place(self) -> usize {
        self.0.get() as usize % PLACES
    }
}
