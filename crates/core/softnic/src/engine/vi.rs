//! Posting and completing a VI's descriptors.

use crate::ids::ViId;
use crate::medium::{Medium, Purpose, Timer};
use crate::registered::Registered;
use crate::world::World;
use via::error::PostError;
use via::queue::Outcome;
use via::{CqEntry, DescriptorAddress, Done, ViState, WorkQueueKind};

impl<M: Medium> World<M> {
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
                    self.net.set_timer(self.net.now(), Timer(Purpose::Doorbell(id)));
                }
            }
        }
        Ok(())
    }

    /// Completes the oldest descriptor of a queue.
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

    /// Passes completed descriptors to waiting callbacks.
    pub(crate) fn hand_out(&mut self, id: ViId, kind: WorkQueueKind) {
        loop {
            let Some(vi) = self.vis.get_mut(&id) else { return };
            if vi.queue(kind).notify.0.is_empty() {
                return;
            }
            let nic = vi.nic.clone();
            let queue = vi.queue(kind);
            let Done::Completion(completion) = queue.work.take() else { return };
            if let Some(callback) = queue.notify.0.pop_front().map(Registered::end) {
                self.run_later(&nic, Box::new(move || callback(completion)));
            }
        }
    }
}
