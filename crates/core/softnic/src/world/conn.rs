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

/// One end of a connection. It may outlive its VI's interest in it, until the other end knows
/// that it is over.
#[derive(Debug)]
pub(crate) struct Conn<N> {
    pub(crate) node: N,
    pub(crate) peer_node: N,
    pub(crate) peer: EndId,
    /// The VI, until the connection is over for this end.
    pub(crate) vi: Option<ViId>,
    /// The VI that it was made for, and that one's NIC.
    pub(crate) of: (ViId, Arc<Card<N>>),
    /// The request that it answers, until the requester is known to have the answer.
    pub(crate) unsettled: Option<EndId>,
    pub(crate) stream: Stream<Item<Source>, Item<Vec<u8>>>,
    /// How long its frames may be.
    pub(crate) path: PathMtu,
    pub(crate) arriving: Arriving,
    /// Messages that are announced and not asked for yet.
    pub(crate) announced: VecDeque<Announced>,
    /// Messages of the other end's whose bytes the medium moves, in order.
    pub(crate) coming: VecDeque<Coming>,
    pub(crate) datagrams: Datagrams,
    /// Datagram messages sent.
    pub(crate) datagrams_sent: u64,
    /// Items received since the last acknowledgement.
    pub(crate) owed: u32,
    /// It is among those that may have something to send later.
    pub(crate) later: bool,
    /// When the retransmission timer goes off.
    pub(crate) timer: Option<Time>,
}

impl<N> Conn<N> {
    /// Bytes of a message that one packet carries.
    pub(crate) fn part_max(&self) -> usize {
        self.path.frame_max() as usize - OVERHEAD
    }

    /// Copies what may have to be sent yet and lies in memory that `access` reaches: all of it, or that of one region.
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

    /// Whether this end is done with it and only waits for the other to know.
    pub(crate) fn is_over(&self) -> bool {
        self.vi.is_none()
    }
}
