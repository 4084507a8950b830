//! Completion queues of the shared-memory NIC.
//!
//! A send queue's entries are made when its sends are done. A receive queue's descriptors are done
//! when a thread looks for messages, so a completion queue looks: at each of its VIs while they are
//! few, which costs what looking at them one after the other would; when they are many, at the
//! bits that senders set for it in the segment, so that its cost is by the VIs with news. A message
//! that is found there is handed out as an entry at once, and received when the program takes the
//! descriptor: in this way an entry costs little more than the message.
//!
//! Lock order: members, then a VI's queue, then entries.

mod members;
mod sleep;

use crate::bias::Lock;
use crate::connect::link::Attachment;
use crate::connect::{Deadline, left};
use crate::nic::Shared;
use crate::vi::inner::Core;
use crate::vi::{Budget, LOOKS, NAP_MAX, Overrun, deadline};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use core::time::Duration;
use members::{Look, Members};
use sleep::Announced;
use sovia_sys::{Errno, clock, futex};
use std::collections::VecDeque;
use std::sync::Arc;
use via::cq::{CqCallback, CqEntry, CqSignal, WorkQueueKind};
use via::error::{CqError, WaitError};
use via::{AsyncError, CompletionQueue, Control, ErrorCode, Resource};

/// Looks in vain after which a program is taken to poll.
const POLLS: u32 = 64;
/// Looks from one turn to carry out RDMAs of peers to the next.
const TURN: u32 = 64;

/// A completion queue of the shared-memory NIC.
///
/// ```
/// use via::{Attach, CompletionQueue, CqEntry, MemAttributes, Memory, Nic, Vi, ViAttributes, WorkQueueKind};
/// use via_shm::ShmNic;
///
/// # let nic = ShmNic::open("example-cq")?;
/// # let at = |end: &[u8]| nic.address(end);
/// let queue = nic.create_cq(64, 0)?;
/// // What either VI receives leaves an entry with the VI's number.
/// let vi = |context| {
///     let attach = Attach { recv: Some(&queue), context, ..Attach::default() };
///     nic.create_vi_with(ViAttributes::default(), attach)
/// };
/// let (first, second) = (vi(1)?, vi(2)?);
/// # first.connect_peer_request(&at(b"1"), &at(b"2"), None)?;
/// # second.connect_peer_request(&at(b"2"), &at(b"1"), None)?;
/// # (first.connect_peer_wait()?, second.connect_peer_wait()?);
/// # let memory = Memory::zeroed(4096);
/// # let handle = nic.register_mem(&memory, MemAttributes::default())?;
/// # let descriptor = |at| {
/// #     memory.descriptor(at).unwrap().prepare(&[], Some(5)).unwrap();
/// #     via::DescriptorAddress { address: memory.address(at), handle }
/// # };
/// second.post_recv(descriptor(0))?;
/// first.post_send(descriptor(64))?;
///
/// assert_eq!(queue.wait(None)?, CqEntry { context: 2, queue: WorkQueueKind::Recv });
/// let done = second.recv_done().completion().expect("there is an entry for it");
/// # assert_eq!(done.immediate, Some(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ShmCq(pub(crate) Arc<CqCore>);

/// What a completion queue is made of.
#[derive(Debug)]
pub(crate) struct CqCore {
    nic: Arc<Shared>,
    context: u64,
    capacity: AtomicU32,
    /// Entries in the queue, to be looked at without its lock.
    held: AtomicU32,
    /// Callbacks that wait for entries, likewise.
    wanted: AtomicU32,
    entries: Lock<Entries>,
    members: Lock<Members>,
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

impl CqCore {
    fn new(nic: Arc<Shared>, capacity: u32, context: u64) -> CqCore {
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
            budget: Budget::default(),
            armed: AtomicU32::new(0),
        }
    }

    /// A work queue is attached; `receiving`: the receive queue of `core`.
    pub(crate) fn join(&self, core: Option<&Arc<Core>>) {
        self.attached.fetch_add(1, Ordering::SeqCst);
        if let Some(core) = core {
            self.members.lock().join(core);
            self.members_changed();
        }
    }

    /// A VI is no more; called for each of its queues that is attached.
    pub(crate) fn leave(&self, core: &Arc<Core>) {
        self.attached.fetch_sub(1, Ordering::SeqCst);
        self.members.lock().leave(core);
        self.members_changed();
    }

    /// A VI whose receive queue is attached is connected.
    pub(crate) fn connected(&self, core: &Arc<Core>, attachment: &Arc<Attachment>) {
        self.members.lock().connected(core, attachment);
        self.members_changed();
    }

    /// A VI whose receive queue is attached is connected no more.
    pub(crate) fn disconnected(&self, core: &Core, attachment: &Attachment) {
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

    /// A descriptor is done.
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
    fn done(&self) -> Option<CqEntry> {
        if let Some(entry) = self.pop() {
            return Some(entry);
        }
        let mut members = self.members.lock();
        // What callbacks wait for is theirs, even if this thread is the first to see it.
        let mine = self.wanted.load(Ordering::Relaxed) == 0;
        let found = members.find(|core| {
            if core.receive_for_cq(mine) {
                return Look::Found(CqEntry { context: core.context, queue: WorkQueueKind::Recv });
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
            let staged = |core: &&Arc<Core>| core.has_staged();
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

    fn wait(&self, timeout: Option<Duration>) -> Result<CqEntry, WaitError> {
        for _ in 0..LOOKS {
            if let Some(entry) = self.done() {
                return Ok(entry);
            }
            core::hint::spin_loop();
        }
        let (start, until) = (clock::now_ns(), deadline(timeout));
        if self.members.lock().may_spin() {
            let spin = start + self.budget.get();
            let spin = until.map_or(spin, |until| until.min(spin));
            while clock::now_ns() < spin {
                for _ in 0..LOOKS {
                    if let Some(entry) = self.done() {
                        self.budget.learn(0, false);
                        return Ok(entry);
                    }
                    core::hint::spin_loop();
                }
            }
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        // SYNC: pairs with `push`, which stores the count of entries and then looks for sleepers.
        fence(Ordering::SeqCst);
        self.disarm();
        let entry = self.sleep(until);
        let last = self.sleepers.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && self.unlisted.swap(false, Ordering::SeqCst) {
            let vis = self.members.lock().vis.clone();
            self.nic
                .hub
                .engine
                .list_all(vis.iter().filter_map(|core| core.to_be_listed()).collect());
        }
        let entry = entry.ok_or(WaitError::Timeout)?;
        self.budget.learn(clock::now_ns() - start, true);
        Ok(entry)
    }

    /// Sleeps until there is an entry, or the time is over.
    fn sleep(&self, until: Deadline) -> Option<CqEntry> {
        loop {
            let seen = self.word.load(Ordering::SeqCst);
            // Under the lock it is clear which VIs there are; one that comes later changes the word.
            let announced = Announced::to(&self.members.lock());
            let Some(announced) = announced else { return self.sleep_by_engine(until) };
            if let Some(entry) = self.done() {
                return Some(entry);
            }
            let time = left(until).unwrap_or(NAP_MAX).min(NAP_MAX);
            if time == 0 {
                return None;
            }
            match announced.sleep(&self.word, seen, time) {
                // A peer may have spoilt the bits by which its VIs are found.
                Err(Errno::ETIMEDOUT) => self.members.lock().suspect_all(),
                Err(Errno::ENOSYS) => {
                    drop(announced);
                    return self.sleep_by_engine(until);
                }
                _ => {}
            }
        }
    }

    /// As [`CqCore::sleep`], where senders wake the NIC's thread, which makes the entries.
    fn sleep_by_engine(&self, until: Deadline) -> Option<CqEntry> {
        self.by_engine.fetch_add(1, Ordering::SeqCst);
        self.arm();
        let entry = loop {
            let seen = self.word.load(Ordering::SeqCst);
            let entry = self.done();
            let time = left(until).unwrap_or(NAP_MAX).min(NAP_MAX);
            if entry.is_some() || time == 0 {
                break entry;
            }
            if futex::wait(&self.word, seen, Some(time)) == Err(Errno::ETIMEDOUT) {
                self.members.lock().suspect_all();
            }
        };
        self.by_engine.fetch_sub(1, Ordering::SeqCst);
        entry
    }
}

impl Drop for CqCore {
    fn drop(&mut self) {
        self.nic.cq_gone();
    }
}

impl Shared {
    /// A new completion queue.
    pub(crate) fn create_cq(
        self: &Arc<Self>,
        entries: u32,
        context: u64,
    ) -> Result<ShmCq, CqError> {
        if entries == 0 || entries > self.attributes.max_cq_entries {
            return Err(CqError::Entries);
        }
        self.cq_made()?;
        Ok(ShmCq(Arc::new(CqCore::new(self.clone(), entries, context))))
    }
}

impl CompletionQueue for ShmCq {
    fn capacity(&self) -> u32 {
        self.0.capacity.load(Ordering::Relaxed)
    }

    fn resize(&self, entries: u32) -> Result<(), CqError> {
        if entries == 0 || entries > self.0.nic.attributes.max_cq_entries {
            return Err(CqError::Entries);
        }
        let held = self.0.entries.lock();
        if held.queue.len() > entries as usize {
            return Err(CqError::Entries);
        }
        self.0.capacity.store(entries, Ordering::Relaxed);
        Ok(())
    }

    #[inline]
    fn done(&self) -> Option<CqEntry> {
        self.0.done()
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<CqEntry, WaitError> {
        self.0.wait(timeout)
    }

    fn notify(&self, callback: CqCallback) {
        let mut entries = self.0.entries.lock();
        if let Some(entry) = entries.queue.pop_front() {
            self.0.held.store(entries.queue.len() as u32, Ordering::SeqCst);
            drop(entries);
            self.0.nic.run(Box::new(move || callback(entry)));
            return;
        }
        entries.callbacks.push_back(callback);
        self.0.wanted.store(entries.callbacks.len() as u32, Ordering::Relaxed);
        drop(entries);
        self.0.arm();
    }

    fn signal(&self, signal: CqSignal) {
        let mut entries = self.0.entries.lock();
        if !entries.queue.is_empty() {
            drop(entries);
            signal();
            return;
        }
        entries.signals.push(signal);
        drop(entries);
        self.0.arm();
    }

    fn in_use(&self) -> bool {
        self.0.attached.load(Ordering::SeqCst) > 0
    }

    fn destroy(self) -> Result<(), Self> {
        if self.in_use() { Err(self) } else { Ok(()) }
    }
}

impl Drop for ShmCq {
    fn drop(&mut self) {
        // Not under the lock: a callback may hold a VI, whose end leaves entries here.
        let mut entries = self.0.entries.lock();
        let cancelled =
            (core::mem::take(&mut entries.callbacks), core::mem::take(&mut entries.signals));
        drop(entries);
        drop(cancelled);
    }
}
