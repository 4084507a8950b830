//! The completion queue type of a program.

use crate::driver::Driver;
use crate::ids::CqId;
use core::time::Duration;
use via::cq::{CqCallback, CqSignal, Watch};
use via::error::{CqError, WaitError};
use via::{CompletionQueue, CqEntry};

/// A completion queue of a NIC in software.
#[derive(Debug)]
pub struct SoftCq<D: Driver> {
    driver: D,
    pub(crate) id: CqId,
    entries_max: u32,
}

impl<D: Driver> SoftCq<D> {
    pub(crate) fn new(driver: D, id: CqId, entries_max: u32) -> SoftCq<D> {
        SoftCq { driver, id, entries_max }
    }
}

impl<D: Driver> CompletionQueue for SoftCq<D> {
    fn capacity(&self) -> u32 {
        self.driver.with(|world| world.cqs.get(&self.id).map_or(0, |cq| cq.capacity))
    }

    fn resize(&self, entries: u32) -> Result<(), CqError> {
        self.driver.with(|world| {
            let cq = world.cqs.get_mut(&self.id).ok_or(CqError::Entries)?;
            if entries == 0 || entries > self.entries_max || (entries as usize) < cq.entries.len() {
                return Err(CqError::Entries);
            }
            cq.capacity = entries;
            Ok(())
        })
    }

    fn done(&self) -> Option<CqEntry> {
        self.driver.look(|world| world.cqs.get_mut(&self.id)?.entries.pop_front())
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<CqEntry, WaitError> {
        let deadline = self.driver.deadline(timeout);
        let entry =
            self.driver.wait(deadline, |world| world.cqs.get_mut(&self.id)?.entries.pop_front());
        entry.ok_or(WaitError::Timeout)
    }

    fn notify(&self, callback: CqCallback) {
        self.driver.with(|world| {
            let callback = world.registrations.add(callback);
            if let Some(cq) = world.cqs.get_mut(&self.id) {
                cq.notify.push_back(callback);
                world.hand_out_entries(self.id);
            }
        });
    }

    fn signal(&self, signal: CqSignal) {
        self.driver.with(|world| {
            let signal = world.registrations.add(signal);
            if let Some(cq) = world.cqs.get_mut(&self.id) {
                cq.signals.push(signal);
                world.hand_out_entries(self.id);
            }
        });
    }

    fn watch(&self) -> Option<Watch> {
        self.driver.watch(|world| world.cqs.get(&self.id).is_some_and(|cq| !cq.entries.is_empty()))
    }

    fn awake(&self, ready: [bool; 3]) {
        self.driver.awake(ready);
    }

    fn in_use(&self) -> bool {
        self.driver.with(|world| world.cqs.get(&self.id).is_some_and(|cq| cq.attached > 0))
    }

    fn destroy(self) -> Result<(), Self> {
        if self.in_use() { Err(self) } else { Ok(()) }
    }
}

impl<D: Driver> Drop for SoftCq<D> {
    fn drop(&mut self) {
        self.driver.with(|world| {
            if let Some(cq) = world.cqs.get_mut(&self.id) {
                cq.dropped = true;
            }
            world.free_cq(self.id);
        });
    }
}
