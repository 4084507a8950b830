//! What a program has of a NIC.

use crate::ether::Ether;
use sovia_drive::Wire;
use sovia_softnic::{SoftConnection, SoftCq, SoftNic, SoftVi};

/// A NIC on an Ethernet, open. Its VIs keep what they need of it.
pub type EthNic = SoftNic<Wire<Ether>>;
/// A VI of such a NIC.
pub type EthVi = SoftVi<Wire<Ether>>;
/// A completion queue of such a NIC.
pub type EthCq = SoftCq<Wire<Ether>>;
/// A request for a connection to such a NIC.
pub type EthConnection = SoftConnection<Wire<Ether>>;
/// Waits for one request. Dropping it ends the wait.
pub type Listener = sovia_softnic::Listener<Wire<Ether>>;

/// What has become of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// Frames that the NIC has dropped, and why.
    pub dropped: sovia_softnic::Counters,
    /// What its port counts.
    pub port: sovia_port::Counters,
    /// How the port works, for people.
    pub mode: String,
}

/// What has become of a NIC's frames so far.
pub fn counters(nic: &EthNic) -> Counters {
    nic.driver().inspect(|world| {
        let dropped = world.counters();
        let (port, mode) = world.medium_mut().port_counters();
        Counters { dropped, port, mode }
    })
}
