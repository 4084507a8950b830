//! Completion queues of the shared-memory NIC, as programs have them.

use crate::card::Card;
use crate::completion::CqCore;
use crate::vi::inner::Core;
use core::time::Duration;
use std::sync::Arc;
use via::CompletionQueue;
use via::cq::{CqCallback, CqEntry, CqSignal};
use via::error::{CqError, WaitError};

/// A completion queue of the shared-memory NIC.
#[derive(Debug)]
pub struct ShmCq(pub(crate) Arc<CqCore<Core>>);

impl ShmCq {
    /// A new completion queue.
    pub(crate) fn create(card: &Arc<Card>, entries: u32, context: u64) -> Result<ShmCq, CqError> {
        if entries == 0 || entries > card.attributes.max_cq_entries {
            return Err(CqError::Entries);
        }
        card.cq_made()?;
        Ok(ShmCq(Arc::new(CqCore::new(card.clone(), entries, context))))
    }
}

impl CompletionQueue for ShmCq {
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }

    fn resize(&self, entries: u32) -> Result<(), CqError> {
        self.0.resize(entries)
    }

    #[inline]
    fn done(&self) -> Option<CqEntry> {
        self.0.done()
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<CqEntry, WaitError> {
        self.0.wait(timeout)
    }

    fn notify(&self, callback: CqCallback) {
        self.0.notify(callback);
    }

    fn signal(&self, signal: CqSignal) {
        self.0.signal(signal);
    }

    fn in_use(&self) -> bool {
        self.0.in_use()
    }

    fn destroy(self) -> Result<(), Self> {
        if self.in_use() { Err(self) } else { Ok(()) }
    }
}

impl Drop for ShmCq {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
