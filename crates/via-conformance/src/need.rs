//! Optional features of a NIC.

use core::fmt;
use via::{NicAttributes, Reliability};

/// An optional feature that a case needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Completion queues.
    CompletionQueues,
    /// RDMA writes.
    RdmaWrite,
    /// RDMA reads with reliable delivery.
    RdmaRead,
    /// The unreliable level.
    Unreliable,
    /// RDMA writes and the unreliable level.
    UnreliableRdma,
    /// The level of reliable reception.
    Reception,
    /// RDMA reads at the level of reliable reception.
    ReceptionRead,
    /// More than one reliability level.
    SeveralLevels,
    /// Limits that a test can reach within a moment.
    ReachableLimits,
}

/// Number of objects that a test can create within a moment.
const REACHABLE: u32 = 1 << 17;

impl Need {
    /// Returns true if a NIC with these attributes offers the feature.
    pub fn is_met(self, nic: &NicAttributes) -> bool {
        let level = |level| nic.reliability.contains(level);
        match self {
            Need::CompletionQueues => nic.max_cq > 0,
            Need::RdmaWrite => nic.capabilities.rdma_write,
            Need::RdmaRead => nic.rdma_read.contains(Reliability::RELIABLE_DELIVERY),
            Need::Unreliable => level(Reliability::UNRELIABLE),
            Need::UnreliableRdma => level(Reliability::UNRELIABLE) && nic.capabilities.rdma_write,
            Need::Reception => level(Reliability::RELIABLE_RECEPTION),
            Need::ReceptionRead => nic.rdma_read.contains(Reliability::RELIABLE_RECEPTION),
            Need::SeveralLevels => nic.reliability.iter().count() > 1,
            Need::ReachableLimits => {
                [nic.max_vi, nic.max_register_regions, nic.max_ptags, nic.max_cq]
                    .iter()
                    .all(|&limit| limit <= REACHABLE)
            }
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Need::CompletionQueues => "the NIC has no completion queues",
            Need::RdmaWrite => "the NIC does no RDMA writes",
            Need::RdmaRead => "the NIC does no RDMA reads with reliable delivery",
            Need::Unreliable => "the NIC does not offer the unreliable level",
            Need::UnreliableRdma => "the NIC does no RDMA writes at the unreliable level",
            Need::Reception => "the NIC does not offer reliable reception",
            Need::ReceptionRead => "the NIC does no RDMA reads with reliable reception",
            Need::SeveralLevels => "the NIC offers one reliability level only",
            Need::ReachableLimits => "the NIC's limits are too large to reach",
        })
    }
}
