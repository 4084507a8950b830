//! Attributes of a NIC, a VI and a memory region, for layers above.

use crate::address::NetAddress;
use crate::error::{ConnectError, CreateViError};
use crate::tag::Ptag;
use bitflags::bitflags;

bitflags! {
    /// Reliability levels (16 bits; `VIP_SERVICE_*`). A VI has one level, and a NIC offers a set.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Reliability: u16 {
        /// Data arrives intact and at most once. Errors leave the VI connected. A message that is longer than its
        /// receive ends the receive in a length error. The NIC drops a message without a posted receive, and calls the
        /// receiver's error handler.
        const UNRELIABLE = 1;
        /// Data arrives exactly once and in order. Any error breaks the connection. A send is complete when the
        /// transport has taken responsibility for the data.
        const RELIABLE_DELIVERY = 2;
        /// Like reliable delivery, but a send is complete only when the data is in the target's memory.
        const RELIABLE_RECEPTION = 4;
    }
}

/// Properties and limits of a NIC (`VIP_NIC_ATTRIBUTES`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicAttributes {
    /// Name of the device; at most 63 bytes.
    pub name: String,
    /// Version of the hardware, or of the software that replaces it.
    pub hardware_version: u32,
    /// Version of the provider.
    pub provider_version: u32,
    /// The NIC's own address: the host part of each [`crate::NetAddress`] of this NIC.
    pub local_address: Box<[u8]>,
    /// Set if several threads may use one VI at once.
    pub thread_safe: bool,
    /// Largest number of bytes of a discriminator.
    pub max_discriminator_len: u16,
    /// Largest number of registered bytes in total.
    pub max_register_bytes: u64,
    /// Largest number of registered regions.
    pub max_register_regions: u32,
    /// Largest number of bytes of one region.
    pub max_register_block_bytes: u64,
    /// Largest number of VIs.
    pub max_vi: u32,
    /// Largest number of descriptors in one work queue.
    pub max_descriptors_per_queue: u32,
    /// Largest number of segments of one descriptor.
    pub max_segments_per_desc: u16,
    /// Largest number of completion queues; 0 if the NIC has none.
    pub max_cq: u32,
    /// Largest number of entries of one completion queue.
    pub max_cq_entries: u32,
    /// Largest number of bytes of a message.
    pub max_transfer_size: u32,
    /// Number of bytes that the medium carries in one packet.
    pub native_mtu: u32,
    /// Largest number of protection tags.
    pub max_ptags: u32,
    /// Reliability levels that VIs may have.
    pub reliability: Reliability,
    /// Reliability levels that support RDMA reads; may be empty.
    pub rdma_read: Reliability,
    /// Properties that VIPL's structure has no field for.
    pub capabilities: Capabilities,
}

impl NicAttributes {
    /// Checks that the NIC offers `wanted`: exactly one supported level, a supported message size, and RDMA reads only
    /// if supported.
    ///
    /// # Errors
    /// [`CreateViError::Reliability`], [`CreateViError::MaxTransferSize`] or [`CreateViError::RdmaRead`]: the attribute
    /// that the NIC does not offer.
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

    /// Checks that the length of an address's discriminator is within the NIC's limit.
    ///
    /// # Errors
    /// [`ConnectError::InvalidParameter`].
    pub fn possible(&self, address: &NetAddress) -> Result<(), ConnectError> {
        if address.discriminator.len() > usize::from(self.max_discriminator_len) {
            return Err(ConnectError::InvalidParameter("the discriminator is too long"));
        }
        Ok(())
    }

    /// Checks that an address belongs to this NIC.
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

/// Properties of a provider that layers above may use to choose a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Largest message in bytes that the provider carries in a single entry or packet.
    pub inline_size: u32,
    /// Set if registering memory costs no system call and locks no memory.
    pub registration_is_free: bool,
    /// Set if the posting thread executes a send itself. The send's buffer is then free when the call returns, unless
    /// the receiver has no room.
    pub sends_execute_in_caller: bool,
    /// Set if the provider supports RDMA writes.
    pub rdma_write: bool,
}

/// Attributes of a VI (`VIP_VI_ATTRIBUTES`). Both ends of a connection must have the same reliability level and maximum
/// transfer size.
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
    /// Exactly one reliability level.
    pub reliability: Reliability,
    /// Largest number of bytes of a message; at most the NIC's limit.
    pub max_transfer_size: u32,
    /// The VI may use only regions with this tag; `None` is the NIC's default tag.
    pub ptag: Option<Ptag>,
    /// Set if the peer may write to regions that allow it.
    pub enable_rdma_write: bool,
    /// Set if the peer may read regions that allow it, and this VI may read the peer's regions. A read needs the flag
    /// at both ends.
    pub enable_rdma_read: bool,
}

impl Default for ViAttributes {
    /// Reliable delivery, messages of up to 32 KB (the minimum that VIA requires of every NIC), no RDMA.
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
    /// Checks that VIs with these attributes and `other` can be connected. (VIPL would also compare the quality of
    /// service, which no NIC here offers.)
    ///
    /// # Errors
    /// [`ConnectError::Reliability`] or [`ConnectError::MaxTransferSize`]: the attribute that differs.
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

/// Access rights of a region (`VIP_MEM_ATTRIBUTES`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemAttributes {
    /// VIs with this tag may use the region; `None` is the NIC's default tag.
    pub ptag: Option<Ptag>,
    /// Set if peers may write to the region.
    pub enable_rdma_write: bool,
    /// Set if peers may read the region.
    pub enable_rdma_read: bool,
}
