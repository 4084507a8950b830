//! What a NIC, a VI and a memory region are like, as data that upper layers read.

use crate::address::NetAddress;
use crate::error::{ConnectError, CreateViError};
use crate::tag::Ptag;
use bitflags::bitflags;

bitflags! {
    /// Reliability levels (16 bits; `VIP_SERVICE_*`). A VI has one, a NIC offers a set.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Reliability: u16 {
        /// Data arrives at most once, uncorrupted if at all; errors leave the VI connected. A message
        /// that is too long for the receive it meets ends that receive in a length error; one that
        /// meets none is dropped, which the receiver's error handler is told.
        const UNRELIABLE = 1;
        /// Data arrives exactly once and in order; any error breaks the connection. A send is
        /// complete when the data is on its way for good.
        const RELIABLE_DELIVERY = 2;
        /// As reliable delivery, and a send is complete when the data is in the target's memory.
        const RELIABLE_RECEPTION = 4;
    }
}

/// What a NIC is and how much of everything it has (`VIP_NIC_ATTRIBUTES`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicAttributes {
    /// The device's name; at most 63 bytes.
    pub name: String,
    /// Version of the hardware, or of the software that stands in for it.
    pub hardware_version: u32,
    /// Version of the provider.
    pub provider_version: u32,
    /// The NIC's own address: the host part of every [`crate::NetAddress`] that names it.
    pub local_address: Box<[u8]>,
    /// Whether several threads may use the same VI at once.
    pub thread_safe: bool,
    /// Bytes that a discriminator may have.
    pub max_discriminator_len: u16,
    /// Bytes that may be registered in all.
    pub max_register_bytes: u64,
    /// Regions that may be registered at a time.
    pub max_register_regions: u32,
    /// Bytes of the largest single region.
    pub max_register_block_bytes: u64,
    /// VIs that may exist at a time.
    pub max_vi: u32,
    /// Descriptors that may be posted to one work queue at a time.
    pub max_descriptors_per_queue: u32,
    /// Segments of one descriptor.
    pub max_segments_per_desc: u16,
    /// Completion queues that may exist at a time; 0 where there are none.
    pub max_cq: u32,
    /// Entries of one completion queue.
    pub max_cq_entries: u32,
    /// Bytes of the longest message.
    pub max_transfer_size: u32,
    /// Bytes that the medium carries at once.
    pub native_mtu: u32,
    /// Protection tags that may exist at a time.
    pub max_ptags: u32,
    /// The reliability levels that VIs may have.
    pub reliability: Reliability,
    /// The reliability levels at which RDMA read works; empty where it does not.
    pub rdma_read: Reliability,
    /// What VIPL's structure has no field for.
    pub capabilities: Capabilities,
}

impl NicAttributes {
    /// Whether a VI of such a NIC may have `wanted`: one level that it offers, messages that it transfers, and RDMA reads only
    /// where it does them.
    ///
    /// # Errors
    /// [`CreateViError::Reliability`], [`CreateViError::MaxTransferSize`], [`CreateViError::RdmaRead`]: what it does not offer.
    pub fn offer(&self, wanted: &ViAttributes) -> Result<(), CreateViError> {
        let level = wanted.reliability;
        if level.bits().count_ones() != 1 || !self.reliability.contains(level) {
            Err(CreateViError::Reliability)
        } else if !(1..=self.max_transfer_size).contains(&wanted.max_transfer_size) {
            Err(CreateViError::MaxTransferSize)
        } else if wanted.enable_rdma_read && !self.rdma_read.contains(level) {
            Err(CreateViError::RdmaRead)
        } else {
            Ok(())
        }
    }

    /// Whether such a NIC's VIs can have an address, or ask for it, as far as its discriminator says.
    ///
    /// # Errors
    /// [`ConnectError::InvalidParameter`].
    pub fn possible(&self, address: &NetAddress) -> Result<(), ConnectError> {
        if address.discriminator.len() > usize::from(self.max_discriminator_len) {
            return Err(ConnectError::InvalidParameter("the discriminator is too long"));
        }
        Ok(())
    }

    /// Whether an address is one of this NIC's.
    ///
    /// # Errors
    /// [`ConnectError::InvalidParameter`].
    pub fn own(&self, address: &NetAddress) -> Result<(), ConnectError> {
        self.possible(address)?;
        if address.host != self.local_address {
            return Err(ConnectError::InvalidParameter("not this NIC's address"));
        }
        Ok(())
    }
}

/// How a provider works, as far as upper layers may want to choose by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Messages of up to this many bytes cost no second hand-over (bytes).
    pub inline_size: u32,
    /// Registering memory costs no system call and pins nothing.
    pub registration_is_free: bool,
    /// A posted send is carried out by the thread that posts it, and its buffer is free again
    /// when the call returns, unless the far side has no room.
    pub sends_execute_in_caller: bool,
    /// RDMA writes work.
    pub rdma_write: bool,
}

/// What a VI is like (`VIP_VI_ATTRIBUTES`). Both ends of a connection must agree on the
/// reliability level and the maximum transfer size.
///
/// ```
/// use via::error::ConnectError;
/// use via::{Reliability, ViAttributes};
///
/// let ours = ViAttributes { max_transfer_size: 1 << 20, ..ViAttributes::default() };
/// let theirs = ViAttributes { reliability: Reliability::UNRELIABLE, ..ours };
/// assert_eq!(ours.fit(&theirs), Err(ConnectError::Reliability));
/// assert_eq!(ours.fit(&ours), Ok(()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViAttributes {
    /// Exactly one level.
    pub reliability: Reliability,
    /// Bytes of the longest message; at most the NIC's.
    pub max_transfer_size: u32,
    /// The VI may touch regions of this tag only; `None`: the NIC's default tag.
    pub ptag: Option<Ptag>,
    /// The peer may write into regions that allow it.
    pub enable_rdma_write: bool,
    /// The peer may read from regions that allow it, and this VI from the peer's: both ends must
    /// have it for either to read.
    pub enable_rdma_read: bool,
}

impl Default for ViAttributes {
    /// Reliable delivery, messages of up to 32 KB (what VIA asks of every NIC), no RDMA.
    fn default() -> ViAttributes {
        ViAttributes {
            reliability: Reliability::RELIABLE_DELIVERY,
            max_transfer_size: 32 << 10,
            ptag: None,
            enable_rdma_write: false,
            enable_rdma_read: false,
        }
    }
}

impl ViAttributes {
    /// Whether VIs with these and with `other` attributes can be connected to each other. (Quality
    /// of service, the third attribute that VIPL would compare, no NIC here offers.)
    ///
    /// # Errors
    /// [`ConnectError::Reliability`], [`ConnectError::MaxTransferSize`]: what differs.
    pub fn fit(&self, other: &ViAttributes) -> Result<(), ConnectError> {
        if self.reliability != other.reliability {
            Err(ConnectError::Reliability)
        } else if self.max_transfer_size != other.max_transfer_size {
            Err(ConnectError::MaxTransferSize)
        } else {
            Ok(())
        }
    }
}

/// What may be done with a region (`VIP_MEM_ATTRIBUTES`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemAttributes {
    /// VIs of this tag may use the region; `None`: the NIC's default tag.
    pub ptag: Option<Ptag>,
    /// Peers may write into it.
    pub enable_rdma_write: bool,
    /// Peers may read from it.
    pub enable_rdma_read: bool,
}
