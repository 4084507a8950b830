//! The types for programs.

use crate::ether::Ether;
use sovia_drive::Wire;
use sovia_softnic::{SoftConnection, SoftCq, SoftNic, SoftVi};

/// An open NIC on an Ethernet. Its VIs keep the parts that they need alive.
pub type EthNic = SoftNic<Wire<Ether>>;
/// A VI of such a NIC.
pub type EthVi = SoftVi<Wire<Ether>>;
/// A completion queue of such a NIC.
pub type EthCq = SoftCq<Wire<Ether>>;
/// A request for a connection to such a NIC.
pub type EthConnection = SoftConnection<Wire<Ether>>;
/// Waits for one request. Dropping it ends the wait.
pub type Listener = sovia_softnic::Listener<Wire<Ether>>;

/// Counters of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// Frames that the NIC has dropped, by reason.
    pub dropped: sovia_softnic::Counters,
    /// The port's counters.
    pub port: sovia_port::Counters,
    /// The mode of the port, for users.
    pub mode: String,
}

/// Returns the counters of a NIC.
pub fn counters(nic: &EthNic) -> Counters {
    nic.driver().inspect(|world| {
        let dropped = world.counters();
        let (port, mode) = world.medium_mut().port_counters();
        Counters { dropped, port, mode }
    })
}
