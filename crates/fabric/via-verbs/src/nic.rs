//! The NIC, for programs.

use crate::agent::Agent;
use crate::config::{Config, OpenError, host};
use crate::connection::VerbsConnection;
use crate::cq::VerbsCq;
use crate::open::Open;
use crate::regions::Regions;
use crate::slot::{Slot, after, lock};
use crate::state::{Card, CqShared, Parts, ViShared, Waiter};
use crate::vi::VerbsVi;
use crate::wire::DISCRIMINATOR_MAX;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use sovia_sys::{Fd, call};
use sovia_verbs::{Channel, Device, Events, Id, Offers, Space};
use std::net::SocketAddr;
use std::sync::Arc;
use via::error::{ConnectError, CqError, CreateViError, MemError, PtagError, RegisterError};
use via::event::ErrorHandler;
use via::memory::Limits;
use via::{
    AsyncError, Attach, Capabilities, MemAttributes, MemHandle, Memory, NetAddress, Nic,
    NicAttributes, Ptag, Reliability, ViAttributes,
};

const TRANSFER_MAX: u32 = 1 << 20;
const CQ_ENTRIES_MAX: u32 = 1 << 16;
const NAME_MAX: usize = 63;
/// Number of requests that the system keeps until the NIC's thread takes them.
const BACKLOG: u16 = 1024;

/// An open RDMA NIC. Its VIs hold references to its parts, and may outlive this handle.
///
/// ```no_run
/// use via::Nic;
/// use via_verbs::{Config, VerbsNic};
///
/// let nic = VerbsNic::open(&"mlx5_0".parse::<Config>()?)?;
/// println!("{} listens as {:x?}", nic.attributes().name, nic.attributes().local_address);
/// # Ok::<(), via_verbs::OpenError>(())
/// ```
#[derive(Debug)]
pub struct VerbsNic {
    card: Arc<Card>,
    open: Arc<Open>,
}

impl VerbsNic {
    /// Opens a NIC.
    ///
    /// # Errors
    /// [`OpenError`]: a library, the device or a permission is missing.
    pub fn open(config: &Config) -> Result<VerbsNic, OpenError> {
        let events = Events::new()?;
        let id = Id::new(&events, Space::Connections, Agent::LISTENER)?;
        if let Err(error) = id.bind(config.at) {
            // Another program has the default port, and the caller did not ask for this port.
            if config.is_port_given || error.errno() != Some(Agent::IN_USE) {
                return Err(error.into());
            }
            id.bind((config.at.ip(), 0).into())?;
        }
        let at = SocketAddr::new(config.at.ip(), id.port());
        let device = Device::of(id)?;
        let questions = Id::new(&events, Space::Questions, Agent::QUESTIONS)?;
        questions.bind(at)?;
        let offers = device.offers()?;
        let channel = Channel::new(&device)?;
        let attributes = attributes(&device, &offers, config, at);
        let limits = Limits {
            regions: attributes.max_register_regions,
            bytes: attributes.max_register_bytes,
            block_bytes: attributes.max_register_block_bytes,
            ptags: attributes.max_ptags,
        };
        let config = Config {
            depth: attributes.max_descriptors_per_queue,
            segments: config.segments.min(offers.segments).min(offers.read_segments),
            ..config.clone()
        };
        let (bell, kick) = (bell()?, bell()?);
        device.id().listen(BACKLOG)?;
        questions.listen(BACKLOG)?;
        let regions = Regions::new(device, limits);
        let parts = Parts { attributes, config, offers, at, channel, events, regions, bell, kick };
        let card = Arc::new(Card::new(parts));
        let agent = Agent::new(card.clone(), questions);
        let thread = std::thread::Builder::new().name("verbs".into()).spawn(move || agent.run());
        let thread = thread
            .map_err(|error| OpenError::System("cannot start the thread of the NIC", error))?;
        let open = Arc::new(Open::new(card.clone(), thread));
        Ok(VerbsNic { card, open })
    }

    /// Returns this NIC's address with a discriminator.
    pub fn address(&self, discriminator: &[u8]) -> NetAddress {
        NetAddress::new(&self.card.attributes.local_address, discriminator)
    }

    /// Returns the address, with a discriminator, of the RDMA NIC that `place` describes. The NIC need not be open.
    pub fn address_at(place: &Config, discriminator: &[u8]) -> NetAddress {
        NetAddress::new(&host(place.at), discriminator)
    }

    /// Increments a counter. Returns false if it has reached `max`.
    fn count(counter: &AtomicU32, max: u32) -> bool {
        let more = |count| (count < max).then_some(count + 1);
        counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// Makes an eventfd by which threads wake another thread.
fn bell() -> Result<Fd, OpenError> {
    // EFD_NONBLOCK, EFD_CLOEXEC.
    Fd::make(|| call::eventfd(2048 | 0o2000000)).map_err(|errno| {
        OpenError::System("eventfd", std::io::Error::from_raw_os_error(errno.into_raw()))
    })
}

fn attributes(device: &Device, offers: &Offers, config: &Config, at: SocketAddr) -> NicAttributes {
    let mut name = device.name();
    name.truncate(NAME_MAX);
    let depth = config.depth.min(offers.work).min(offers.entries / 2);
    NicAttributes {
        name,
        hardware_version: 1,
        provider_version: 1,
        local_address: host(at),
        thread_safe: true,
        max_discriminator_len: DISCRIMINATOR_MAX as u16,
        max_register_bytes: 1 << 46,
        max_register_regions: MemHandle::PLACES.min(offers.regions / 4),
        max_register_block_bytes: offers.region.min(1 << 44),
        max_vi: offers.pairs.min(offers.queues).min(1 << 18),
        max_descriptors_per_queue: depth,
        max_segments_per_desc: via::descriptor::SEGMENTS_MAX as u16,
        max_cq: 1 << 12,
        max_cq_entries: CQ_ENTRIES_MAX,
        max_transfer_size: TRANSFER_MAX.min(offers.message),
        native_mtu: offers.mtu,
        max_ptags: offers.domains.min(1 << 10),
        reliability: Reliability::RELIABLE_DELIVERY,
        rdma_read: if offers.reads > 0 {
            Reliability::RELIABLE_DELIVERY
        } else {
            Reliability::empty()
        },
        capabilities: Capabilities {
            inline_size: config.inline,
            registration_is_free: false,
            sends_execute_in_caller: false,
            rdma_write: true,
        },
    }
}

impl Nic for VerbsNic {
    type Vi = VerbsVi;
    type Connection = VerbsConnection;
    type Cq = VerbsCq;

    fn attributes(&self) -> &NicAttributes {
        &self.card.attributes
    }

    fn create_ptag(&self) -> Result<Ptag, PtagError> {
        self.card.regions.table.create_ptag()
    }

    fn destroy_ptag(&self, ptag: Ptag) -> Result<(), PtagError> {
        self.card.regions.table.destroy_ptag(ptag)?;
        self.card.regions.forget(ptag);
        Ok(())
    }

    fn register_mem(
        &self,
        memory: &Memory,
        attributes: MemAttributes,
    ) -> Result<MemHandle, RegisterError> {
        self.card.regions.register(memory, attributes)
    }

    fn deregister_mem(&self, handle: MemHandle) -> Result<(), MemError> {
        self.card.deregister(handle)
    }

    fn query_mem(&self, handle: MemHandle) -> Result<(Memory, MemAttributes), MemError> {
        let region = self.card.regions.table.find(handle.raw()).ok_or(MemError::UnknownHandle)?;
        Ok((region.memory().clone(), region.attributes()))
    }

    fn set_mem_attributes(
        &self,
        handle: MemHandle,
        attributes: MemAttributes,
    ) -> Result<(), MemError> {
        self.card.set_attributes(handle, attributes)
    }

    fn create_cq(&self, entries: u32, context: u64) -> Result<VerbsCq, CqError> {
        if !(1..=CQ_ENTRIES_MAX).contains(&entries) {
            return Err(CqError::Entries);
        }
        if !VerbsNic::count(&self.card.cq_count, self.card.attributes.max_cq) {
            return Err(CqError::TooMany);
        }
        Ok(VerbsCq(Arc::new(CqShared::new(self.card.clone(), entries, context))))
    }

    fn create_vi(&self, attributes: ViAttributes) -> Result<VerbsVi, CreateViError> {
        self.create_vi_with(attributes, Attach::default())
    }

    fn create_vi_with(
        &self,
        attributes: ViAttributes,
        attach: Attach<'_, VerbsCq>,
    ) -> Result<VerbsVi, CreateViError> {
        let card = &self.card;
        card.attributes.offer(&attributes)?;
        let queues = [attach.send, attach.recv].map(|cq| cq.map(|cq| cq.0.clone()));
        if queues.iter().flatten().any(|cq| !cq.is_of(card)) {
            return Err(CreateViError::ForeignCq);
        }
        let ptag = card
            .regions
            .table
            .hold_ptag(attributes.ptag)
            .map_err(|_| CreateViError::UnknownPtag)?;
        if !VerbsNic::count(&card.vi_count, card.attributes.max_vi) {
            card.regions.table.release_ptag(ptag);
            return Err(CreateViError::TooMany);
        }
        let [send, recv] = queues.clone();
        let shared =
            Arc::new(ViShared::new(card.clone(), attributes, attach.context, send, recv, ptag));
        for cq in queues.iter().flatten() {
            cq.attach(&shared);
        }
        lock(&card.vis).insert(shared.name, Arc::downgrade(&shared));
        Ok(VerbsVi { shared, open: self.open.clone() })
    }

    fn set_error_handler(&self, handler: Option<ErrorHandler>) {
        self.card.handler.set(handler);
    }

    fn report(&self, error: AsyncError) {
        self.card.report(error);
    }

    fn callbacks_wait(&self) -> bool {
        self.card.dispatcher.waits()
    }

    fn run_callbacks(&self) {
        self.card.dispatcher.run_waiting();
    }

    fn connect_wait(
        &self,
        local: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<VerbsConnection, ConnectError> {
        self.card.attributes.own(local)?;
        let until = after(timeout);
        let (slot, name) = (Slot::new(), self.card.name());
        let waiter =
            Waiter { discriminator: local.discriminator.clone(), slot: slot.clone(), name };
        lock(&self.card.waiters).push(waiter);
        let found = slot.wait(until).or_else(|| {
            // A request that came just now has already removed this thread's waiter from the list, and is in the slot.
            lock(&self.card.waiters).retain(|waiter| waiter.name != name);
            slot.take()
        });
        let request = found.ok_or(ConnectError::Timeout)?;
        Ok(VerbsConnection { request, _open: self.open.clone() })
    }
}
