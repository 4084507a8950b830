//! What a program has of a NIC.

use crate::wire::Wire;
use sovia_softnic::{SoftConnection, SoftCq, SoftNic, SoftVi};

/// A NIC on an Ethernet, open. Its VIs keep what they need of it.
pub type EthNic = SoftNic<Wire>;
/// A VI of such a NIC.
pub type EthVi = SoftVi<Wire>;
/// A completion queue of such a NIC.
pub type EthCq = SoftCq<Wire>;
/// A request for a connection to such a NIC.
pub type EthConnection = SoftConnection<Wire>;
/// Waits for one request. Dropping it ends the wait.
pub type Listener = sovia_softnic::Listener<Wire>;
