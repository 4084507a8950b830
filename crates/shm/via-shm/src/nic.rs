//! The shared-memory NIC.

use crate::card::Card;
use crate::connect::{DISCRIMINATOR_MAX, HOST_LEN, Incoming};
use crate::cq::ShmCq;
use crate::hash;
use crate::patience::deadline;
use crate::vi::ShmVi;
use crate::vi::inner::{Core, Queues};
use core::time::Duration;
use sovia_ring::ring::INLINE;
use std::sync::Arc;
use via::cq::Attach;
use via::error::{
    ConnectError, CqError, CreateViError, MemError, NotAccepted, PtagError, RegisterError,
};
use via::event::{AsyncError, ErrorHandler};
use via::memory::Limits;
use via::{
    Capabilities, Connection, MemAttributes, MemHandle, Memory, NetAddress, Nic, NicAttributes,
    Ptag, Reliability, ViAttributes,
};

/// Maximum number of VIs of a NIC.
const VI_MAX: u32 = 4096;
/// Maximum number of descriptors posted to a work queue.
const DESCRIPTORS_MAX: u32 = 1024;
const PTAGS_MAX: u32 = 4096;
const CQ_MAX: u32 = 4096;
const CQ_ENTRIES_MAX: u32 = 1 << 20;
/// Maximum length of a message or RDMA in bytes.
const TRANSFER_MAX: u32 = 8 << 20;
const NAME_MAX: usize = 63;
const LIMITS: Limits =
    Limits { regions: MemHandle::PLACES, bytes: 1 << 46, block_bytes: 1 << 44, ptags: PTAGS_MAX };

/// An open shared-memory NIC. The NIC connects processes of one user in one network namespace, and threads of one
/// process.
///
/// Processes that open a NIC by the same name use the same NIC. The NIC's address is computed from its name.
///
/// ```
/// use via::{DescriptorAddress, MemAttributes, Memory, Nic, Vi, ViAttributes};
/// use via_shm::ShmNic;
///
/// // In this example, one process has both ends of the connection. Usually each end has its own process.
/// let (a, b) = (ShmNic::open("example-a")?, ShmNic::open("example-b")?);
/// let (at_a, at_b) = (a.address(b"greeting"), b.address(b"greeting"));
/// let (sender, receiver) =
///     (a.create_vi(ViAttributes::default())?, b.create_vi(ViAttributes::default())?);
/// sender.connect_peer_request(&at_a, &at_b, None)?;
/// receiver.connect_peer_request(&at_b, &at_a, None)?;
/// sender.connect_peer_wait()?;
/// receiver.connect_peer_wait()?;
///
/// // Post a receive first. Its descriptor lies at byte 0, and its 100 bytes for the message begin at byte 4096.
/// let target = Memory::zeroed(8192);
/// let handle = b.register_mem(&target, MemAttributes::default())?;
/// target.descriptor(0).unwrap().prepare(&[target.segment(4096, 100, handle)], None)?;
/// receiver.post_recv(DescriptorAddress { address: target.address(0), handle })?;
///
/// let source = Memory::zeroed(8192);
/// let handle = a.register_mem(&source, MemAttributes::default())?;
/// source.write(4096, b"hello");
/// source.descriptor(0).unwrap().prepare(&[source.segment(4096, 5, handle)], Some(7))?;
/// sender.post_send(DescriptorAddress { address: source.address(0), handle })?;
///
/// let done = receiver.recv_wait(None)?;
/// assert_eq!((done.length, done.immediate), (5, Some(7)));
/// let mut bytes = [0; 5];
/// target.read(4096, &mut bytes);
/// assert_eq!(&bytes, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ShmNic(Arc<Card>);

/// Reason why a NIC cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The name is empty or too long.
    #[error("a NIC's name has 1 to 63 bytes")]
    Name,
    /// The system cannot create another file descriptor or thread.
    #[error("cannot set up the NIC: {0}")]
    System(#[from] std::io::Error),
}

impl ShmNic {
    /// Opens the NIC named `name` (`VipOpenNic`).
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(name: &str) -> Result<ShmNic, OpenError> {
        let local_address = ShmNic::host_of(name)?;
        let attributes = NicAttributes {
            name: name.into(),
            hardware_version: 1,
            provider_version: 1,
            local_address,
            thread_safe: true,
            max_discriminator_len: DISCRIMINATOR_MAX as u16,
            max_register_bytes: LIMITS.bytes,
            max_register_regions: LIMITS.regions,
            max_register_block_bytes: LIMITS.block_bytes,
            max_vi: VI_MAX,
            max_descriptors_per_queue: DESCRIPTORS_MAX,
            max_segments_per_desc: via::descriptor::SEGMENTS_MAX as u16,
            max_cq: CQ_MAX,
            max_cq_entries: CQ_ENTRIES_MAX,
            max_transfer_size: TRANSFER_MAX,
            native_mtu: sovia_ring::endpoint::MESSAGE_MAX as u32,
            max_ptags: LIMITS.ptags,
            reliability: Reliability::all(),
            rdma_read: Reliability::RELIABLE_DELIVERY | Reliability::RELIABLE_RECEPTION,
            capabilities: Capabilities {
                inline_size: INLINE as u32,
                registration_is_free: true,
                sends_execute_in_caller: true,
                rdma_write: true,
            },
        };
        Ok(ShmNic(Card::open(attributes, LIMITS)?))
    }

    /// Returns the host part of the addresses of the NIC named `name`. The NIC need not be open.
    ///
    /// # Errors
    /// [`OpenError::Name`].
    pub fn host_of(name: &str) -> Result<Box<[u8]>, OpenError> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(OpenError::Name);
        }
        Ok(address_of(name).into())
    }

    /// Sets the longest time that a thread spins in a wait before it sleeps. Applies to VIs and completion queues
    /// created after this call. The default and the maximum are 50 µs. With zero, threads sleep at once.
    pub fn set_spin(&self, longest: Duration) {
        self.0.spin.set(longest);
    }

    /// Returns the address that consists of this NIC's host part and `discriminator`.
    pub fn address(&self, discriminator: &[u8]) -> NetAddress {
        NetAddress::new(&self.0.attributes.local_address, discriminator)
    }
}

/// Returns the host part of the addresses of the NIC named `name`. The host part has the form of a locally
/// administered Ethernet address, which no hardware NIC has.
fn address_of(name: &str) -> [u8; HOST_LEN] {
    let hash = hash::fnv(hash::START, name.bytes());
    let mut address = [0; HOST_LEN];
    address.copy_from_slice(&hash.to_be_bytes()[..HOST_LEN]);
    address[0] = address[0] & 0xfc | 0x02;
    address
}

impl Nic for ShmNic {
    type Vi = ShmVi;
    type Connection = ShmConnection;
    type Cq = ShmCq;

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
        self.0.revoke(&region);
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
        self.0.revoke(&old);
        Ok(())
    }

    fn create_cq(&self, entries: u32, context: u64) -> Result<ShmCq, CqError> {
        ShmCq::create(&self.0, entries, context)
    }

    fn create_vi(&self, attributes: ViAttributes) -> Result<ShmVi, CreateViError> {
        self.create_vi_with(attributes, Attach::default())
    }

    fn create_vi_with(
        &self,
        attributes: ViAttributes,
        attach: Attach<'_, ShmCq>,
    ) -> Result<ShmVi, CreateViError> {
        self.0.attributes.offer(&attributes)?;
        let vi = self.0.add_vi(|id| {
            let ptag = self.0.table.hold_ptag(attributes.ptag);
            let ptag = ptag.map_err(|_| CreateViError::UnknownPtag)?;
            let of = |cq: Option<&ShmCq>| cq.map(|cq| cq.0.clone());
            let queues = Queues { send: of(attach.send), recv: of(attach.recv) };
            let card = self.0.clone();
            Ok(Arc::new(Core::new(card, id, attach.context, attributes, ptag, queues)))
        })?;
        if let Some(cq) = attach.send {
            cq.0.join(None);
        }
        if let Some(cq) = attach.recv {
            cq.0.join(Some(&vi));
        }
        Ok(ShmVi(vi))
    }

    fn set_error_handler(&self, handler: Option<ErrorHandler>) {
        self.0.set_handler(handler);
    }

    fn report(&self, error: AsyncError) {
        self.0.report(error);
    }

    fn callbacks_wait(&self) -> bool {
        self.0.callbacks_wait()
    }

    fn run_callbacks(&self) {
        self.0.run_callbacks();
    }

    fn connect_wait(
        &self,
        local: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<ShmConnection, ConnectError> {
        self.0.attributes.own(local)?;
        let until = deadline(timeout);
        Incoming::wait(&self.0.hub, local, until).map(Box::new).map(ShmConnection)
    }
}

/// A request for a connection to a shared-memory NIC.
///
/// ```
/// use via::error::ConnectError;
/// use via::{Connection, Nic, Vi, ViAttributes, ViState};
/// use via_shm::ShmNic;
///
/// let (server, client) = (ShmNic::open("example-server")?, ShmNic::open("example-client")?);
/// let (address, from) = (server.address(b"service"), client.address(b""));
/// let requester = std::thread::spawn(move || {
///     let vi = client.create_vi(ViAttributes::default()).unwrap();
///     // Repeat the request until the server has called `connect_wait`.
///     while let Err(error) = vi.connect_request(&from, &address, None) {
///         assert_eq!(error, ConnectError::NoMatch);
///         std::thread::yield_now();
///     }
///     vi
/// });
/// let request = server.connect_wait(&server.address(b"service"), None)?;
/// let vi = server.create_vi(*request.remote_attributes())?;
/// request.accept(&vi).map_err(|refused| refused.error)?;
/// // Keep both VIs: when one VI is dropped, the other one leaves the state `Connected`.
/// let requester = requester.join().expect("a VI");
/// assert_eq!((vi.state(), requester.state()), (ViState::Connected, ViState::Connected));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ShmConnection(Box<Incoming>);

impl Connection for ShmConnection {
    type Vi = ShmVi;

    fn remote_address(&self) -> &NetAddress {
        &self.0.request.local
    }

    fn remote_attributes(&self) -> &ViAttributes {
        &self.0.request.attributes
    }

    fn accept(self, vi: &ShmVi) -> Result<(), NotAccepted<ShmConnection>> {
        vi.0.accept(self.0).map_err(|not| not.map(ShmConnection))
    }

    fn reject(self) {}
}
