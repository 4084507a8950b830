//! One end of a connection.

use crate::access::Access;
use crate::card::Card;
use crate::ids::ViId;
use crate::path_mtu::PathMtu;
use crate::source::Source;
use crate::world::{Announced, Arriving, Coming};
use sovia_link::Time;
use sovia_link::datagram::Datagrams;
use sovia_link::stream::Stream;
use sovia_link::wire::{EndId, Item, OVERHEAD};
use std::collections::VecDeque;
use std::sync::Arc;
use via::MemHandle;

/// One end of a connection. The end may outlive its VI's interest, until the peer knows that the connection is over.
#[derive(Debug)]
pub(crate) struct Conn<N> {
    pub(crate) node: N,
    pub(crate) peer_node: N,
    pub(crate) peer: EndId,
    /// The VI, until the connection is over for this end.
    pub(crate) vi: Option<ViId>,
    /// The VI for which the end was created, and its NIC.
    pub(crate) of: (ViId, Arc<Card<N>>),
    /// The request that this end answers, until the requester has confirmed the answer.
    pub(crate) unsettled: Option<EndId>,
    pub(crate) stream: Stream<Item<Source>, Item<Vec<u8>>>,
    /// Length of frames that the path takes.
    pub(crate) path: PathMtu,
    pub(crate) arriving: Arriving,
    /// Announced messages whose bytes the peer has not requested yet.
    pub(crate) announced: VecDeque<Announced>,
    /// The peer's messages whose bytes the medium is moving, in order.
    pub(crate) coming: VecDeque<Coming>,
    pub(crate) datagrams: Datagrams,
    /// Number of datagram messages sent.
    pub(crate) datagrams_sent: u64,
    /// Number of items received since the last acknowledgement.
    pub(crate) owed: u32,
    /// Set while the end is in the world's list `later`.
    pub(crate) later: bool,
    /// When the retransmission timer fires.
    pub(crate) timer: Option<Time>,
}

impl<N> Conn<N> {
    /// Number of message bytes that one packet carries.
    pub(crate) fn part_max(&self) -> usize {
        self.path.frame_max() as usize - OVERHEAD
    }

    /// Copies unacknowledged bytes out of the program's memory: those of one region, or of all regions.
    pub(crate) fn keep(&mut self, access: &Access<'_>, region: Option<MemHandle>) {
        self.announced.iter_mut().for_each(|it| it.source.keep(access, region));
        for item in self.stream.items_mut() {
            if let Item::Part(part) = item
                && let Source::Lent(segment) = &part.bytes
                && region.is_none_or(|region| region.raw() == segment.handle)
            {
                access.keep(&mut part.bytes);
            }
        }
    }

    /// Returns true if the connection is over for this end, which only waits until the peer knows.
    pub(crate) fn is_over(&self) -> bool {
        self.vi.is_none()
    }
}
