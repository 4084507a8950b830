//! Notifications when a descriptor is done: an entry in a completion queue, or a callback.

use crate::card::Card;
use crate::completion::{CqCore, Overrun};
use crate::vi::inner::Core;
use std::collections::VecDeque;
use std::sync::Arc;
use via::cq::{CqEntry, WorkQueueKind};
use via::event::ViCallback;
use via::queue::{Done, WorkQueue};

/// The completion queue and the callbacks that are notified of a work queue's completions.
pub(crate) struct Notices {
    pub(crate) cq: Option<Arc<CqCore<Core>>>,
    entry: CqEntry,
    /// `Some` once the program has asked for a callback.
    #[expect(clippy::box_collection, reason = "most queues have none, and there are many queues")]
    callbacks: Option<Box<VecDeque<ViCallback>>>,
    /// Set if there is a completion queue or a waiting callback.
    wanted: bool,
}

impl core::fmt::Debug for Notices {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Notices").field("entry", &self.entry).finish_non_exhaustive()
    }
}

impl Notices {
    pub(crate) fn new(
        cq: Option<Arc<CqCore<Core>>>,
        context: u64,
        queue: WorkQueueKind,
    ) -> Notices {
        let wanted = cq.is_some();
        let entry = CqEntry { context, queue };
        Notices { cq, entry, callbacks: None, wanted }
    }

    /// Returns true if callbacks wait for completions.
    pub(crate) fn has_callbacks(&self) -> bool {
        self.callbacks.as_ref().is_some_and(|callbacks| !callbacks.is_empty())
    }

    /// Notifies the completion queue or callbacks that the oldest outstanding descriptor of `work` is done.
    #[inline]
    pub(crate) fn completed(&mut self, work: &mut WorkQueue, nic: &Card) -> Result<(), Overrun> {
        if self.wanted { self.pass_on(work, nic) } else { Ok(()) }
    }

    /// Notifies the completion queue of a descriptor that the program took at once.
    #[inline]
    pub(crate) fn passed(&mut self) -> Result<(), Overrun> {
        if self.wanted { self.enter() } else { Ok(()) }
    }

    #[inline(never)]
    fn pass_on(&mut self, work: &mut WorkQueue, nic: &Card) -> Result<(), Overrun> {
        let entered = self.enter();
        while self.has_callbacks()
            && let Done::Completion(completion) = work.take()
            && let Some(callback) = self.callbacks.as_mut().and_then(|all| all.pop_front())
        {
            nic.run(Box::new(move || callback(completion)));
        }
        self.wanted = self.cq.is_some() || self.has_callbacks();
        entered
    }

    #[inline]
    fn enter(&mut self) -> Result<(), Overrun> {
        let Some(cq) = &self.cq else { return Ok(()) };
        cq.push(self.entry)
    }

    /// Registers `callback`, which the NIC's callback thread calls with the next completion. If a completed
    /// descriptor already waits in `work`, the thread calls `callback` with this descriptor's completion at once.
    pub(crate) fn notify(&mut self, work: &mut WorkQueue, nic: &Card, callback: ViCallback) {
        if let Done::Completion(completion) = work.take() {
            nic.run(Box::new(move || callback(completion)));
        } else {
            self.callbacks.get_or_insert_default().push_back(callback);
            self.wanted = true;
        }
    }
}
