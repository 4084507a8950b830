//! Entries of completion queues.

use crate::ids::{CqId, ViId};
use crate::medium::Medium;
use crate::registered::Registered;
use crate::world::World;
use via::error::Cause;
use via::event::Job;
use via::{AsyncError, CqEntry, Resource};

impl<M: Medium> World<M> {
    /// Adds an entry for a completed descriptor of a VI. If the queue is full, reports an error and breaks the
    /// connection, because the program would wait for an entry that never comes.
    pub(crate) fn enter(&mut self, id: CqId, entry: CqEntry, vi: ViId) {
        let Some(cq) = self.cqs.get_mut(&id) else { return };
        if cq.entries.len() < cq.capacity as usize {
            cq.entries.push_back(entry);
            self.hand_out_entries(id);
            return;
        }
        let (nic, cq) = (cq.nic.clone(), cq.context);
        let Some(core) = self.vis.get_mut(&vi) else { return };
        // Flushing a broken VI adds more entries that find no room, so report only the first.
        if !core::mem::replace(&mut core.overrun, true) {
            let error = AsyncError::of_vi(core.context, Cause::CqOverrun.code());
            let error = AsyncError { cq: Some(cq), resource: Resource::Cq, ..error };
            self.report(&nic, error);
        }
        self.break_quietly(vi, Cause::CqOverrun);
    }

    /// Passes entries to waiting callbacks, and runs signals if entries are left.
    pub(crate) fn hand_out_entries(&mut self, id: CqId) {
        let Some(cq) = self.cqs.get_mut(&id) else { return };
        let nic = cq.nic.clone();
        let mut jobs: Vec<Job> = Vec::new();
        while !cq.notify.is_empty()
            && let Some(entry) = cq.entries.pop_front()
            && let Some(callback) = cq.notify.pop_front().map(Registered::end)
        {
            jobs.push(Box::new(move || callback(entry)));
        }
        if !cq.entries.is_empty() {
            cq.signals.drain(..).for_each(|signal| signal.end()());
        }
        jobs.into_iter().for_each(|job| self.run_later(&nic, job));
    }

    /// Detaches a work queue. Frees the completion queue if the program has dropped it and no work queue is left.
    pub(crate) fn detach(&mut self, id: CqId) {
        let Some(cq) = self.cqs.get_mut(&id) else { return };
        cq.attached -= 1;
        self.free_cq(id);
    }

    /// Frees a completion queue that the program has dropped and that no VI uses.
    pub(crate) fn free_cq(&mut self, id: CqId) {
        if !self.cqs.get(&id).is_some_and(|cq| cq.dropped && cq.attached == 0) {
            return;
        }
        if let Some(cq) = self.cqs.remove(&id) {
            cq.nic.cqs.fetch_sub(1, core::sync::atomic::Ordering::Relaxed);
            // Drop the callbacks later, without the lock: their destructors may take it.
            let nic = cq.nic.clone();
            self.run_later(&nic, Box::new(move || drop(cq)));
        }
    }
}
