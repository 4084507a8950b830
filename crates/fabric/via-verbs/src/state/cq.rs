//! Completion queues: entries for work queues with completed descriptors.

use crate::slot::lock;
use crate::state::{Card, ViShared, ring};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, Weak};
use via::CqEntry;
use via::cq::{CqCallback, CqSignal};

pub(crate) struct Entries {
    pub(crate) entries: VecDeque<CqEntry>,
    pub(crate) capacity: u32,
    pub(crate) notify: VecDeque<CqCallback>,
    pub(crate) signals: Vec<CqSignal>,
    pub(crate) sleepers: u32,
    pub(crate) watched: Watched,
}

/// State of the thread that watches the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    /// No thread watches.
    Not,
    /// The thread is awake: it checks for an entry before it sleeps, or has found one.
    Awake,
    /// The thread sleeps, and must be woken when the queue gets an entry.
    Asleep,
}

/// The part of a completion queue that its handle and its VIs share.
pub(crate) struct CqShared {
    pub(crate) card: Arc<Card>,
    pub(crate) context: u64,
    pub(crate) inner: Mutex<Entries>,
    pub(crate) news: Condvar,
    wanted: AtomicBool,
    /// Number of attached work queues.
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
                watched: Watched::Not,
            }),
            news: Condvar::new(),
            wanted: AtomicBool::new(false),
            attached: AtomicU32::new(0),
            vis: Mutex::default(),
        }
    }

    /// Returns true if a thread, a callback or a signal waits for an entry.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Adds an entry. Returns false if the queue is full.
    pub(crate) fn enter(&self, entry: CqEntry) -> bool {
        let inner = &mut *lock(&self.inner);
        if inner.entries.len() >= inner.capacity as usize {
            return false;
        }
        inner.entries.push_back(entry);
        self.hand_out(inner);
        if inner.watched == Watched::Asleep && !inner.entries.is_empty() {
            inner.watched = Watched::Awake;
            ring(&self.card.kick);
        }
        self.news.notify_all();
        true
    }

    /// Returns true if the queue belongs to this NIC.
    pub(crate) fn is_of(&self, card: &Arc<Card>) -> bool {
        Arc::ptr_eq(&self.card, card)
    }

    /// Attaches a work queue of this VI.
    pub(crate) fn attach(&self, vi: &Arc<ViShared>) {
        self.attached.fetch_add(1, Ordering::Relaxed);
        let mut vis = lock(&self.vis);
        vis.retain(|vi| vi.strong_count() > 0);
        if !vis.iter().any(|known| known.as_ptr() == Arc::as_ptr(vi)) {
            vis.push(Arc::downgrade(vi));
        }
    }

    pub(crate) fn hand_out(&self, inner: &mut Entries) {
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

    pub(crate) fn note(&self, inner: &Entries) {
        let wanted = inner.sleepers > 0
            || inner.watched != Watched::Not
            || !inner.notify.is_empty()
            || !inner.signals.is_empty();
        self.wanted.store(wanted, Ordering::SeqCst);
    }

    /// Changes the state of the watching thread. Returns true if a thread was watching before.
    pub(crate) fn watched(&self, watched: Watched) -> bool {
        let inner = &mut *lock(&self.inner);
        let was = core::mem::replace(&mut inner.watched, watched);
        self.note(inner);
        was != Watched::Not
    }

    /// Records that the watching thread goes to sleep. Returns false if there is an entry.
    pub(crate) fn watcher_sleeps(&self) -> bool {
        let inner = &mut *lock(&self.inner);
        let sleeps = inner.entries.is_empty();
        if sleeps {
            inner.watched = Watched::Asleep;
        }
        sleeps
    }

    pub(crate) fn take(&self) -> Option<CqEntry> {
        lock(&self.inner).entries.pop_front()
    }
}
