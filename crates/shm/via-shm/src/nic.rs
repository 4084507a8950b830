//! The shared-memory NIC.

use crate::connect::hub::Hub;
use crate::connect::{DISCRIMINATOR_MAX, HOST_LEN, Incoming};
use crate::cq::ShmCq;
use crate::engine::Starts;
use crate::hash;
use crate::ring::INLINE;
use crate::vi::ShmVi;
use crate::vi::inner::{Core, Queues};
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use sovia_sys::{call, process};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use via::cq::Attach;
use via::error::{
    ConnectError, CqError, CreateViError, MemError, NotAccepted, PtagError, RegisterError,
};
use via::event::{AsyncError, Dispatcher, ErrorHandler, Job};
use via::memory::{Limits, MemoryTable, Region};
use via::{
    Capabilities, Connection, MemAttributes, MemHandle, Memory, NetAddress, Nic, NicAttributes,
    Ptag, Reliability, ViAttributes,
};

/// VIs that a NIC may have at a time.
const VI_MAX: u32 = 4096;
/// Descriptors that may be posted to a work queue.
const DESCRIPTORS_MAX: u32 = 1024;
const PTAGS_MAX: u32 = 4096;
const CQ_MAX: u32 = 4096;
const CQ_ENTRIES_MAX: u32 = 1 << 20;
/// Bytes of the longest message or RDMA.
const TRANSFER_MAX: u32 = 8 << 20;
const NAME_MAX: usize = 63;
const LIMITS: Limits =
    Limits { regions: MemHandle::PLACES, bytes: 1 << 46, block_bytes: 1 << 44, ptags: PTAGS_MAX };

/// A NIC in shared memory, open: it connects the processes of one user on one host (of one
/// network namespace), and threads of the same process.
///
/// Every process that opens a NIC by the same name has the same NIC; its address is made from
/// the name.
///
/// ```
/// use via::{DescriptorAddress, MemAttributes, Memory, Nic, Vi, ViAttributes};
/// use via_shm::ShmNic;
///
/// // Both ends in one process here; mostly they are in two.
/// let (a, b) = (ShmNic::open("example-a")?, ShmNic::open("example-b")?);
/// let (at_a, at_b) = (a.address(b"greeting"), b.address(b"greeting"));
/// let (sender, receiver) =
///     (a.create_vi(ViAttributes::default())?, b.create_vi(ViAttributes::default())?);
/// sender.connect_peer_request(&at_a, &at_b, None)?;
/// receiver.connect_peer_request(&at_b, &at_a, None)?;
/// sender.connect_peer_wait()?;
/// receiver.connect_peer_wait()?;
///
/// // A receive for up to 100 bytes is posted before anything is sent: the descriptor at byte 0, the message at 4096.
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
pub struct ShmNic(Arc<Shared>);

/// What a NIC's VIs need of it.
pub(crate) struct Shared {
    pub(crate) attributes: NicAttributes,
    pub(crate) table: MemoryTable,
    pub(crate) hub: Arc<Hub>,
    dispatcher: Dispatcher,
    handler: Mutex<Option<ErrorHandler>>,
    cqs: AtomicU32,
    vis: Mutex<Vis>,
}

impl core::fmt::Debug for Shared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Shared").field("name", &self.attributes.name).finish_non_exhaustive()
    }
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
            max_cq: CQ_MAX,
            max_cq_entries: CQ_ENTRIES_MAX,
            max_transfer_size: TRANSFER_MAX,
            native_mtu: crate::endpoint::MESSAGE_MAX as u32,
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
        let table = MemoryTable::new(LIMITS);
        let hub = Hub::open()?;
        let shared = Arc::new(Shared {
            attributes,
            table,
            hub,
            dispatcher: Dispatcher::new(|job| {
                let thread = std::thread::Builder::new().name("via-callback".into());
                process::without_signals(|| thread.spawn(job)).map(drop)
            }),
            handler: Mutex::new(None),
            cqs: AtomicU32::new(0),
            vis: Mutex::default(),
        });
        let weak: Weak<dyn Starts> = Arc::downgrade(&shared) as _;
        shared.hub.engine.start_for(weak);
        Ok(ShmNic(shared))
    }

    /// This NIC's address under a discriminator.
    pub fn address(&self, discriminator: &[u8]) -> NetAddress {
        NetAddress::new(&self.0.attributes.local_address, discriminator)
    }
}

/// An address made from a name: in the form of an Ethernet address that no card has.
fn address_of(name: &str) -> [u8; HOST_LEN] {
    let hash = hash::fnv(hash::START, name.bytes());
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
    pub(crate) fn vi_gone(&self, id: u64) {
        self.vis().by_id.remove(&id);
    }

    /// Runs a callback in its turn. It may be asked for under any lock.
    pub(crate) fn run(&self, job: Job) {
        if !self.dispatcher.run(job) {
            self.hub.engine.want_threads();
        }
    }

    /// Tells the error handler, in its turn.
    pub(crate) fn report(&self, error: AsyncError) {
        let handler = self.handler.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(handler) = handler {
            self.run(Box::new(move || handler(&error)));
        }
    }

    /// One more completion queue, if the NIC has one.
    pub(crate) fn cq_made(&self) -> Result<(), CqError> {
        let more = |n| (n < self.attributes.max_cq).then_some(n + 1);
        let made = self.cqs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        made.map(drop).map_err(|_| CqError::TooMany)
    }

    /// A completion queue is no more.
    pub(crate) fn cq_gone(&self) {
        self.cqs.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a VI may have such attributes.
    pub(crate) fn check_vi(&self, attributes: &ViAttributes) -> Result<(), CreateViError> {
        let nic = &self.attributes;
        if attributes.reliability.bits().count_ones() != 1
            || !nic.reliability.contains(attributes.reliability)
        {
            return Err(CreateViError::Reliability);
        }
        if attributes.max_transfer_size == 0 || attributes.max_transfer_size > nic.max_transfer_size
        {
            return Err(CreateViError::MaxTransferSize);
        }
        if attributes.enable_rdma_read && !nic.rdma_read.contains(attributes.reliability) {
            return Err(CreateViError::RdmaRead);
        }
        Ok(())
    }

    /// Waits until neither a peer nor a VI of this NIC uses what it has found of a region.
    fn revoke(&self, region: &Region) {
        let attributes = region.attributes();
        if attributes.enable_rdma_write || attributes.enable_rdma_read {
            self.hub.engine.links().iter().for_each(|link| link.revoke_regions());
        }
        self.quiesce();
    }

    /// Waits until no VI uses a region that it found before. Every use is under a queue's lock.
    fn quiesce(&self) {
        // A VI that is upgraded here may end here, which takes the lock.
        let vis: Vec<_> = self.vis().by_id.iter().map(|(id, vi)| (*id, vi.clone())).collect();
        for (id, vi) in vis {
            match vi.upgrade() {
                Some(vi) => vi.quiesce(),
                // Another thread is just dropping it.
                None => {
                    while self.vis().by_id.contains_key(&id) {
                        call::sched_yield();
                    }
                }
            }
        }
    }
}

impl Starts for Shared {
    fn start(&self) -> bool {
        self.dispatcher.retry()
    }
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
        self.0.create_cq(entries, context)
    }

    fn create_vi(&self, attributes: ViAttributes) -> Result<ShmVi, CreateViError> {
        self.create_vi_with(attributes, Attach::default())
    }

    fn create_vi_with(
        &self,
        attributes: ViAttributes,
        attach: Attach<'_, ShmCq>,
    ) -> Result<ShmVi, CreateViError> {
        self.0.check_vi(&attributes)?;
        let mut vis = self.0.vis();
        if vis.by_id.len() >= self.0.attributes.max_vi as usize {
            return Err(CreateViError::TooMany);
        }
        let ptag =
            self.0.table.hold_ptag(attributes.ptag).map_err(|_| CreateViError::UnknownPtag)?;
        vis.last += 1;
        let id = vis.last;
        let of = |cq: Option<&ShmCq>| cq.map(|cq| cq.0.clone());
        let queues = Queues { send: of(attach.send), recv: of(attach.recv) };
        let vi = Core::new(self.0.clone(), id, attach.context, attributes, ptag, queues);
        let vi = Arc::new(vi);
        vis.by_id.insert(id, Arc::downgrade(&vi));
        drop(vis);
        if let Some(cq) = attach.send {
            cq.0.join(None);
        }
        if let Some(cq) = attach.recv {
            cq.0.join(Some(&vi));
        }
        Ok(ShmVi(vi))
    }

    fn set_error_handler(&self, handler: Option<ErrorHandler>) {
        *self.0.handler.lock().unwrap_or_else(PoisonError::into_inner) = handler;
    }

    fn report(&self, error: AsyncError) {
        self.0.report(error);
    }

    fn callbacks_wait(&self) -> bool {
        self.0.dispatcher.waits()
    }

    fn run_callbacks(&self) {
        self.0.dispatcher.run_waiting();
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
///     // Until the server waits there.
///     while let Err(error) = vi.connect_request(&from, &address, None) {
///         assert_eq!(error, ConnectError::NoMatch);
///         std::thread::yield_now();
///     }
///     vi.state()
/// });
/// let request = server.connect_wait(&server.address(b"service"), None)?;
/// let vi = server.create_vi(*request.remote_attributes())?;
/// request.accept(&vi).map_err(|refused| refused.error)?;
/// assert_eq!(vi.state(), ViState::Connected);
/// # requester.join().unwrap();
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
