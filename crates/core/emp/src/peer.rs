//! The permanent state of peers.

use crate::Node;
use sovia_link::wire::EndId;

/// A peer, with or without transfers under way.
///
/// In the paper, the NIC keeps the remote address and the number of the next message in each direction. This NIC also
/// keeps key and name, which exclude unknown stations and earlier processes. It also keeps the peer's number for this
/// station, and the last measured round trip.
#[derive(Debug, Clone)]
pub struct Peer<A> {
    pub(crate) address: A,
    /// The name of the peer's process; [`EndId::NONE`] before the first contact.
    pub(crate) name: EndId,
    /// The key that the peer requires.
    pub(crate) key: u64,
    /// Number of the next message to the peer.
    pub(crate) next_send: u32,
    /// Number of the next message from the peer.
    pub(crate) next_receive: u32,
    /// The round trip in nanoseconds; 0 if not measured.
    pub(crate) round_trip: u32,
    /// The peer's number for this station.
    pub(crate) known_as: Node,
    /// Index of the active state, or [`NONE`].
    pub(crate) active: u16,
    /// Set if the name is confirmed, and the peer knows this station's name.
    pub(crate) is_greeted: bool,
}

/// The peer has no active state.
pub(crate) const NONE: u16 = u16::MAX;

impl<A> Peer<A> {
    pub(crate) fn new(address: A, key: u64) -> Peer<A> {
        Peer {
            address,
            name: EndId::NONE,
            key,
            next_send: 0,
            next_receive: 0,
            round_trip: 0,
            known_as: 0,
            active: NONE,
            is_greeted: false,
        }
    }
}

// The limit also holds with an Ethernet or Internet address, including IPv6.
const _: () = assert!(size_of::<Peer<[u8; 24]>>() <= 64);
