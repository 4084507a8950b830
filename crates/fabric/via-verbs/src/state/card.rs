//! State that all handles of one NIC share.

use crate::config::Config;
use crate::regions::Regions;
use crate::slot::{Slot, lock};
use crate::state::{Job, Request, ViShared, Watching};
use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sovia_sys::{Fd, call};
use sovia_verbs::{Channel, Events, Offers};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};
use via::error::MemError;
use via::event::{CurrentHandler, Dispatcher};
use via::{AsyncError, MemAttributes, MemHandle, NicAttributes};

/// A thread that waits for a request.
pub(crate) struct Waiter {
    pub(crate) discriminator: Box<[u8]>,
    pub(crate) slot: Slot<Request>,
    pub(crate) name: u64,
}

/// Name of a connection in the peer's questions: a number that others cannot guess. The token ends with its connection,
/// so a question about an earlier connection of a VI finds nothing.
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

/// The parts of a NIC that its VIs need.
pub(crate) struct Card {
    pub(crate) attributes: NicAttributes,
    pub(crate) config: Config,
    pub(crate) offers: Offers,
    /// Address at which the NIC listens.
    pub(crate) at: SocketAddr,
    pub(crate) channel: Arc<Channel>,
    pub(crate) events: Arc<Events>,
    pub(crate) regions: Regions,
    pub(crate) vi_count: AtomicU32,
    pub(crate) cq_count: AtomicU32,
    pub(crate) dispatcher: Dispatcher,
    /// A running call of the handler does not keep the card alive. So the device closes with the last handle of the
    /// NIC, even during a call.
    pub(crate) handler: CurrentHandler,
    pub(crate) waiters: Mutex<Vec<Waiter>>,
    pub(crate) vis: Mutex<HashMap<u64, Weak<ViShared>>>,
    /// VIs by the tokens of their connections.
    connections: Mutex<HashMap<u64, Weak<ViShared>>>,
    pub(crate) jobs: Mutex<VecDeque<Job>>,
    /// Wakes the NIC's thread.
    pub(crate) bell: Fd,
    pub(crate) watching: Mutex<Watching>,
    /// Wakes a thread that watches a completion queue.
    pub(crate) kick: Fd,
    names: AtomicU64,
    random: RandomState,
}

impl fmt::Debug for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Card").field("at", &self.at).finish_non_exhaustive()
    }
}

/// Parts from which a card is made.
pub(crate) struct Parts {
    pub(crate) attributes: NicAttributes,
    pub(crate) config: Config,
    pub(crate) offers: Offers,
    pub(crate) at: SocketAddr,
    pub(crate) channel: Arc<Channel>,
    pub(crate) events: Arc<Events>,
    pub(crate) regions: Regions,
    pub(crate) bell: Fd,
    pub(crate) kick: Fd,
}

impl Card {
    pub(crate) fn new(parts: Parts) -> Card {
        let Parts { attributes, config, offers, at, channel, events, regions, bell, kick } = parts;
        let spawn =
            |job| std::thread::Builder::new().name("verbs-callbacks".into()).spawn(job).map(drop);
        Card {
            attributes,
            config,
            offers,
            at,
            channel,
            events,
            regions,
            vi_count: AtomicU32::new(0),
            cq_count: AtomicU32::new(0),
            dispatcher: Dispatcher::new(spawn),
            handler: CurrentHandler::default(),
            waiters: Mutex::default(),
            vis: Mutex::default(),
            connections: Mutex::default(),
            jobs: Mutex::default(),
            bell,
            watching: Mutex::new(Watching::new()),
            kick,
            names: AtomicU64::new(1),
            random: RandomState::new(),
        }
    }

    /// Returns a new name. Names are never reused.
    pub(crate) fn name(&self) -> u64 {
        self.names.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a token for a new connection of a VI.
    pub(crate) fn token(self: &Arc<Card>, vi: &Arc<ViShared>) -> Token {
        let number = self.random.hash_one(self.name());
        lock(&self.connections).insert(number, Arc::downgrade(vi));
        Token { number, card: self.clone() }
    }

    /// Queues a job for the NIC's thread.
    pub(crate) fn job(&self, job: Job) {
        lock(&self.jobs).push_back(job);
        ring(&self.bell);
    }

    /// Changes which thread sleeps on the channel, and wakes the NIC's thread if it has to act.
    pub(crate) fn turn(&self, change: impl FnOnce(&mut Watching) -> bool) {
        // Releases the lock before the system call.
        let wakes = change(&mut lock(&self.watching));
        if wakes {
            ring(&self.bell);
        }
    }

    /// Returns the VI with this name.
    pub(crate) fn vi(&self, name: u64) -> Option<Arc<ViShared>> {
        lock(&self.vis).get(&name)?.upgrade()
    }

    /// Returns the armed VIs whose completions the channel reports.
    pub(crate) fn news(&self) -> impl Iterator<Item = Arc<ViShared>> {
        core::iter::from_fn(|| self.channel.news()).filter_map(|name| self.vi(name))
    }

    /// All VIs.
    pub(crate) fn all(&self) -> Vec<Arc<ViShared>> {
        lock(&self.vis).values().filter_map(Weak::upgrade).collect()
    }

    /// Returns the VI whose connection has this token.
    pub(crate) fn connected(&self, token: u64) -> Option<Arc<ViShared>> {
        lock(&self.connections).get(&token)?.upgrade()
    }

    /// Queues a call of the program's error handler.
    pub(crate) fn report(&self, error: AsyncError) {
        if let Some(call) = self.handler.call_for(error) {
            self.dispatcher.run(call);
        }
    }

    /// Deregisters memory.
    ///
    /// # Errors
    /// [`MemError::UnknownHandle`].
    pub(crate) fn deregister(&self, handle: MemHandle) -> Result<(), MemError> {
        let held = self.regions.remove(handle)?;
        self.wait_for_vis();
        drop(held);
        Ok(())
    }

    /// Changes a region's attributes.
    ///
    /// # Errors
    /// [`MemError`].
    pub(crate) fn set_attributes(
        &self,
        handle: MemHandle,
        attributes: MemAttributes,
    ) -> Result<(), MemError> {
        self.regions.set_attributes(handle, attributes)?;
        self.wait_for_vis();
        Ok(())
    }

    /// Waits until no thread uses a region that it had found in the table before this call.
    fn wait_for_vis(&self) {
        self.all().iter().for_each(|vi| drop(lock(&vi.core)));
    }
}

/// Makes an eventfd readable. The write fails only if the eventfd is readable already.
pub(crate) fn ring(bell: &Fd) {
    let _ = call::write(bell.raw(), &1u64.to_ne_bytes());
}

/// Makes an eventfd unreadable again.
pub(crate) fn hush(bell: &Fd) {
    let _ = call::read(bell.raw(), &mut [0; 8]);
}
