//! What a completion queue is made of.
//!
//! A send queue's entries are made when its sends are done. A receive queue's descriptors are done
//! when a thread looks for messages, so a completion queue looks: at each of its VIs while they are
//! few, which costs what looking at them one after the other would; when they are many, at the
//! bits that senders set for it in the segment, so that its cost is by the VIs with news. A message
//! that is found there is handed out as an entry at once, and received when the program takes the
//! descriptor: in this way an entry costs little more than the message.
//!
//! It is made for any type of VI that is a [`Member`], and knows no more of VIs than that.
//!
//! Lock order: members, then a VI's queue, then entries.

mod members;
mod sleep;
mod wait;

use crate::bias::Lock;
use crate::card::Card;
use crate::engine::Listed;
use crate::link::Attachment;
use crate::patience::Budget;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use members::{Look, Members};
use sovia_sys::futex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use via::cq::{CqCallback, CqEntry, CqSignal, WorkQueueKind};
use via::error::CqError;
use via::{AsyncError, Control, ErrorCode, Resource};

/// A completion queue has no room for another entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overrun;

/// A VI, as the completion queue of its receives knows it.
pub(crate) trait Member {
    /// The program's name for it, which its entries have.
    fn context(&self) -> u64;

    /// The connection that it has.
    fn attachment(&self) -> Option<Arc<Attachment>>;

    /// Receives the next message; whether its entry is to be handed out at once, to a caller that may have it
    /// (`mine`). Entries of whatever else is done enter the queue by themselves.
    fn receive_for_cq(&self, mine: bool) -> bool;

    /// Whether spinning can help: not if the far side's thread last waited on this very processor.
    fn may_spin(&self) -> bool;

    /// Has senders wake the engine for it, and looks at what has come before.
    fn arm(&self);

    /// The program polls, or senders wake it: they need not wake the engine.
    fn disarm(self: &Arc<Self>);

    /// A thread that slept on the queue is awake: what is to be listed, if that is wanted.
    fn to_be_listed(self: &Arc<Self>) -> Option<Weak<dyn Listed>>;

    /// Whether the peer has staged an RDMA that is not finished.
    fn has_staged(&self) -> bool;

    /// Carries out what the peer has staged.
    fn serve(&self);
}

/// Looks in vain after which a program is taken to poll.
const POLLS: u32 = 64;
/// Looks from one turn to carry out RDMAs of peers to the next.
const TURN: u32 = 64;

/// What a completion queue is made of.
#[derive(Debug)]
pub(crate) struct CqCore<V> {
    nic: Arc<Card>,
    context: u64,
    capacity: AtomicU32,
    /// Entries in the queue, to be looked at without its lock.
    held: AtomicU32,
    /// Callbacks that wait for entries, likewise.
    wanted: AtomicU32,
    entries: Lock<Entries>,
    members: Lock<Members<V>>,
    /// Work queues attached, receiving or sending.
    attached: AtomicU32,
    /// The program's looks so far, for the engine.
    looks: AtomicU32,
    /// The futex word of the sleepers; changed with each entry while a thread sleeps.
    word: AtomicU32,
    sleepers: AtomicU32,
    /// Those of them that the NIC's thread has to wake.
    by_engine: AtomicU32,
    /// While a thread slept, the NIC's thread has stopped looking at VIs from time to time.
    unlisted: AtomicBool,
    /// For how long it has paid to spin.
    budget: Budget,
    /// The members are armed: their senders wake the engine.
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

impl<V: Member> CqCore<V> {
    pub(crate) fn new(nic: Arc<Card>, capacity: u32, context: u64) -> CqCore<V> {
        let budget = nic.spin.budget();
        CqCore {
            nic,
            context,
            capacity: AtomicU32::new(capacity),
            held: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
            entries: Lock::new(Entries::default()),
            members: Lock::new(Members::default()),
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

    /// A work queue is attached; `receiving`: the receive queue of `core`.
    pub(crate) fn join(&self, core: Option<&Arc<V>>) {
        self.attached.fetch_add(1, Ordering::SeqCst);
        if let Some(core) = core {
            self.members.lock().join(core);
            self.members_changed();
        }
    }

    /// A VI is no more; called for each of its queues that is attached.
    pub(crate) fn leave(&self, core: &Arc<V>) {
        self.attached.fetch_sub(1, Ordering::SeqCst);
        self.members.lock().leave(core);
        self.members_changed();
    }

    /// A VI whose receive queue is attached is connected.
    pub(crate) fn connected(&self, core: &Arc<V>, attachment: &Arc<Attachment>) {
        self.members.lock().connected(core, attachment);
        self.members_changed();
    }

    /// A VI whose receive queue is attached is connected no more.
    pub(crate) fn disconnected(&self, core: &V, attachment: &Attachment) {
        self.members.lock().disconnected(core, attachment);
        self.members_changed();
    }

    pub(crate) fn looks(&self) -> u32 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Whether the NIC's thread has to see to its VIs: for a callback or a signal that waits, or for a
    /// thread that senders cannot wake.
    pub(crate) fn is_awaited(&self) -> bool {
        self.by_engine.load(Ordering::SeqCst) > 0 || self.entries.lock().are_awaited()
    }

    /// Whether senders wake a thread that sleeps on it, so that the NIC's thread need not look at its VIs
    /// from time to time. If so, the sleeper has them looked at again when it is awake.
    pub(crate) fn sleeps_by_itself(&self) -> bool {
        let asleep = || {
            let (all, by_engine) = (&self.sleepers, &self.by_engine);
            all.load(Ordering::SeqCst) > by_engine.load(Ordering::SeqCst)
        };
        if !asleep() {
            return false;
        }
        // SYNC: pairs with `wait`, which counts itself out and then looks whether it is to do this: either
        // it finds this, or it is not seen asleep here.
        self.unlisted.store(true, Ordering::SeqCst);
        asleep()
    }

    /// A VI was armed by the NIC's thread, since its program did not look.
    pub(crate) fn was_armed(&self) {
        self.armed.store(1, Ordering::Relaxed);
    }

    /// A descriptor is done. A call of its own: most work queues have no completion queue, and this would make
    /// their receives longer.
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
        let mut members = self.members.lock();
        // What callbacks wait for is theirs, even if this thread is the first to see it.
        let mine = self.wanted.load(Ordering::Relaxed) == 0;
        let found = members.find(|core| {
            if core.receive_for_cq(mine) {
                return Look::Found(CqEntry {
                    context: core.context(),
                    queue: WorkQueueKind::Recv,
                });
            }
            self.pop().map_or(Look::Nothing, Look::Found)
        });
        if found.is_some() {
            members.polls = 0;
            return found;
        }
        // Only the thread that has the members counts, so a plain step is enough.
        let looks = self.looks.load(Ordering::Relaxed).wrapping_add(1);
        self.looks.store(looks, Ordering::Relaxed);
        if self.armed.load(Ordering::Relaxed) != 0 {
            members.polls += 1;
            if members.polls >= POLLS {
                members.polls = 0;
                self.armed.store(0, Ordering::Relaxed);
                members.vis.iter().for_each(|core| core.disarm());
            }
        }
        if looks.is_multiple_of(TURN) {
            let staged = |core: &&Arc<V>| core.has_staged();
            let targets: Vec<_> = members.vis.iter().filter(staged).cloned().collect();
            // Others may look meanwhile.
            drop(members);
            targets.iter().for_each(|core| core.serve());
        }
        None
    }

    /// No thread looks any more: senders are to wake the engine.
    fn arm(&self) {
        let vis = self.members.lock().vis.clone();
        self.armed.store(1, Ordering::Relaxed);
        vis.iter().for_each(|core| core.arm());
    }

    /// The program sleeps instead of looking, and senders wake it: they need not wake the engine too.
    fn disarm(&self) {
        if self.armed.load(Ordering::Relaxed) != 0 && !self.entries.lock().are_awaited() {
            self.armed.store(0, Ordering::Relaxed);
            let vis = self.members.lock().vis.clone();
            vis.iter().for_each(|core| core.disarm());
        }
    }

    /// How many entries it has room for.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Makes room for so many entries.
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

    /// Has the next entry handed to `callback`; one that is there already, at once.
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

    /// Has `signal` called at the next entry; at once if there is one.
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

    /// Whether a work queue is attached.
    pub(crate) fn in_use(&self) -> bool {
        self.attached.load(Ordering::SeqCst) > 0
    }

    /// Forgets the callbacks and signals that wait.
    pub(crate) fn cancel(&self) {
        // Not under the lock: a callback may hold a VI, whose end leaves entries here.
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
