//! Completion queues, for programs.

use crate::slot::{SPIN, after, lock, sleep};
use crate::state::{CqShared, Watched, Watching, hush, ring};
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::{Arc, Weak};
use std::time::Instant;
use via::cq::{CqCallback, CqSignal, Watch};
use via::error::{CqError, WaitError};
use via::{CompletionQueue, CqEntry};

/// Polls the attached VIs. Arms them if a thread, callback or signal waits for an entry.
fn look(cq: &CqShared) {
    let wanted = cq.is_wanted();
    for vi in lock(&cq.vis).iter().filter_map(Weak::upgrade) {
        let core = &mut *lock(&vi.core);
        vi.looks.count();
        if wanted { vi.arm(core) } else { vi.poll(core) }
    }
}

/// A completion queue of an RDMA NIC.
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
            look(&self.0);
            self.0.take()
        })
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<CqEntry, WaitError> {
        let begin = Instant::now();
        let until = after(timeout);
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
        self.0.card.turn(Watching::sleeper);
        {
            let inner = &mut *lock(&self.0.inner);
            inner.sleepers += 1;
            self.0.note(inner);
        }
        look(&self.0);
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
        drop(inner);
        lock(&self.0.card.watching).no_sleeper();
        found
    }

    fn notify(&self, callback: CqCallback) {
        {
            let inner = &mut *lock(&self.0.inner);
            inner.notify.push_back(callback);
            self.0.hand_out(inner);
        }
        look(&self.0);
    }

    fn signal(&self, signal: CqSignal) {
        {
            let inner = &mut *lock(&self.0.inner);
            inner.signals.push(signal);
            self.0.hand_out(inner);
        }
        look(&self.0);
    }

    fn watch(&self) -> Option<Watch> {
        let card = &self.0.card;
        let begins = lock(&card.watching).begin(Arc::as_ptr(&self.0).addr())?;
        if begins.wakes {
            ring(&card.bell);
        }
        if begins.arms {
            card.arm_all();
        }
        self.0.watched(Watched::Awake);
        look(&self.0);
        let until = if self.0.watcher_sleeps() { None } else { Some(0) };
        Some(Watch { descriptors: [card.channel.descriptor(), card.kick.raw(), -1], until })
    }

    fn awake(&self, [has_news, is_kicked, _]: [bool; 3]) {
        let card = &self.0.card;
        if !self.0.watched(Watched::Not) {
            return;
        }
        if is_kicked {
            hush(&card.kick);
        }
        if has_news {
            card.news().for_each(|vi| vi.stirred_for(&self.0));
        }
        card.turn(Watching::end);
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
        if self.0.watched(Watched::Not) {
            self.0.card.turn(Watching::end);
        }
        self.0.card.cq_count.fetch_sub(1, Ordering::Relaxed);
        let inner = &mut *lock(&self.0.inner);
        let (notify, signals) =
            (core::mem::take(&mut inner.notify), core::mem::take(&mut inner.signals));
        self.0.note(inner);
        // Drops the callbacks on another thread: their captured values may take locks when they are dropped.
        self.0.card.dispatcher.run(Box::new(move || drop((notify, signals))));
    }
}
