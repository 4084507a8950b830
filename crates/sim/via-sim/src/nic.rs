//! The NIC.

use crate::connection::{Listener, SimConnection};
use crate::cq::SimCq;
use crate::engine::{CqCore, ViCore, Workqueue};
use crate::ids::{CqId, ViId};
use crate::network::Shared;
use crate::pins::{Pinner, Pins};
use crate::vi::SimVi;
use crate::{Clock, Config, Registering};
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use sovia_simnet::NodeId;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use via::cq::Attach;
use via::error::{ConnectError, CqError, CreateViError, MemError, PtagError, RegisterError};
use via::event::{Dispatcher, ErrorHandler, Job};
use via::memory::{Limits, MemoryTable};
use via::{
    AsyncError, Capabilities, MemAttributes, MemHandle, Memory, NetAddress, Nic, NicAttributes,
    Ptag, Reliability, ViAttributes, ViState,
};

const VI_MAX: u32 = 1 << 16;
const CQ_MAX: u32 = 1 << 12;
const CQ_ENTRIES_MAX: u32 = 1 << 16;
const DESCRIPTORS_MAX: u32 = 1024;
const TRANSFER_MAX: u32 = 64 << 10;
const DISCRIMINATOR_MAX: u16 = 64;
const HOST_MAX: usize = 64;
const NAME_MAX: usize = 63;
const LIMITS: Limits =
    Limits { regions: MemHandle::PLACES, bytes: 1 << 46, block_bytes: 1 << 44, ptags: 1 << 16 };

/// A NIC of a simulated network, open. Its VIs keep what they need of it.
#[derive(Debug)]
pub struct SimNic {
    shared: Arc<Shared>,
    nic: Arc<NicShared>,
}

/// What a NIC's VIs need of it.
pub(crate) struct NicShared {
    pub(crate) attributes: NicAttributes,
    pub(crate) node: NodeId,
    pub(crate) table: MemoryTable,
    pub(crate) pins: Pins,
    registering: Registering,
    pub(crate) vis: AtomicU32,
    pub(crate) cqs: AtomicU32,
    handler: Mutex<Option<ErrorHandler>>,
    dispatcher: Dispatcher,
}

impl fmt::Debug for NicShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NicShared").field("node", &self.node).finish_non_exhaustive()
    }
}

impl NicShared {
    /// Tells the error handler.
    pub(crate) fn tell(&self, error: &AsyncError) {
        let handler = self.handler.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(handler) = handler {
            handler(error);
        }
    }

    /// Runs a callback where the clock wants it.
    pub(crate) fn run(&self, clock: Clock, job: Job) {
        match clock {
            Clock::Manual => job(),
            Clock::Live => {
                self.dispatcher.run(job);
                // Nothing is held here.
                self.dispatcher.run_waiting();
            }
        }
    }

    /// Whether VIs may have such attributes.
    ///
    /// # Errors
    /// [`CreateViError`].
    pub(crate) fn check(&self, attributes: &ViAttributes) -> Result<(), CreateViError> {
        let level = attributes.reliability;
        if level.bits().count_ones() != 1 || !self.attributes.reliability.contains(level) {
            return Err(CreateViError::Reliability);
        }
        if !(1..=TRANSFER_MAX).contains(&attributes.max_transfer_size) {
            return Err(CreateViError::MaxTransferSize);
        }
        if attributes.enable_rdma_read && !self.attributes.rdma_read.contains(level) {
            return Err(CreateViError::RdmaRead);
        }
        Ok(())
    }

    /// Whether an address is one of this NIC's.
    ///
    /// # Errors
    /// [`ConnectError::InvalidParameter`].
    pub(crate) fn own(&self, address: &NetAddress) -> Result<(), ConnectError> {
        possible(address)?;
        if address.host != self.attributes.local_address {
            return Err(ConnectError::InvalidParameter("not this NIC's address"));
        }
        Ok(())
    }
}

/// Whether an address can be one at all.
///
/// # Errors
/// [`ConnectError::InvalidParameter`].
pub(crate) fn possible(address: &NetAddress) -> Result<(), ConnectError> {
    if address.discriminator.len() > usize::from(DISCRIMINATOR_MAX) {
        return Err(ConnectError::InvalidParameter("the discriminator is too long"));
    }
    if address.host.len() > HOST_MAX {
        return Err(ConnectError::InvalidParameter("the host address is too long"));
    }
    Ok(())
}

fn attributes(name: &str, address: Box<[u8]>, config: &Config) -> NicAttributes {
    let cut = (0..=NAME_MAX.min(name.len())).rev().find(|&at| name.is_char_boundary(at));
    let reliable = Reliability::RELIABLE_DELIVERY | Reliability::RELIABLE_RECEPTION;
    NicAttributes {
        name: name[..cut.unwrap_or(0)].into(),
        hardware_version: 1,
        provider_version: 1,
        local_address: address,
        thread_safe: true,
        max_discriminator_len: DISCRIMINATOR_MAX,
        max_register_bytes: LIMITS.bytes,
        max_register_regions: LIMITS.regions,
        max_register_block_bytes: LIMITS.block_bytes,
        max_vi: VI_MAX,
        max_descriptors_per_queue: DESCRIPTORS_MAX,
        max_segments_per_desc: via::descriptor::SEGMENTS_MAX as u16,
        max_cq: CQ_MAX,
        max_cq_entries: CQ_ENTRIES_MAX,
        max_transfer_size: TRANSFER_MAX,
        native_mtu: config.mtu,
        max_ptags: LIMITS.ptags,
        reliability: Reliability::all(),
        rdma_read: reliable,
        capabilities: Capabilities {
            inline_size: config.mtu,
            registration_is_free: config.registering.is_free(),
            sends_execute_in_caller: false,
            rdma_write: true,
        },
    }
}

/// Pages of 4 KB that memory has a part of.
fn pages(memory: &Memory) -> u32 {
    const PAGE: u64 = 4096;
    let (begin, end) = (memory.address(0), memory.address(memory.len()));
    u32::try_from(end.div_ceil(PAGE) - begin / PAGE).unwrap_or(u32::MAX)
}

impl SimNic {
    pub(crate) fn new(shared: Arc<Shared>, name: &str, node: NodeId, host: Box<[u8]>) -> SimNic {
        let config = shared.with(|world| world.config);
        let nic = NicShared {
            attributes: attributes(name, host, &config),
            node,
            table: MemoryTable::new(LIMITS),
            pins: Pins::default(),
            registering: config.registering,
            vis: AtomicU32::new(0),
            cqs: AtomicU32::new(0),
            handler: Mutex::new(None),
            dispatcher: Dispatcher::new(|job| {
                std::thread::Builder::new().name("simnic".into()).spawn(job).map(drop)
            }),
        };
        SimNic { shared, nic: Arc::new(nic) }
    }

    /// Its node in the network.
    pub fn node(&self) -> NodeId {
        self.nic.node
    }

    /// This NIC's address under a discriminator.
    pub fn address(&self, discriminator: &[u8]) -> NetAddress {
        NetAddress::new(&self.nic.attributes.local_address, discriminator)
    }

    /// Has the pages of memory that is registered from now on held, and sent from, by a pinner.
    pub fn set_pinner(&self, pinner: Arc<dyn Pinner>) {
        self.nic.pins.set(pinner);
    }

    /// Waits for one request without blocking: [`Nic::connect_wait`] for a program that steps the
    /// network itself.
    ///
    /// # Errors
    /// [`ConnectError::InvalidParameter`] for an address that is not this NIC's or too long.
    pub fn listen(&self, local: &NetAddress) -> Result<Listener, ConnectError> {
        self.nic.own(local)?;
        let (node, local) = (self.nic.node, local.clone());
        let waiter = self.shared.with(|world| world.add_waiter(node, local));
        Ok(Listener::new(self.shared.clone(), waiter))
    }
}

impl Nic for SimNic {
    type Vi = SimVi;
    type Connection = SimConnection;
    type Cq = SimCq;

    fn attributes(&self) -> &NicAttributes {
        &self.nic.attributes
    }

    fn create_ptag(&self) -> Result<Ptag, PtagError> {
        self.nic.table.create_ptag()
    }

    fn destroy_ptag(&self, ptag: Ptag) -> Result<(), PtagError> {
        self.nic.table.destroy_ptag(ptag)
    }

    fn register_mem(
        &self,
        memory: &Memory,
        attributes: MemAttributes,
    ) -> Result<MemHandle, RegisterError> {
        let handle = self.nic.table.register(memory, attributes)?;
        self.nic.pins.registered(handle, memory);
        self.shared.spend(self.nic.registering.registering(pages(memory)));
        Ok(handle)
    }

    fn deregister_mem(&self, handle: MemHandle) -> Result<(), MemError> {
        // Memory is used under the network's lock only: nothing uses it when we have it.
        let region = self.shared.with(|_| self.nic.table.deregister(handle))?;
        self.nic.pins.deregistered(handle);
        self.shared.spend(self.nic.registering.deregistering(pages(region.memory())));
        Ok(())
    }

    fn query_mem(&self, handle: MemHandle) -> Result<(Memory, MemAttributes), MemError> {
        let region = self.nic.table.find(handle.raw()).ok_or(MemError::UnknownHandle)?;
        Ok((region.memory().clone(), region.attributes()))
    }

    fn set_mem_attributes(
        &self,
        handle: MemHandle,
        attributes: MemAttributes,
    ) -> Result<(), MemError> {
        self.shared.with(|_| self.nic.table.set_attributes(handle, attributes).map(drop))
    }

    fn create_cq(&self, entries: u32, context: u64) -> Result<SimCq, CqError> {
        if !(1..=CQ_ENTRIES_MAX).contains(&entries) {
            return Err(CqError::Entries);
        }
        let more = |count| (count < CQ_MAX).then_some(count + 1);
        self.nic
            .cqs
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| CqError::TooMany)?;
        let cq = CqCore {
            nic: self.nic.clone(),
            context,
            capacity: entries,
            entries: VecDeque::new(),
            notify: VecDeque::new(),
            signals: Vec::new(),
            attached: 0,
            dropped: false,
        };
        let id = self.shared.with(|world| {
            let id = CqId(world.fresh());
            world.cqs.insert(id, cq);
            id
        });
        Ok(SimCq::new(self.shared.clone(), id, CQ_ENTRIES_MAX))
    }

    fn create_vi(&self, attributes: ViAttributes) -> Result<SimVi, CreateViError> {
        self.create_vi_with(attributes, Attach::default())
    }

    fn create_vi_with(
        &self,
        attributes: ViAttributes,
        attach: Attach<'_, SimCq>,
    ) -> Result<SimVi, CreateViError> {
        self.nic.check(&attributes)?;
        let more = |count| (count < VI_MAX).then_some(count + 1);
        self.nic
            .vis
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| CreateViError::TooMany)?;
        let Ok(ptag) = self.nic.table.hold_ptag(attributes.ptag) else {
            self.nic.vis.fetch_sub(1, Ordering::Relaxed);
            return Err(CreateViError::UnknownPtag);
        };
        let queue = |cq: Option<&SimCq>| Workqueue::new(DESCRIPTORS_MAX, cq.map(|cq| cq.id));
        let vi = ViCore {
            nic: self.nic.clone(),
            context: attach.context,
            attributes: ViAttributes { ptag: Some(ptag), ..attributes },
            ptag,
            state: ViState::Idle,
            cause: None,
            conn: None,
            send: queue(attach.send),
            recv: queue(attach.recv),
            waiting: VecDeque::new(),
            started: VecDeque::new(),
            attempt: None,
            outcome: None,
            rung: false,
            overrun: false,
        };
        let id = self.shared.with(|world| {
            let id = ViId(world.fresh());
            for cq in [vi.send.cq, vi.recv.cq].into_iter().flatten() {
                if let Some(cq) = world.cqs.get_mut(&cq) {
                    cq.attached += 1;
                }
            }
            world.vis.insert(id, vi);
            id
        });
        Ok(SimVi::new(self.shared.clone(), self.nic.clone(), id))
    }

    fn set_error_handler(&self, handler: Option<ErrorHandler>) {
        let mut place = self.nic.handler.lock().unwrap_or_else(PoisonError::into_inner);
        let old = core::mem::replace(&mut *place, handler);
        drop(place);
        drop(old);
    }

    fn report(&self, error: AsyncError) {
        self.shared.with(|world| world.report(&self.nic, error));
    }

    fn callbacks_wait(&self) -> bool {
        self.nic.dispatcher.waits()
    }

    fn run_callbacks(&self) {
        self.nic.dispatcher.run_waiting();
    }

    fn connect_wait(
        &self,
        local: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<SimConnection, ConnectError> {
        let deadline = self.shared.deadline(timeout);
        self.listen(local)?.wait(deadline).ok_or(ConnectError::Timeout)
    }
}
