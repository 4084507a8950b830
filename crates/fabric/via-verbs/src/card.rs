//! What all handles of one NIC share.

use crate::agent::Job;
use crate::config::Config;
use crate::connection::VerbsConnection;
use crate::core::ViShared;
use crate::slot::{Slot, lock};
use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sovia_sys::Fd;
use sovia_verbs::{Channel, Device, Domain, Events, Offers, RegisteredMemory, Rights};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};
use via::error::{ConnectError, MemError, RegisterError};
use via::event::{Dispatcher, ErrorHandler};
use via::memory::{MemoryTable, Region};
use via::{AsyncError, MemAttributes, MemHandle, Memory, NetAddress, NicAttributes, Ptag};

/// A thread that waits for a request.
pub(crate) struct Waiter {
    pub(crate) discriminator: Box<[u8]>,
    pub(crate) slot: Slot<VerbsConnection>,
    pub(crate) name: u64,
}

/// The registrations of a region.
struct Held {
    region: Arc<Region>,
    /// For this process's own requests.
    local: RegisteredMemory,
    /// For peers' writes and reads; there when one of them has first asked.
    write: Option<RegisteredMemory>,
    read: Option<RegisteredMemory>,
}

/// By which the far side's questions name a connection: a number that others cannot guess, and that ends with the connection. A question
/// about a connection that a VI has had before therefore finds nothing.
pub(crate) struct Token {
    number: u64,
    card: Arc<Card>,
}

impl Token {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        lock(&self.card.connections).remove(&self.number);
    }
}

/// What a NIC's VIs need of it.
pub(crate) struct Card {
    pub(crate) attributes: NicAttributes,
    pub(crate) config: Config,
    pub(crate) offers: Offers,
    /// Where it listens.
    pub(crate) at: SocketAddr,
    pub(crate) device: Arc<Device>,
    pub(crate) channel: Arc<Channel>,
    pub(crate) events: Arc<Events>,
    pub(crate) table: MemoryTable,
    pub(crate) vi_count: AtomicU32,
    pub(crate) cq_count: AtomicU32,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) handler: Mutex<Option<ErrorHandler>>,
    pub(crate) waiters: Mutex<Vec<Waiter>>,
    pub(crate) vis: Mutex<HashMap<u64, Weak<ViShared>>>,
    /// VIs by the tokens of their connections.
    connections: Mutex<HashMap<u64, Weak<ViShared>>>,
    pub(crate) jobs: Mutex<VecDeque<Job>>,
    /// Wakes the NIC's thread.
    pub(crate) bell: Fd,
    domains: Mutex<HashMap<Ptag, Arc<Domain>>>,
    keys: Mutex<HashMap<u32, Held>>,
    names: AtomicU64,
    random: RandomState,
}

impl fmt::Debug for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Card").field("at", &self.at).finish_non_exhaustive()
    }
}

/// What a card is made of.
pub(crate) struct Parts {
    pub(crate) attributes: NicAttributes,
    pub(crate) config: Config,
    pub(crate) offers: Offers,
    pub(crate) at: SocketAddr,
    pub(crate) device: Arc<Device>,
    pub(crate) channel: Arc<Channel>,
    pub(crate) events: Arc<Events>,
    pub(crate) table: MemoryTable,
    pub(crate) bell: Fd,
}

impl Card {
    pub(crate) fn new(parts: Parts) -> Card {
        let Parts { attributes, config, offers, at, device, channel, events, table, bell } = parts;
        let spawn =
            |job| std::thread::Builder::new().name("verbs-callbacks".into()).spawn(job).map(drop);
        Card {
            attributes,
            config,
            offers,
            at,
            device,
            channel,
            events,
            table,
            vi_count: AtomicU32::new(0),
            cq_count: AtomicU32::new(0),
            dispatcher: Dispatcher::new(spawn),
            handler: Mutex::new(None),
            waiters: Mutex::default(),
            vis: Mutex::default(),
            connections: Mutex::default(),
            jobs: Mutex::default(),
            bell,
            domains: Mutex::default(),
            keys: Mutex::default(),
            names: AtomicU64::new(1),
            random: RandomState::new(),
        }
    }

    /// A number that was not used before.
    pub(crate) fn name(&self) -> u64 {
        self.names.fetch_add(1, Ordering::Relaxed)
    }

    /// A token for a new connection of a VI.
    pub(crate) fn token(self: &Arc<Card>, vi: &Arc<ViShared>) -> Token {
        let number = self.random.hash_one(self.name());
        lock(&self.connections).insert(number, Arc::downgrade(vi));
        Token { number, card: self.clone() }
    }

    /// Gives the NIC's thread something to do.
    pub(crate) fn job(&self, job: Job) {
        lock(&self.jobs).push_back(job);
        let _ = sovia_sys::call::write(self.bell.raw(), &1u64.to_ne_bytes());
    }

    /// The VI of that name.
    pub(crate) fn vi(&self, name: u64) -> Option<Arc<ViShared>> {
        lock(&self.vis).get(&name)?.upgrade()
    }

    /// The VI whose connection has that token.
    pub(crate) fn connected(&self, token: u64) -> Option<Arc<ViShared>> {
        lock(&self.connections).get(&token)?.upgrade()
    }

    /// Tells the error handler, in its turn.
    pub(crate) fn report(self: &Arc<Card>, error: AsyncError) {
        let card = self.clone();
        self.dispatcher.run(Box::new(move || {
            let handler = lock(&card.handler).clone();
            if let Some(handler) = handler {
                handler(&error);
            }
        }));
    }

    /// The domain of a tag.
    pub(crate) fn domain(&self, ptag: Ptag) -> Result<Arc<Domain>, sovia_verbs::Error> {
        let mut domains = lock(&self.domains);
        if let Some(domain) = domains.get(&ptag) {
            return Ok(domain.clone());
        }
        let domain = Domain::new(&self.device)?;
        domains.insert(ptag, domain.clone());
        Ok(domain)
    }

    /// A tag is gone.
    pub(crate) fn forget(&self, ptag: Ptag) {
        lock(&self.domains).remove(&ptag);
    }

    fn registered(
        &self,
        region: &Region,
        rights: Rights,
    ) -> Result<RegisteredMemory, sovia_verbs::Error> {
        RegisteredMemory::new(&self.domain(region.ptag())?, region.memory(), rights)
    }

    /// # Errors
    /// [`RegisterError`].
    pub(crate) fn register(
        &self,
        memory: &Memory,
        attributes: MemAttributes,
    ) -> Result<MemHandle, RegisterError> {
        let handle = self.table.register(memory, attributes)?;
        let held = self.table.find(handle.raw()).and_then(|region| {
            let local = self.registered(&region, Rights::default()).ok()?;
            Some(Held { region, local, write: None, read: None })
        });
        match held {
            Some(held) => {
                lock(&self.keys).insert(handle.raw(), held);
                Ok(handle)
            }
            // Locked memory, above all.
            None => {
                let _ = self.table.deregister(handle);
                Err(RegisterError::TooManyBytes)
            }
        }
    }

    /// # Errors
    /// [`MemError::UnknownHandle`].
    pub(crate) fn deregister(&self, handle: MemHandle) -> Result<(), MemError> {
        self.table.deregister(handle)?;
        let held = lock(&self.keys).remove(&handle.raw());
        self.wait_for_vis();
        drop(held);
        Ok(())
    }

    /// # Errors
    /// [`MemError`].
    pub(crate) fn set_attributes(
        &self,
        handle: MemHandle,
        attributes: MemAttributes,
    ) -> Result<(), MemError> {
        let old = self.table.set_attributes(handle, attributes)?;
        let mut keys = lock(&self.keys);
        let Some(region) = self.table.find(handle.raw()) else { return Ok(()) };
        if let Some(held) = keys.get_mut(&handle.raw()) {
            let same = region.ptag() == old.ptag();
            held.write =
                held.write.take().filter(|_| same && region.attributes().enable_rdma_write);
            held.read = held.read.take().filter(|_| same && region.attributes().enable_rdma_read);
            held.region = region;
            if !same {
                match self.registered(&held.region, Rights::default()) {
                    Ok(local) => held.local = local,
                    // Nothing finds it any more; it is as if its memory could not be used.
                    Err(_) => drop(keys.remove(&handle.raw())),
                }
            }
        }
        drop(keys);
        self.wait_for_vis();
        Ok(())
    }

    /// When it returns, no thread uses what it has found in the table before.
    fn wait_for_vis(&self) {
        let vis: Vec<_> = lock(&self.vis).values().filter_map(Weak::upgrade).collect();
        vis.iter().for_each(|vi| drop(lock(&vi.core)));
    }

    /// The live region of a handle, and its local key.
    pub(crate) fn local(&self, handle: u32) -> Option<(Arc<Region>, u32)> {
        let keys = lock(&self.keys);
        let held = keys.get(&handle)?;
        held.region.is_live().then(|| (held.region.clone(), held.local.local_key()))
    }

    /// The key under which the peer of a VI with that tag may write or read these bytes; `None` if it may not.
    pub(crate) fn remote(
        &self,
        ptag: Ptag,
        handle: u32,
        (address, length): (u64, u32),
        write: bool,
    ) -> Option<u32> {
        let mut keys = lock(&self.keys);
        let held = keys.get_mut(&handle)?;
        let region = held.region.clone();
        let attributes = region.attributes();
        let allowed =
            if write { attributes.enable_rdma_write } else { attributes.enable_rdma_read };
        if !allowed || !region.is_live() || region.ptag() != ptag {
            return None;
        }
        region.memory().range(address, length)?;
        let place = if write { &mut held.write } else { &mut held.read };
        if place.is_none() {
            *place = Some(self.registered(&region, Rights { write, read: !write }).ok()?);
        }
        place.as_ref().map(RegisteredMemory::remote_key)
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
    if address.discriminator.len() > crate::wire::DISCRIMINATOR_MAX {
        return Err(ConnectError::InvalidParameter("the discriminator is too long"));
    }
    Ok(())
}
