//! A VI's state, and how its descriptors are done.

use crate::access::Access;
use crate::engine::send::Started;
use crate::ids::{CqId, ViId};
use crate::meeting::Attempt;
use crate::nic::NicShared;
use crate::world::{Timer, World};
use sovia_link::wire::EndId;
use std::collections::VecDeque;
use std::sync::Arc;
use via::error::{Cause, ConnectError, PostError};
use via::event::ViCallback;
use via::queue::{Outcome, WorkQueue};
use via::{
    CqEntry, DescriptorAddress, Done, Ptag, Reliability, ViAttributes, ViState, WorkQueueKind,
};

/// A VI.
#[derive(Debug)]
pub(crate) struct ViCore {
    pub(crate) nic: Arc<NicShared>,
    pub(crate) context: u64,
    /// The tag is always named.
    pub(crate) attributes: ViAttributes,
    pub(crate) ptag: Ptag,
    pub(crate) state: ViState,
    pub(crate) cause: Option<Cause>,
    /// Its end of a connection; there too while an acceptance is not settled.
    pub(crate) conn: Option<EndId>,
    pub(crate) send: Workqueue,
    pub(crate) recv: Workqueue,
    /// Posted sends that nobody has looked at yet.
    pub(crate) waiting: VecDeque<DescriptorAddress>,
    /// Sends that are under way, in order.
    pub(crate) started: VecDeque<Started>,
    pub(crate) attempt: Option<Attempt>,
    /// What has become of the last attempt, until it is asked for.
    pub(crate) outcome: Option<Result<ViAttributes, ConnectError>>,
    /// A doorbell is on its way.
    pub(crate) rung: bool,
    /// The program has been told that a completion queue ran over.
    pub(crate) overrun: bool,
}

/// A work queue with those who want to hear from it.
#[derive(Default)]
pub(crate) struct Notify(pub(crate) VecDeque<ViCallback>);

impl core::fmt::Debug for Notify {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} callbacks", self.0.len())
    }
}

/// A work queue, the completion queue that it is attached to, and who is to be called.
#[derive(Debug)]
pub(crate) struct Workqueue {
    pub(crate) work: WorkQueue,
    pub(crate) cq: Option<CqId>,
    pub(crate) notify: Notify,
}

impl Workqueue {
    pub(crate) fn new(capacity: u32, cq: Option<CqId>) -> Workqueue {
        Workqueue { work: WorkQueue::new(capacity), cq, notify: Notify::default() }
    }
}

impl ViCore {
    pub(crate) fn queue(&mut self, kind: WorkQueueKind) -> &mut Workqueue {
        match kind {
            WorkQueueKind::Send => &mut self.send,
            WorkQueueKind::Recv => &mut self.recv,
        }
    }

    pub(crate) fn access(&self) -> Access<'_> {
        Access { table: &self.nic.table, pins: &self.nic.pins, ptag: self.ptag }
    }

    pub(crate) fn is_reliable(&self) -> bool {
        self.attributes.reliability != Reliability::UNRELIABLE
    }
}

impl World {
    /// Posts a descriptor.
    ///
    /// # Errors
    /// [`PostError`].
    pub(crate) fn post(
        &mut self,
        id: ViId,
        kind: WorkQueueKind,
        at: DescriptorAddress,
    ) -> Result<(), PostError> {
        let Some(vi) = self.vis.get_mut(&id) else { return Ok(()) };
        let sends = matches!(vi.state, ViState::Connected | ViState::Error);
        if kind == WorkQueueKind::Send && !sends {
            return Err(PostError::State(vi.state));
        }
        vi.access().descriptor(at, |_| ()).ok_or(PostError::Descriptor)?;
        vi.queue(kind).work.post(at).map_err(|_| PostError::QueueFull)?;
        vi.access().descriptor(at, |descriptor| descriptor.clear_status());
        match (vi.state, kind) {
            (ViState::Error, _) => self.flush(id, kind),
            (_, WorkQueueKind::Recv) => {}
            (_, WorkQueueKind::Send) => {
                vi.waiting.push_back(at);
                if !core::mem::replace(&mut vi.rung, true) {
                    self.net.set_timer(self.net.now(), Timer::Doorbell(id));
                }
            }
        }
        Ok(())
    }

    /// The oldest descriptor of a queue is done.
    pub(crate) fn complete(&mut self, id: ViId, kind: WorkQueueKind, mut outcome: Outcome) {
        let Some(vi) = self.vis.get_mut(&id) else { return };
        let Some(at) = vi.queue(kind).work.front() else { return };
        if kind == WorkQueueKind::Recv {
            outcome.status |= via::Status::OP_RECEIVE;
        }
        vi.access().complete(at, &outcome);
        let context = vi.context;
        let queue = vi.queue(kind);
        queue.work.complete(outcome);
        let cq = queue.cq;
        let Outcome { status, length, .. } = outcome;
        self.net.note(&[id.0, kind as u64, status.bits().into(), length.into()]);
        self.news = true;
        self.hand_out(id, kind);
        if let Some(cq) = cq {
            self.enter(cq, CqEntry { context, queue: kind }, id);
        }
    }

    /// Gives descriptors that are done to callbacks that want them.
    pub(crate) fn hand_out(&mut self, id: ViId, kind: WorkQueueKind) {
        loop {
            let Some(vi) = self.vis.get_mut(&id) else { return };
            let nic = vi.nic.clone();
            let queue = vi.queue(kind);
            if queue.notify.0.is_empty() {
                return;
            }
            let Done::Completion(completion) = queue.work.take() else { return };
            if let Some(callback) = queue.notify.0.pop_front() {
                self.run_later(&nic, Box::new(move || callback(completion)));
            }
        }
    }
}
