//! Completion queues: entries of queues whose descriptors are done.

use crate::card::Card;
use crate::core::ViShared;
use crate::slot::{lock, sleep};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::Instant;
use via::cq::{CqCallback, CqSignal};
use via::error::{CqError, WaitError};
use via::{CompletionQueue, CqEntry};

/// How long a thread looks before it sleeps.
pub(crate) const SPIN: Duration = Duration::from_micros(50);

struct Entries {
    entries: VecDeque<CqEntry>,
    capacity: u32,
    notify: VecDeque<CqCallback>,
    signals: Vec<CqSignal>,
    sleepers: u32,
}

/// A completion queue, as its handle and its VIs have it.
pub(crate) struct CqShared {
    card: Arc<Card>,
    pub(crate) context: u64,
    inner: Mutex<Entries>,
    news: Condvar,
    wanted: AtomicBool,
    /// Work queues that are attached.
    pub(crate) attached: AtomicU32,
    pub(crate) vis: Mutex<Vec<Weak<ViShared>>>,
}

impl core::fmt::Debug for CqShared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cq").field("context", &self.context).finish_non_exhaustive()
    }
}

impl CqShared {
    pub(crate) fn new(card: Arc<Card>, capacity: u32, context: u64) -> CqShared {
        CqShared {
            card,
            context,
            inner: Mutex::new(Entries {
                entries: VecDeque::new(),
                capacity,
                notify: VecDeque::new(),
                signals: Vec::new(),
                sleepers: 0,
            }),
            news: Condvar::new(),
            wanted: AtomicBool::new(false),
            attached: AtomicU32::new(0),
            vis: Mutex::default(),
        }
    }

    /// Whether a thread, a callback or a signal waits for an entry.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Takes an entry in; false if there is no room.
    pub(crate) fn enter(&self, entry: CqEntry) -> bool {
        let inner = &mut *lock(&self.inner);
        if inner.entries.len() >= inner.capacity as usize {
            return false;
        }
        inner.entries.push_back(entry);
        self.hand_out(inner);
        self.news.notify_all();
        true
    }

    /// Whether it is of that NIC.
    pub(crate) fn is_of(&self, card: &Arc<Card>) -> bool {
        Arc::ptr_eq(&self.card, card)
    }

    /// A work queue of that VI is attached.
    pub(crate) fn attach(&self, vi: &Arc<ViShared>) {
        self.attached.fetch_add(1, Ordering::Relaxed);
        let mut vis = lock(&self.vis);
        vis.retain(|vi| vi.strong_count() > 0);
        if !vis.iter().any(|known| known.as_ptr() == Arc::as_ptr(vi)) {
            vis.push(Arc::downgrade(vi));
        }
    }

    fn hand_out(&self, inner: &mut Entries) {
        while !inner.notify.is_empty()
            && let Some(entry) = inner.entries.pop_front()
            && let Some(callback) = inner.notify.pop_front()
        {
            self.card.dispatcher.run(Box::new(move || callback(entry)));
        }
        if !inner.entries.is_empty() {
            inner.signals.drain(..).for_each(|signal| signal());
        }
        self.note(inner);
    }

    fn note(&self, inner: &Entries) {
        let wanted = inner.sleepers > 0 || !inner.notify.is_empty() || !inner.signals.is_empty();
        self.wanted.store(wanted, Ordering::SeqCst);
    }

    /// Polls the VIs that are attached, and has them tell of what comes if that is wanted.
    fn look(&self) {
        let wanted = self.is_wanted();
        for vi in lock(&self.vis).iter().filter_map(Weak::upgrade) {
            let core = &mut *lock(&vi.core);
            core.looks = core.looks.wrapping_add(1);
            if wanted { vi.arm(core) } else { vi.poll(core) }
        }
    }

    fn take(&self) -> Option<CqEntry> {
        lock(&self.inner).entries.pop_front()
    }
}

/// A completion queue of a NIC for RDMA.
#[derive(Debug)]
pub struct VerbsCq(pub(crate) Arc<CqShared>);

impl CompletionQueue for VerbsCq {
    fn capacity(&self) -> u32 {
        lock(&self.0.inner).capacity
    }

    fn resize(&self, entries: u32) -> Result<(), CqError> {
        let inner = &mut *lock(&self.0.inner);
        let max = self.0.card.attributes.max_cq_entries;
        if entries == 0 || entries > max || (entries as usize) < inner.entries.len() {
            return Err(CqError::Entries);
        }
        inner.capacity = entries;
        Ok(())
    }

    fn done(&self) -> Option<CqEntry> {
        self.0.take().or_else(|| {
            self.0.look();
            self.0.take()
        })
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<CqEntry, WaitError> {
        let begin = Instant::now();
        let until = timeout.map(|timeout| begin + timeout);
        loop {
            if let Some(entry) = self.done() {
                return Ok(entry);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Err(WaitError::Timeout);
            }
            if begin.elapsed() > SPIN {
                break;
            }
            core::hint::spin_loop();
        }
        {
            let inner = &mut *lock(&self.0.inner);
            inner.sleepers += 1;
            self.0.note(inner);
        }
        self.0.look();
        let mut inner = lock(&self.0.inner);
        let found = loop {
            if let Some(entry) = inner.entries.pop_front() {
                break Ok(entry);
            }
            let woken;
            (inner, woken) = sleep(&self.0.news, inner, until);
            if !woken {
                break inner.entries.pop_front().ok_or(WaitError::Timeout);
            }
        };
        inner.sleepers -= 1;
        self.0.note(&inner);
        found
    }

    fn notify(&self, callback: CqCallback) {
        {
            let inner = &mut *lock(&self.0.inner);
            inner.notify.push_back(callback);
            self.0.hand_out(inner);
        }
        self.0.look();
    }

    fn signal(&self, signal: CqSignal) {
        {
            let inner = &mut *lock(&self.0.inner);
            inner.signals.push(signal);
            self.0.hand_out(inner);
        }
        self.0.look();
    }

    fn in_use(&self) -> bool {
        self.0.attached.load(Ordering::Relaxed) > 0
    }

    fn destroy(self) -> Result<(), Self> {
        if self.in_use() { Err(self) } else { Ok(()) }
    }
}

impl Drop for VerbsCq {
    fn drop(&mut self) {
        self.0.card.cq_count.fetch_sub(1, Ordering::Relaxed);
        let inner = &mut *lock(&self.0.inner);
        let (notify, signals) =
            (core::mem::take(&mut inner.notify), core::mem::take(&mut inner.signals));
        self.0.note(inner);
        // What a callback holds on to may want locks when it is dropped.
        self.0.card.dispatcher.run(Box::new(move || drop((notify, signals))));
    }
}
