//! The shared-memory NIC.

use crate::connect::hub::Hub;
use crate::connect::{DISCRIMINATOR_MAX, HOST_LEN, Incoming};
use crate::endpoint::MESSAGE_MAX;
use crate::ring::INLINE;
use crate::vi::ShmVi;
use crate::vi::inner::Core;
use core::time::Duration;
use sovia_sys::call;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use via::error::{ConnectError, CreateViError, MemError, PtagError, RegisterError};
use via::memory::{Limits, MemoryTable};
use via::{
    Capabilities, Connection, MemAttributes, MemHandle, Memory, NetAddress, Nic, NicAttributes,
    Ptag, Reliability, ViAttributes,
};

/// VIs that a NIC may have at a time.
const VI_MAX: u32 = 4096;
/// Descriptors that may be posted to a work queue.
const DESCRIPTORS_MAX: u32 = 1024;
const PTAGS_MAX: u32 = 4096;
const NAME_MAX: usize = 63;
const LIMITS: Limits =
    Limits { regions: MemHandle::PLACES, bytes: 1 << 46, block_bytes: 1 << 44, ptags: PTAGS_MAX };

/// A NIC in shared memory, open: it connects the processes of one user on one host (of one
/// network namespace), and threads of the same process.
///
/// Every process that opens a NIC by the same name has the same NIC; its address is made from
/// the name. It offers reliable delivery, sends and receives of up to 64 KB.
#[derive(Debug)]
pub struct ShmNic(Arc<Shared>);

/// What a NIC's VIs need of it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) attributes: NicAttributes,
    pub(crate) table: MemoryTable,
    pub(crate) hub: Arc<Hub>,
    vis: Mutex<Vis>,
}

#[derive(Debug, Default)]
struct Vis {
    last: u64,
    /// A VI stays until its memory is touched no more, which is later than its last use.
    by_id: HashMap<u64, Weak<Core>>,
}

/// Why a NIC is not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The name is empty or too long.
    #[error("a NIC's name has 1 to 63 bytes")]
    Name,
    /// The system has no more descriptors or threads.
    #[error("the NIC cannot be set up: {0}")]
    System(#[from] std::io::Error),
}

impl ShmNic {
    /// Opens the NIC of that name (`VipOpenNic`).
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(name: &str) -> Result<ShmNic, OpenError> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(OpenError::Name);
        }
        let attributes = NicAttributes {
            name: name.into(),
            hardware_version: 1,
            provider_version: 1,
            local_address: address_of(name).into(),
            thread_safe: true,
            max_discriminator_len: DISCRIMINATOR_MAX as u16,
            max_register_bytes: LIMITS.bytes,
            max_register_regions: LIMITS.regions,
            max_register_block_bytes: LIMITS.block_bytes,
            max_vi: VI_MAX,
            max_descriptors_per_queue: DESCRIPTORS_MAX,
            max_segments_per_desc: via::descriptor::SEGMENTS_MAX as u16,
            max_cq: 0,
            max_cq_entries: 0,
            max_transfer_size: MESSAGE_MAX as u32,
            native_mtu: MESSAGE_MAX as u32,
            max_ptags: LIMITS.ptags,
            reliability: Reliability::RELIABLE_DELIVERY,
            rdma_read: Reliability::empty(),
            capabilities: Capabilities {
                inline_size: INLINE as u32,
                registration_is_free: true,
                sends_execute_in_caller: true,
                rdma_write: false,
            },
        };
        let table = MemoryTable::new(LIMITS);
        let hub = Hub::open()?;
        Ok(ShmNic(Arc::new(Shared { attributes, table, hub, vis: Mutex::default() })))
    }

    /// This NIC's address under a discriminator.
    pub fn address(&self, discriminator: &[u8]) -> NetAddress {
        NetAddress::new(&self.0.attributes.local_address, discriminator)
    }
}

/// An address made from a name: in the form of an Ethernet address that no card has.
fn address_of(name: &str) -> [u8; HOST_LEN] {
    // FNV-1a.
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let mut address = [0; HOST_LEN];
    address.copy_from_slice(&hash.to_be_bytes()[..HOST_LEN]);
    address[0] = address[0] & 0xfc | 0x02;
    address
}

impl Shared {
    fn vis(&self) -> MutexGuard<'_, Vis> {
        self.vis.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A VI is no more.
    pub(crate) fn vi_gone(&self, id: u64, ptag: Ptag) {
        self.vis().by_id.remove(&id);
        self.table.release_ptag(ptag);
    }

    /// Waits until no VI uses a region that it found before. Every use is under a queue's lock.
    fn quiesce(&self) {
        // A VI that is upgraded here may end here, which takes the lock.
        let vis: Vec<_> = self.vis().by_id.iter().map(|(id, vi)| (*id, vi.clone())).collect();
        for (id, vi) in vis {
            match vi.upgrade() {
                Some(vi) => vi.quiesce(),
                // It is just being dropped by somebody.
                None => {
                    while self.vis().by_id.contains_key(&id) {
                        call::sched_yield();
                    }
                }
            }
        }
    }
}

impl Nic for ShmNic {
    type Vi = ShmVi;
    type Connection = ShmConnection;

    fn attributes(&self) -> &NicAttributes {
        &self.0.attributes
    }

    fn create_ptag(&self) -> Result<Ptag, PtagError> {
        self.0.table.create_ptag()
    }

    fn destroy_ptag(&self, ptag: Ptag) -> Result<(), PtagError> {
        self.0.table.destroy_ptag(ptag)
    }

    fn register_mem(
        &self,
        memory: &Memory,
        attributes: MemAttributes,
    ) -> Result<MemHandle, RegisterError> {
        self.0.table.register(memory, attributes)
    }

    fn deregister_mem(&self, handle: MemHandle) -> Result<(), MemError> {
        let region = self.0.table.deregister(handle)?;
        self.0.quiesce();
        drop(region);
        Ok(())
    }

    fn query_mem(&self, handle: MemHandle) -> Result<(Memory, MemAttributes), MemError> {
        let region = self.0.table.find(handle.raw()).ok_or(MemError::UnknownHandle)?;
        Ok((region.memory().clone(), region.attributes()))
    }

    fn set_mem_attributes(
        &self,
        handle: MemHandle,
        attributes: MemAttributes,
    ) -> Result<(), MemError> {
        let old = self.0.table.set_attributes(handle, attributes)?;
        self.0.quiesce();
        drop(old);
        Ok(())
    }

    fn create_vi(&self, attributes: ViAttributes) -> Result<ShmVi, CreateViError> {
        let nic = &self.0.attributes;
        if attributes.reliability.bits().count_ones() != 1
            || !nic.reliability.contains(attributes.reliability)
        {
            return Err(CreateViError::Reliability);
        }
        if attributes.max_transfer_size == 0 || attributes.max_transfer_size > nic.max_transfer_size
        {
            return Err(CreateViError::MaxTransferSize);
        }
        if attributes.enable_rdma_write {
            return Err(CreateViError::RdmaWrite);
        }
        if attributes.enable_rdma_read {
            return Err(CreateViError::RdmaRead);
        }
        let mut vis = self.0.vis();
        if vis.by_id.len() >= nic.max_vi as usize {
            return Err(CreateViError::TooMany);
        }
        let ptag =
            self.0.table.hold_ptag(attributes.ptag).map_err(|_| CreateViError::UnknownPtag)?;
        vis.last += 1;
        let id = vis.last;
        let vi = Arc::new(Core::new(self.0.clone(), id, attributes, ptag));
        vis.by_id.insert(id, Arc::downgrade(&vi));
        Ok(ShmVi(vi))
    }

    fn connect_wait(
        &self,
        local: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<ShmConnection, ConnectError> {
        if local.host != self.0.attributes.local_address {
            return Err(ConnectError::InvalidParameter("not this NIC's address"));
        }
        let until = crate::vi::deadline(timeout);
        Incoming::wait(&self.0.hub, local, until).map(ShmConnection)
    }
}

/// A request for a connection to a shared-memory NIC.
#[derive(Debug)]
pub struct ShmConnection(Incoming);

impl Connection for ShmConnection {
    type Vi = ShmVi;

    fn remote_address(&self) -> &NetAddress {
        &self.0.request.local
    }

    fn remote_attributes(&self) -> &ViAttributes {
        &self.0.request.attributes
    }

    fn accept(self, vi: &ShmVi) -> Result<(), ConnectError> {
        if let Err(error) = vi.0.matches(&self.0.request.attributes) {
            self.0.refuse(&error);
            return Err(error);
        }
        vi.0.accept(self.0)
    }

    fn reject(self) {
        self.0.refuse(&ConnectError::Rejected);
    }
}
