//! The core of a completion queue.
//!
//! A send queue adds an entry when a send is done. A receive is done only when a thread looks for messages, so the
//! completion queue must look at the VIs whose receive queues are attached. If there are few VIs, it looks at each
//! one. If there are many, it looks at the bits that senders set for it in the segment. The cost then grows with
//! the number of VIs that have events. When the completion queue finds a message, it receives the message and
//! returns the entry directly. So an entry costs little more than the message.
//!
//! The queue works with any type of VI that implements [`CqVi`].
//!
//! Locks are taken in this order: the lock of `attached_vis`, the lock of a VI's work queue, the lock of `entries`.

mod attached_vis;
mod sleep;
mod wait;

use crate::bias::Lock;
use crate::card::Card;
use crate::engine::Listed;
use crate::link::Attachment;
use crate::patience::Budget;
use attached_vis::{AttachedVis, Look};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sovia_sys::futex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use via::cq::{CqCallback, CqEntry, CqSignal, WorkQueueKind};
use via::error::CqError;
use via::{AsyncError, Control, ErrorCode, Resource};

/// The completion queue has no room for another entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overrun;

/// A VI whose receive queue is attached to the completion queue.
pub(crate) trait CqVi {
    /// Returns the number by which the program knows the VI. Each entry of the VI carries this number.
    fn context(&self) -> u64;

    /// Returns the VI's end of its current connection.
    fn attachment(&self) -> Option<Arc<Attachment>>;

    /// Receives the next message. Returns true if the caller must return the message's entry itself, which happens
    /// only with `mine`. In all other cases, pushes the entry to the queue.
    fn receive_for_cq(&self, mine: bool) -> bool;

    /// Returns true if spinning can help. Spinning cannot help if the peer's thread last waited on this processor.
    fn may_spin(&self) -> bool;

    /// Makes senders wake the engine for the VI, and receives messages that arrived earlier.
    fn arm(&self);

    /// Keeps senders from waking the engine for the VI, because the program polls, or senders wake the program
    /// directly.
    fn disarm(self: &Arc<Self>);

    /// Returns the VI for the engine's list, if it should be listed. Called after a thread that slept on the queue
    /// has woken.
    fn to_be_listed(self: &Arc<Self>) -> Option<Weak<dyn Listed>>;

    /// Returns true if the peer has staged an RDMA that is not finished.
    fn has_staged(&self) -> bool;

    /// Executes the RDMAs that the peer has staged.
    fn serve(&self);
}

/// Number of looks without an entry after which the program counts as polling.
const POLLS: u32 = 64;
/// Number of looks after which the queue executes RDMAs of its VIs' peers.
const TURN: u32 = 64;

/// The core of a completion queue.
#[derive(Debug)]
pub(crate) struct CqCore<V> {
    nic: Arc<Card>,
    context: u64,
    capacity: AtomicU32,
    /// Number of entries in the queue, readable without the lock.
    held: AtomicU32,
    /// Number of callbacks that wait for entries, readable without the lock.
    wanted: AtomicU32,
    entries: Lock<Entries>,
    attached_vis: Lock<AttachedVis<V>>,
    /// Number of attached work queues: send queues and receive queues.
    attached: AtomicU32,
    /// Number of the program's looks for entries. The engine uses it to see if the program polls.
    looks: AtomicU32,
    /// Futex word of the sleeping threads. Changed at each new entry while a thread sleeps.
    word: AtomicU32,
    sleepers: AtomicU32,
    /// Number of sleeping threads that the engine must wake.
    by_engine: AtomicU32,
    /// Set if the engine has stopped looking at the VIs while a thread slept.
    unlisted: AtomicBool,
    /// Time for which a waiting thread spins before it sleeps.
    budget: Budget,
    /// Nonzero while the VIs are armed: their senders wake the engine.
    armed: AtomicU32,
}

#[derive(Default)]
struct Entries {
    queue: VecDeque<CqEntry>,
    callbacks: VecDeque<CqCallback>,
    signals: Vec<CqSignal>,
}

impl core::fmt::Debug for Entries {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Entries").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Entries {
    fn are_awaited(&self) -> bool {
        !self.callbacks.is_empty() || !self.signals.is_empty()
    }
}

impl<V: CqVi> CqCore<V> {
    pub(crate) fn new(nic: Arc<Card>, capacity: u32, context: u64) -> CqCore<V> {
        let budget = nic.spin.budget();
        CqCore {
            nic,
            context,
            capacity: AtomicU32::new(capacity),
            held: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
            entries: Lock::new(Entries::default()),
            attached_vis: Lock::new(AttachedVis::default()),
            attached: AtomicU32::new(0),
            looks: AtomicU32::new(0),
            word: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            by_engine: AtomicU32::new(0),
            unlisted: AtomicBool::new(false),
            budget,
            armed: AtomicU32::new(0),
        }
    }

    /// Counts an attached work queue. `core` is the VI if the work queue is a receive queue.
    pub(crate) fn join(&self, core: Option<&Arc<V>>) {
        self.attached.fetch_add(1, Ordering::SeqCst);
        if let Some(core) = core {
            self.attached_vis.lock().join(core);
            self.vis_changed();
        }
    }

    /// Removes a VI that is being dropped. Called for each attached work queue of the VI.
    pub(crate) fn leave(&self, core: &Arc<V>) {
        self.attached.fetch_sub(1, Ordering::SeqCst);
        self.attached_vis.lock().leave(core);
        self.vis_changed();
    }

    /// Adds the connection of a VI whose receive queue is attached.
    pub(crate) fn connected(&self, core: &Arc<V>, attachment: &Arc<Attachment>) {
        self.attached_vis.lock().connected(core, attachment);
        self.vis_changed();
    }

    /// Removes the connection of a VI whose receive queue is attached.
    pub(crate) fn disconnected(&self, core: &V, attachment: &Attachment) {
        self.attached_vis.lock().disconnected(core, attachment);
        self.vis_changed();
    }

    pub(crate) fn looks(&self) -> u32 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Returns true if the engine must look at the VIs. This is so while an entry is awaited by a callback, by a
    /// signal, or by a thread that senders cannot wake.
    pub(crate) fn is_awaited(&self) -> bool {
        self.by_engine.load(Ordering::SeqCst) > 0 || self.entries.lock().are_awaited()
    }

    /// Returns true if senders wake a thread that sleeps on the queue. The engine then need not look at the VIs from
    /// time to time. The sleeping thread lists the VIs again when it is awake.
    pub(crate) fn sleeps_by_itself(&self) -> bool {
        let asleep = || {
            let (all, by_engine) = (&self.sleepers, &self.by_engine);
            all.load(Ordering::SeqCst) > by_engine.load(Ordering::SeqCst)
        };
        if !asleep() {
            return false;
        }
        // SYNC: pairs with `wait`, which decrements `sleepers` and then loads `unlisted`. Either `wait` sees this
        // store, or this thread sees that no thread sleeps.
        self.unlisted.store(true, Ordering::SeqCst);
        asleep()
    }

    /// Records that the engine has armed a VI, because its program did not look.
    pub(crate) fn was_armed(&self) {
        self.armed.store(1, Ordering::Relaxed);
    }

    /// Adds an entry. Not inlined: most work queues have no completion queue, and this code would lengthen their
    /// receives.
    #[inline(never)]
    pub(crate) fn push(&self, entry: CqEntry) -> Result<(), Overrun> {
        let mut entries = self.entries.lock();
        if let Some(callback) = entries.callbacks.pop_front() {
            self.wanted.store(entries.callbacks.len() as u32, Ordering::Relaxed);
            drop(entries);
            self.nic.run(Box::new(move || callback(entry)));
            return Ok(());
        }
        if entries.queue.len() >= self.capacity.load(Ordering::Relaxed) as usize {
            drop(entries);
            self.nic.report(AsyncError {
                vi: Some(entry.context),
                cq: Some(self.context),
                descriptor: None,
                operation: Control::OP_SENDRECV,
                resource: Resource::Cq,
                code: ErrorCode::Catastrophic,
            });
            return Err(Overrun);
        }
        entries.queue.push_back(entry);
        self.held.store(entries.queue.len() as u32, Ordering::SeqCst);
        let signals = core::mem::take(&mut entries.signals);
        drop(entries);
        signals.into_iter().for_each(|signal| signal());
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
        Ok(())
    }

    #[cold]
    fn wake(&self) {
        self.word.fetch_add(1, Ordering::SeqCst);
        futex::wake(&self.word, u32::MAX >> 1);
    }

    #[inline]
    fn pop(&self) -> Option<CqEntry> {
        if self.held.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut entries = self.entries.lock();
        let entry = entries.queue.pop_front();
        self.held.store(entries.queue.len() as u32, Ordering::SeqCst);
        entry
    }

    #[inline]
    pub(crate) fn done(&self) -> Option<CqEntry> {
        if let Some(entry) = self.pop() {
            return Some(entry);
        }
        let mut attached_vis = self.attached_vis.lock();
        // If a callback waits, the callback gets the entry, even if this thread finds the message.
        let mine = self.wanted.load(Ordering::Relaxed) == 0;
        let found = attached_vis.find(|core| {
            if core.receive_for_cq(mine) {
                return Look::Found(CqEntry {
                    context: core.context(),
                    queue: WorkQueueKind::Recv,
                });
            }
            self.pop().map_or(Look::Nothing, Look::Found)
        });
        if found.is_some() {
            attached_vis.polls = 0;
            return found;
        }
        // Only the thread that holds the lock of `attached_vis` changes `looks`, so a load and a store are enough.
        let looks = self.looks.load(Ordering::Relaxed).wrapping_add(1);
        self.looks.store(looks, Ordering::Relaxed);
        if self.armed.load(Ordering::Relaxed) != 0 {
            attached_vis.polls += 1;
            if attached_vis.polls >= POLLS {
                attached_vis.polls = 0;
                self.armed.store(0, Ordering::Relaxed);
                attached_vis.vis.iter().for_each(|core| core.disarm());
            }
        }
        if looks.is_multiple_of(TURN) {
            let staged = |core: &&Arc<V>| core.has_staged();
            let targets: Vec<_> = attached_vis.vis.iter().filter(staged).cloned().collect();
            // Release the lock of `attached_vis`, so that other threads can look for entries meanwhile.
            drop(attached_vis);
            targets.iter().for_each(|core| core.serve());
        }
        None
    }

    /// Makes senders wake the engine, because no thread looks for entries any more.
    fn arm(&self) {
        let vis = self.attached_vis.lock().vis.clone();
        self.armed.store(1, Ordering::Relaxed);
        vis.iter().for_each(|core| core.arm());
    }

    /// Keeps senders from waking the engine, because a thread of the program sleeps and senders wake this thread
    /// directly.
    fn disarm(&self) {
        if self.armed.load(Ordering::Relaxed) != 0 && !self.entries.lock().are_awaited() {
            self.armed.store(0, Ordering::Relaxed);
            let vis = self.attached_vis.lock().vis.clone();
            vis.iter().for_each(|core| core.disarm());
        }
    }

    /// Returns the maximum number of entries.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Sets the maximum number of entries.
    pub(crate) fn resize(&self, entries: u32) -> Result<(), CqError> {
        if entries == 0 || entries > self.nic.attributes.max_cq_entries {
            return Err(CqError::Entries);
        }
        let held = self.entries.lock();
        if held.queue.len() > entries as usize {
            return Err(CqError::Entries);
        }
        self.capacity.store(entries, Ordering::Relaxed);
        Ok(())
    }

    /// Registers `callback`, which the NIC's callback thread calls with the next entry. If the queue already has an
    /// entry, the thread calls `callback` with this entry at once.
    pub(crate) fn notify(&self, callback: CqCallback) {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.queue.pop_front() {
            self.held.store(entries.queue.len() as u32, Ordering::SeqCst);
            drop(entries);
            self.nic.run(Box::new(move || callback(entry)));
            return;
        }
        entries.callbacks.push_back(callback);
        self.wanted.store(entries.callbacks.len() as u32, Ordering::Relaxed);
        drop(entries);
        self.arm();
    }

    /// Registers `signal`, to be called at the next entry. Calls `signal` at once if the queue already has an
    /// entry.
    pub(crate) fn signal(&self, signal: CqSignal) {
        let mut entries = self.entries.lock();
        if !entries.queue.is_empty() {
            drop(entries);
            signal();
            return;
        }
        entries.signals.push(signal);
        drop(entries);
        self.arm();
    }

    /// Returns true if a work queue is attached.
    pub(crate) fn in_use(&self) -> bool {
        self.attached.load(Ordering::SeqCst) > 0
    }

    /// Drops the waiting callbacks and signals.
    pub(crate) fn cancel(&self) {
        // Drop the callbacks and signals after releasing the lock of `entries`. A callback may own a VI, and the
        // drop of this VI takes the lock.
        let mut entries = self.entries.lock();
        let cancelled =
            (core::mem::take(&mut entries.callbacks), core::mem::take(&mut entries.signals));
        drop(entries);
        drop(cancelled);
    }
}

impl<V> Drop for CqCore<V> {
    fn drop(&mut self) {
        self.nic.cq_gone();
    }
}
