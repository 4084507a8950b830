//! VIPL's structures in the layout of `include/vipl.h`. A test compiles the header and compares.

use crate::handle::Handle;
use crate::pointer::Opaque;
use via::{MemAttributes, Reliability, ViAttributes, ViState};

/// `VIP_BOOLEAN`.
pub type Boolean = i32;
/// `VIP_ULONG`.
pub type Ulong = core::ffi::c_ulong;

const _: () = assert!(size_of::<Ulong>() == 8 && size_of::<usize>() == 8, "64-bit Unix only");

/// `VIP_NIC_ATTRIBUTES`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are VIPL's own and say it all")]
pub struct NicAttributes {
    pub name: [u8; 64],
    pub hardware_version: Ulong,
    pub provider_version: Ulong,
    pub nic_address_len: u16,
    pub local_nic_address: Opaque,
    pub thread_safe: Boolean,
    pub max_discriminator_len: u16,
    pub max_register_bytes: Ulong,
    pub max_register_regions: Ulong,
    pub max_register_block_bytes: Ulong,
    pub max_vi: Ulong,
    pub max_descriptors_per_queue: Ulong,
    pub max_segments_per_desc: Ulong,
    pub max_cq: Ulong,
    pub max_cq_entries: Ulong,
    pub max_transfer_size: Ulong,
    pub native_mtu: Ulong,
    pub max_ptags: Ulong,
    pub reliability_level_support: u16,
    pub rdma_read_support: u16,
}

/// `VIP_VI_ATTRIBUTES`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are VIPL's own and say it all")]
pub struct ViAttributesC {
    pub reliability_level: u16,
    pub max_transfer_size: Ulong,
    pub qos: Opaque,
    pub ptag: Handle,
    pub enable_rdma_write: Boolean,
    pub enable_rdma_read: Boolean,
}

/// `VIP_MEM_ATTRIBUTES`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are VIPL's own and say it all")]
pub struct MemAttributesC {
    pub ptag: Handle,
    pub enable_rdma_write: Boolean,
    pub enable_rdma_read: Boolean,
}

/// `VIP_ERROR_DESCRIPTOR`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are VIPL's own and say it all")]
pub struct ErrorDescriptor {
    pub nic: Handle,
    pub vi: Handle,
    pub cq: Handle,
    pub descriptor: Opaque,
    pub op_code: Ulong,
    pub resource_code: u32,
    pub error_code: u32,
}

/// `VIP_AUTODISCOVERY_LIST`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[expect(missing_docs, reason = "the names are VIPL's own and say it all")]
pub struct AutodiscoveryList {
    pub number_of_hops: Ulong,
    pub addresses: Opaque,
    pub count: Ulong,
}

/// Returns the `VIP_VI_STATE` of a state.
pub(crate) fn state_code(state: ViState) -> u32 {
    state as u32
}

impl ViAttributesC {
    /// Converts attributes to C's structure, with the given handle of the tag.
    pub(crate) fn from_via(attributes: &ViAttributes, ptag: Handle) -> ViAttributesC {
        ViAttributesC {
            reliability_level: attributes.reliability.bits(),
            max_transfer_size: attributes.max_transfer_size.into(),
            qos: Opaque::NULL,
            ptag,
            enable_rdma_write: attributes.enable_rdma_write.into(),
            enable_rdma_read: attributes.enable_rdma_read.into(),
        }
    }

    /// Converts the attributes without the tag, which the NIC looks up. A size beyond 32 bits becomes the largest
    /// 32-bit size, which no NIC offers either.
    pub(crate) fn to_via(self) -> ViAttributes {
        ViAttributes {
            reliability: Reliability::from_bits_retain(self.reliability_level),
            max_transfer_size: u32::try_from(self.max_transfer_size).unwrap_or(u32::MAX),
            ptag: None,
            enable_rdma_write: self.enable_rdma_write != 0,
            enable_rdma_read: self.enable_rdma_read != 0,
        }
    }
}

impl MemAttributesC {
    pub(crate) fn from_via(attributes: &MemAttributes, ptag: Handle) -> MemAttributesC {
        MemAttributesC {
            ptag,
            enable_rdma_write: attributes.enable_rdma_write.into(),
            enable_rdma_read: attributes.enable_rdma_read.into(),
        }
    }

    /// Converts the attributes without the tag.
    pub(crate) fn to_via(self) -> MemAttributes {
        MemAttributes {
            ptag: None,
            enable_rdma_write: self.enable_rdma_write != 0,
            enable_rdma_read: self.enable_rdma_read != 0,
        }
    }
}
