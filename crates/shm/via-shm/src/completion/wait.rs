//! Waits for an entry: spins for a while, then sleeps.

use super::sleep::Announced;
use super::{CqCore, CqVi};
use crate::patience::{Deadline, LOOKS, NAP_MAX, deadline, left};
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use sovia_sys::{Errno, clock, futex};
use via::cq::CqEntry;
use via::error::WaitError;

impl<V: CqVi> CqCore<V> {
    /// Waits for the next entry.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Result<CqEntry, WaitError> {
        for _ in 0..LOOKS {
            if let Some(entry) = self.done() {
                return Ok(entry);
            }
            core::hint::spin_loop();
        }
        let (start, until) = (clock::now_ns(), deadline(timeout));
        if self.attached_vis.lock().may_spin() {
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
        // SYNC: pairs with `push`, which stores the number of entries and then loads `sleepers`.
        fence(Ordering::SeqCst);
        self.disarm();
        let entry = self.sleep(until);
        let last = self.sleepers.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && self.unlisted.swap(false, Ordering::SeqCst) {
            let vis = self.attached_vis.lock().vis.clone();
            self.nic
                .hub
                .engine
                .list_all(vis.iter().filter_map(|core| core.to_be_listed()).collect());
        }
        let entry = entry.ok_or(WaitError::Timeout)?;
        self.budget.learn(clock::now_ns() - start, true);
        Ok(entry)
    }

    /// Sleeps until there is an entry, or the deadline has passed.
    fn sleep(&self, until: Deadline) -> Option<CqEntry> {
        loop {
            let seen = self.word.load(Ordering::SeqCst);
            // Under the lock of `attached_vis` no VI is added. A VI that is added later changes `word`.
            let announced = Announced::to(&self.attached_vis.lock());
            let Some(announced) = announced else { return self.sleep_by_engine(until) };
            if let Some(entry) = self.done() {
                return Some(entry);
            }
            let time = left(until).unwrap_or(NAP_MAX).min(NAP_MAX);
            if time == 0 {
                return None;
            }
            match announced.sleep(&self.word, seen, time) {
                // Look at every VI, because a peer may have corrupted the bits by which the queue finds VIs with
                // messages.
                Err(Errno::ETIMEDOUT) => self.attached_vis.lock().suspect_all(),
                Err(Errno::ENOSYS) => {
                    drop(announced);
                    return self.sleep_by_engine(until);
                }
                _ => {}
            }
        }
    }

    /// Like [`CqCore::sleep`], but senders wake the engine, which adds the entries and wakes this thread.
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
                self.attached_vis.lock().suspect_all();
            }
        };
        self.by_engine.fetch_sub(1, Ordering::SeqCst);
        entry
    }
}
