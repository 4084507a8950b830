//! NICs of a network, and their types for programs.

use crate::network::Network;
use sovia_softnic::{Description, SoftConnection, SoftCq, SoftNic, SoftVi};
use std::thread;

/// An open NIC of a simulated network. Its VIs hold references to its parts, and may outlive this handle.
pub type SimNic = SoftNic<Network>;
/// A VI of a simulated NIC.
pub type SimVi = SoftVi<Network>;
/// A completion queue of a simulated NIC.
pub type SimCq = SoftCq<Network>;
/// A request for a connection to a simulated NIC.
pub type SimConnection = SoftConnection<Network>;
/// A waiter for one request. Dropping it ends the wait.
pub type Listener = sovia_softnic::Listener<Network>;

impl Network {
    /// Opens the NIC with this name. The first call for a name makes a node of the network. A NIC that is opened again
    /// has the same address, but memory, tags and VIs of its own.
    pub fn nic(&self, name: &str) -> SimNic {
        let (node, address) = self.node(name);
        let description = Description {
            name,
            address: &address,
            transfer_max: 64 << 10,
            registration_is_free: self.registering().is_free(),
            sends_execute_in_caller: false,
            spawn: |job| thread::Builder::new().name("simnic".into()).spawn(job).map(drop),
        };
        SimNic::open(self.clone(), node, &description)
    }
}
