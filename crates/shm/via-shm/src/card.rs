//! The part of a NIC that its VIs and completion queues use: attributes, the table of registered memory, the hub, and
//! the callback thread.

use crate::connect::hub::Hub;
use crate::engine::Starts;
use crate::patience::SpinLimit;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sys::{call, process};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use via::NicAttributes;
use via::error::{CqError, CreateViError};
use via::event::{AsyncError, CurrentHandler, Dispatcher, ErrorHandler, Job};
use via::memory::{Limits, MemoryTable, Region};

/// A VI, as a user of registered memory.
pub(crate) trait MemoryUser: Send + Sync {
    /// Waits until no thread uses a region of registered memory that it looked up on this VI before the call.
    fn quiesce(&self);
}

/// The part of a NIC that its VIs and completion queues use.
pub(crate) struct Card {
    pub(crate) attributes: NicAttributes,
    pub(crate) table: MemoryTable,
    pub(crate) hub: Arc<Hub>,
    dispatcher: Dispatcher,
    handler: CurrentHandler,
    cqs: AtomicU32,
    vis: Mutex<Vis>,
    /// Longest spin before a sleep, for VIs and completion queues that are created later.
    pub(crate) spin: SpinLimit,
}

impl core::fmt::Debug for Card {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Card").field("name", &self.attributes.name).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Vis {
    last: u64,
    /// VIs by their ids. A VI's entry is removed at the end of the VI's drop, after the last access to registered
    /// memory. So there may be an entry for a VI without strong references.
    by_id: HashMap<u64, Weak<dyn MemoryUser>>,
}

impl Card {
    /// Opens a card with these attributes, without VIs and completion queues. `limits` applies to the card's
    /// registered memory.
    ///
    /// # Errors
    /// The system's error if it cannot create another file descriptor or thread.
    pub(crate) fn open(attributes: NicAttributes, limits: Limits) -> std::io::Result<Arc<Card>> {
        let table = MemoryTable::new(limits);
        let hub = Hub::open()?;
        let card = Arc::new(Card {
            attributes,
            table,
            hub,
            dispatcher: Dispatcher::new(|job| {
                let thread = std::thread::Builder::new().name("via-callback".into());
                process::without_signals(|| thread.spawn(job)).map(drop)
            }),
            handler: CurrentHandler::default(),
            cqs: AtomicU32::new(0),
            vis: Mutex::default(),
            spin: SpinLimit::default(),
        });
        let weak: Weak<dyn Starts> = Arc::downgrade(&card) as _;
        card.hub.engine.start_for(weak);
        Ok(card)
    }

    fn vis(&self) -> MutexGuard<'_, Vis> {
        self.vis.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a VI, which `make` creates from the VI's id. Fails if the card has too many VIs.
    pub(crate) fn add_vi<V: MemoryUser + 'static>(
        &self,
        make: impl FnOnce(u64) -> Result<Arc<V>, CreateViError>,
    ) -> Result<Arc<V>, CreateViError> {
        let mut vis = self.vis();
        if vis.by_id.len() >= self.attributes.max_vi as usize {
            return Err(CreateViError::TooMany);
        }
        let id = vis.last + 1;
        let vi = make(id)?;
        vis.last = id;
        let weak: Weak<dyn MemoryUser> = Arc::downgrade(&vi) as _;
        vis.by_id.insert(id, weak);
        Ok(vi)
    }

    /// Removes a VI.
    pub(crate) fn vi_gone(&self, id: u64) {
        self.vis().by_id.remove(&id);
    }

    /// Runs `job` in the callback thread, after all callbacks that were queued earlier. The caller may hold any
    /// lock.
    pub(crate) fn run(&self, job: Job) {
        if !self.dispatcher.run(job) {
            self.hub.engine.want_threads();
        }
    }

    /// Calls the error handler with `error` in the callback thread, after all callbacks that were queued earlier.
    pub(crate) fn report(&self, error: AsyncError) {
        if let Some(call) = self.handler.call_for(error) {
            self.run(call);
        }
    }

    /// Sets or removes the error handler.
    pub(crate) fn set_handler(&self, handler: Option<ErrorHandler>) {
        self.handler.set(handler);
    }

    /// Returns true while callbacks wait for a thread that runs them.
    pub(crate) fn callbacks_wait(&self) -> bool {
        self.dispatcher.waits()
    }

    /// Runs the waiting callbacks in the calling thread.
    pub(crate) fn run_callbacks(&self) {
        self.dispatcher.run_waiting();
    }

    /// Counts a new completion queue. Fails if the card has too many completion queues.
    pub(crate) fn cq_made(&self) -> Result<(), CqError> {
        let more = |n| (n < self.attributes.max_cq).then_some(n + 1);
        let made = self.cqs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        made.map(drop).map_err(|_| CqError::TooMany)
    }

    /// Counts the end of a completion queue.
    pub(crate) fn cq_gone(&self) {
        self.cqs.fetch_sub(1, Ordering::Relaxed);
    }

    /// Waits until no peer and no VI of this NIC uses `region`, which the program has deregistered or changed.
    pub(crate) fn revoke(&self, region: &Region) {
        let attributes = region.attributes();
        if attributes.enable_rdma_write || attributes.enable_rdma_read {
            self.hub.engine.links().iter().for_each(|link| link.revoke_regions());
        }
        self.quiesce();
    }

    /// Waits until no VI uses a region that it looked up before this call. A VI uses a region only while it holds
    /// one of its locks.
    fn quiesce(&self) {
        // Release the lock of `vis` before the upgrades, because the drop of a VI's last reference takes this lock.
        let vis: Vec<_> = self.vis().by_id.iter().map(|(id, vi)| (*id, vi.clone())).collect();
        for (id, vi) in vis {
            match vi.upgrade() {
                Some(vi) => vi.quiesce(),
                // Another thread is dropping the VI. Wait until the drop has removed the VI's entry.
                None => {
                    while self.vis().by_id.contains_key(&id) {
                        call::sched_yield();
                    }
                }
            }
        }
    }
}

impl Starts for Card {
    fn start(&self) -> bool {
        self.dispatcher.retry()
    }
}
