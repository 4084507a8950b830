//! What a program has of a NIC.

use crate::fabric::Fabric;
use sovia_drive::Wire;
use sovia_softnic::{SoftConnection, SoftCq, SoftNic, SoftVi};

/// A NIC on libfabric, open. Its VIs keep what they need of it.
pub type OfiNic = SoftNic<Wire<Fabric>>;
/// A VI of such a NIC.
pub type OfiVi = SoftVi<Wire<Fabric>>;
/// A completion queue of such a NIC.
pub type OfiCq = SoftCq<Wire<Fabric>>;
/// A request for a connection to such a NIC.
pub type OfiConnection = SoftConnection<Wire<Fabric>>;

/// What a NIC has under way, and has dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Messages whose bytes libfabric moves.
    pub moves: usize,
    /// Regions that are registered with libfabric.
    pub regions: usize,
    /// Ends of connections.
    pub ends: usize,
    /// Frames that the engine has dropped, and why.
    pub dropped: sovia_softnic::Counters,
    /// Messages that made no sense, or came from no NIC that is known.
    pub strange: u64,
}

/// What a NIC has under way at present.
pub fn counts(nic: &OfiNic) -> Counts {
    nic.driver().inspect(|world| {
        let (dropped, ends) = (world.counters(), world.connection_ends());
        let (moves, regions) = world.medium().endpoint.counts();
        Counts { moves, regions, ends, dropped, strange: world.medium().strange }
    })
}
