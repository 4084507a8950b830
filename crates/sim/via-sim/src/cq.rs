//! The completion queue, as a program has it.

use crate::ids::CqId;
use crate::network::Shared;
use core::time::Duration;
use std::sync::Arc;
use via::cq::{CqCallback, CqSignal};
use via::error::{CqError, WaitError};
use via::{CompletionQueue, CqEntry};

/// A completion queue of a simulated NIC.
#[derive(Debug)]
pub struct SimCq {
    shared: Arc<Shared>,
    pub(crate) id: CqId,
    entries_max: u32,
}

impl SimCq {
    pub(crate) fn new(shared: Arc<Shared>, id: CqId, entries_max: u32) -> SimCq {
        SimCq { shared, id, entries_max }
    }
}

impl CompletionQueue for SimCq {
    fn capacity(&self) -> u32 {
        self.shared.with(|world| world.cqs.get(&self.id).map_or(0, |cq| cq.capacity))
    }

    fn resize(&self, entries: u32) -> Result<(), CqError> {
        self.shared.with(|world| {
            let cq = world.cqs.get_mut(&self.id).ok_or(CqError::Entries)?;
            if entries == 0 || entries > self.entries_max || (entries as usize) < cq.entries.len() {
                return Err(CqError::Entries);
            }
            cq.capacity = entries;
            Ok(())
        })
    }

    fn done(&self) -> Option<CqEntry> {
        self.shared.with(|world| world.cqs.get_mut(&self.id)?.entries.pop_front())
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<CqEntry, WaitError> {
        let deadline = self.shared.deadline(timeout);
        let entry =
            self.shared.wait(deadline, |world| world.cqs.get_mut(&self.id)?.entries.pop_front());
        entry.ok_or(WaitError::Timeout)
    }

    fn notify(&self, callback: CqCallback) {
        self.shared.with(|world| {
            if let Some(cq) = world.cqs.get_mut(&self.id) {
                cq.notify.push_back(callback);
                world.hand_out_entries(self.id);
            }
        });
    }

    fn signal(&self, signal: CqSignal) {
        self.shared.with(|world| {
            if let Some(cq) = world.cqs.get_mut(&self.id) {
                cq.signals.push(signal);
                world.hand_out_entries(self.id);
            }
        });
    }

    fn in_use(&self) -> bool {
        self.shared.with(|world| world.cqs.get(&self.id).is_some_and(|cq| cq.attached > 0))
    }

    fn destroy(self) -> Result<(), Self> {
        if self.in_use() { Err(self) } else { Ok(()) }
    }
}

impl Drop for SimCq {
    fn drop(&mut self) {
        self.shared.with(|world| {
            if let Some(cq) = world.cqs.get_mut(&self.id) {
                cq.dropped = true;
            }
            world.free_cq(self.id);
        });
    }
}
