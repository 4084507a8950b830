//! Types of a NIC for programs.

use crate::fabric::Fabric;
use sovia_drive::Wire;
use sovia_softnic::{SoftConnection, SoftCq, SoftNic, SoftVi};

/// An open NIC on libfabric. Its VIs hold references to its parts, and may outlive this handle.
pub type OfiNic = SoftNic<Wire<Fabric>>;
/// A VI of an [`OfiNic`].
pub type OfiVi = SoftVi<Wire<Fabric>>;
/// A completion queue of an [`OfiNic`].
pub type OfiCq = SoftCq<Wire<Fabric>>;
/// A request for a connection to an [`OfiNic`].
pub type OfiConnection = SoftConnection<Wire<Fabric>>;

/// Counters of a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Number of moves in progress.
    pub moves: usize,
    /// Number of regions registered with libfabric.
    pub regions: usize,
    /// Number of connections' ends.
    pub ends: usize,
    /// Numbers of frames that the engine has dropped, by reason.
    pub dropped: sovia_softnic::Counters,
    /// Number of invalid messages, and of messages from unknown NICs.
    pub strange: u64,
}

/// Returns the counters of a NIC.
pub fn counts(nic: &OfiNic) -> Counts {
    nic.driver().inspect(|world| {
        let (dropped, ends) = (world.counters(), world.connection_ends());
        let (moves, regions) = world.medium().endpoint.counts();
        Counts { moves, regions, ends, dropped, strange: world.medium().strange }
    })
}
