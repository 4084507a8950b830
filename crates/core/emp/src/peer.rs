//! What the NIC keeps of a peer at all times.

use crate::Node;
use sovia_link::wire::EndId;

/// A peer with which nothing need be under way.
///
/// The paper has the remote address, and a number for the next message in each direction. Beside them there are what keeps strangers out
/// and an older process apart (key and name), the peer's number for this station, and the round trip that was measured last.
#[derive(Debug, Clone)]
pub struct Peer<A> {
    pub(crate) address: A,
    /// The name of the process that is the peer; [`EndId::NONE`] before it has been heard of.
    pub(crate) name: EndId,
    /// What the peer wants to see before it answers.
    pub(crate) key: u64,
    /// The next message to it.
    pub(crate) next_send: u32,
    /// The next message from it.
    pub(crate) next_receive: u32,
    /// The round trip, in nanoseconds; 0: not measured.
    pub(crate) round_trip: u32,
    /// The number by which the peer knows this station.
    pub(crate) known_as: Node,
    /// What is kept while something is under way, if it is kept.
    pub(crate) active: u16,
    /// The name is known to be the peer's, and the peer to have heard from this station.
    pub(crate) is_greeted: bool,
}

/// No active state.
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

// With an address of an Ethernet or the Internet, IPv6 included.
const _: () = assert!(size_of::<Peer<[u8; 24]>>() <= 64);
