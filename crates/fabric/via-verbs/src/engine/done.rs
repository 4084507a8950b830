//! Reports completions of the device to the program.

use crate::access::Keyed;
use crate::engine::{First, RECEIVE};
use crate::state::{Core, Started, ViShared};
use crate::wire::Closing;
use sovia_verbs::Completion as Ended;
use sovia_verbs::RegisteredMemory;
use sovia_verbs::completion::Batch;
use sovia_verbs::sys::value;
use via::descriptor::Segments;
use via::error::Cause;
use via::queue::Outcome;
use via::{AsyncError, CqEntry, DescriptorAddress, Done, Status, ViState, WorkQueueKind};

impl ViShared {
    /// Takes and handles the device's completions.
    #[inline]
    pub(crate) fn poll(&self, core: &mut Core) {
        if let Some(link) = &core.link {
            let mut batch = Batch::new();
            link.pair.cq().poll(&mut batch);
            if !batch.is_empty() {
                self.take(core, &mut batch);
            }
        }
        if core.send.next().is_some() {
            self.feed_sends(core);
        }
        self.settle(core);
    }

    /// Handles the batch, and all further completions of the device. Separate from `poll`, to keep `poll` short: it
    /// usually finds nothing.
    #[inline(never)]
    fn take(&self, core: &mut Core, batch: &mut Batch) {
        loop {
            for ended in &*batch {
                // After an error, later completions are flushed with the connection.
                if core.link.is_none() {
                    return;
                }
                if ended.name == RECEIVE {
                    self.received(core, &ended);
                } else {
                    self.sent(core, &ended);
                }
            }
            let Some(link) = core.link.as_ref().filter(|_| batch.is_full()) else { return };
            link.pair.cq().poll(batch);
        }
    }

    fn received(&self, core: &mut Core, ended: &Ended) {
        if ended.status.0 == value::IBV_WC_WR_FLUSH_ERR {
            // The pair has failed. The peer reports the reason.
            return;
        }
        let (Some(started), Some(at)) = (core.recv.started.pop_front(), core.recv.work.front())
        else {
            return;
        };
        if ended.status.0 == value::IBV_WC_SUCCESS
            && !ended.is_remote_write
            && started.failed.is_none()
            && started.copy.is_none()
        {
            let Ended { length, immediate, .. } = *ended;
            let outcome = Outcome { status: Status::OP_RECEIVE, length, immediate };
            if core.access(&self.card).complete(at, &outcome) {
                if let Some(link) = &mut core.link {
                    link.received = link.received.wrapping_add(1);
                }
                return self.completed(core, WorkQueueKind::Recv, outcome);
            }
        }
        self.received_otherwise(core, ended, started, at);
    }

    /// Slow path of [`ViShared::received`]: a receive that is not simple, or has ended in an error.
    #[inline(never)]
    fn received_otherwise(
        &self,
        core: &mut Core,
        ended: &Ended,
        started: Started,
        at: DescriptorAddress,
    ) {
        let mut operation = Status::OP_RECEIVE;
        if ended.is_remote_write {
            operation |= Status::OP_RDMA_WRITE;
        }
        let mut error = match ended.status.0 {
            value::IBV_WC_SUCCESS => started.failed,
            value::IBV_WC_LOC_LEN_ERR | value::IBV_WC_REM_INV_REQ_ERR => Some(Status::LENGTH_ERROR),
            // The rxe driver reports this status for every receive that cannot take its message.
            value::IBV_WC_LOC_QP_OP_ERR
                if started.failed.is_none() && self.is_usable(core, at, WorkQueueKind::Recv) =>
            {
                Some(Status::LENGTH_ERROR)
            }
            _ => Some(started.failed.unwrap_or(Status::PROTECTION_ERROR)),
        };
        if let (None, Some(copied), false) = (error, &started.copy, ended.is_remote_write) {
            let (copy, data) = &**copied;
            let mut bytes = vec![0; ended.length as usize];
            copy.memory().read(0, &mut bytes);
            error = core.access(&self.card).scatter(data, &bytes).err();
        }
        if error.is_none() {
            let Ended { length, immediate, .. } = *ended;
            let outcome = Outcome { status: operation, length, immediate };
            if core.access(&self.card).complete(at, &outcome) {
                if let Some(link) = &mut core.link {
                    link.received = link.received.wrapping_add(1);
                }
                return self.completed(core, WorkQueueKind::Recv, outcome);
            }
        }
        // Without such an error, the descriptor's own memory is gone.
        let status = error.unwrap_or(Status::PROTECTION_ERROR);
        self.complete(core, WorkQueueKind::Recv, Outcome::error(operation | status));
        self.broken(core, Cause::Descriptor(status), Some(Closing::Broke), First::Flushed, true);
    }

    /// Returns true if a descriptor of the queue `queue` may use all of its memory.
    #[cold]
    fn is_usable(&self, core: &mut Core, at: DescriptorAddress, queue: WorkQueueKind) -> bool {
        let mut access = core.access(&self.card);
        let loaded = access.load(at, queue);
        loaded.is_ok_and(|work| access.keyed(&work.data, &mut Keyed::new()).is_ok())
    }

    fn sent(&self, core: &mut Core, ended: &Ended) {
        if ended.status.0 == value::IBV_WC_WR_FLUSH_ERR {
            return;
        }
        if ended.status.0 == value::IBV_WC_SUCCESS {
            self.sent_well(core);
            return;
        }
        let is_read =
            core.send.started.front().is_some_and(|it| it.operation == Status::OP_RDMA_READ);
        let immediate = core.send.started.front().is_some_and(|it| it.consumes);
        let denied = match (is_read, immediate) {
            (true, _) => Closing::ReadDenied,
            (false, true) => Closing::WriteWithImmediateDenied,
            (false, false) => Closing::WriteDenied,
        };
        let (status, cause, closing) = match ended.status.0 {
            value::IBV_WC_RNR_RETRY_EXC_ERR => {
                (Status::TRANSPORT_ERROR, Cause::ReceiveQueueEmpty, Closing::NoReceive)
            }
            value::IBV_WC_REM_ACCESS_ERR => {
                let status = Status::RDMA_PROT_ERROR;
                (status, Cause::Descriptor(status), denied)
            }
            value::IBV_WC_REM_INV_REQ_ERR | value::IBV_WC_REM_OP_ERR => {
                (Status::TRANSPORT_ERROR, Cause::PeerBroke, Closing::Broke)
            }
            value::IBV_WC_RETRY_EXC_ERR => {
                (Status::TRANSPORT_ERROR, Cause::PeerDied, Closing::Broke)
            }
            value::IBV_WC_LOC_LEN_ERR => {
                let status = Status::LENGTH_ERROR;
                (status, Cause::Descriptor(status), Closing::Broke)
            }
            value::IBV_WC_LOC_PROT_ERR | value::IBV_WC_LOC_ACCESS_ERR => {
                let status = Status::PROTECTION_ERROR;
                (status, Cause::Descriptor(status), Closing::Broke)
            }
            // The device cannot send, usually because its link is down.
            _ => {
                let status = Status::TRANSPORT_ERROR;
                (status, Cause::Descriptor(status), Closing::Broke)
            }
        };
        self.broken(core, cause, Some(closing), First::In(status), true);
    }

    /// Completes the oldest send of the device without an error.
    #[inline]
    pub(super) fn sent_well(&self, core: &mut Core) {
        let Some(started) = core.send.started.pop_front() else { return };
        let Started { operation, length, consumes, .. } = started;
        if let (true, Some(link)) = (consumes, &mut core.link) {
            link.sent = link.sent.wrapping_add(1);
        }
        let mut outcome = Outcome { status: operation, length, immediate: None };
        if let Some(copied) = &started.copy
            && operation == Status::OP_RDMA_READ
            && let Err(status) = self.read_copy(core, copied, length)
        {
            outcome = Outcome::error(operation | status);
        }
        if let Some(at) = core.send.work.front() {
            core.access(&self.card).complete(at, &outcome);
            self.completed(core, WorkQueueKind::Send, outcome);
        }
        self.finish_sends(core);
    }

    /// Copies the bytes of an RDMA read from the temporary memory to the descriptor's segments.
    ///
    /// # Errors
    /// The status with which the descriptor ends.
    #[cold]
    fn read_copy(
        &self,
        core: &mut Core,
        (copy, data): &(RegisteredMemory, Segments),
        length: u32,
    ) -> Result<(), Status> {
        let mut bytes = vec![0; length as usize];
        copy.memory().read(0, &mut bytes);
        core.access(&self.card).scatter(data, &bytes)
    }

    /// Ends the oldest send, if it had failed before the device got it.
    #[inline]
    pub(super) fn finish_sends(&self, core: &mut Core) {
        if let Some(status) = core.send.started.front().and_then(|first| first.failed) {
            self.failed(core, status);
        }
    }

    /// Ends the oldest send with `status`, and breaks the connection.
    #[cold]
    fn failed(&self, core: &mut Core, status: Status) {
        let cause = Cause::Descriptor(status);
        self.broken(core, cause, Some(Closing::Broke), First::In(status), true);
    }

    /// Completes the oldest descriptor of a queue, and writes the outcome into the descriptor.
    pub(super) fn complete(&self, core: &mut Core, kind: WorkQueueKind, outcome: Outcome) {
        let Some(at) = core.queue(kind).work.front() else { return };
        core.access(&self.card).complete(at, &outcome);
        self.completed(core, kind, outcome);
    }

    /// Completes the oldest descriptor of a queue. The descriptor has its outcome already.
    #[inline(always)]
    fn completed(&self, core: &mut Core, kind: WorkQueueKind, outcome: Outcome) {
        let queue = core.queue(kind);
        queue.work.complete(outcome);
        if !queue.notify.is_empty() || queue.cq.is_some() {
            self.tell(core, kind);
        }
    }

    /// Notifies threads, callbacks and the completion queue that wait for this queue.
    #[inline(never)]
    fn tell(&self, core: &mut Core, kind: WorkQueueKind) {
        self.hand_out(core, kind);
        if let Some(cq) = core.queue(kind).cq.clone()
            && !cq.enter(CqEntry { context: self.context, queue: kind })
        {
            if !core::mem::replace(&mut core.overrun, true) {
                let error = AsyncError::of_vi(self.context, Cause::CqOverrun.code());
                let resource = via::Resource::Cq;
                self.card.report(AsyncError { cq: Some(cq.context), resource, ..error });
            }
            core.has_overrun = true;
        }
    }

    /// Passes completed descriptors to waiting callbacks.
    pub(crate) fn hand_out(&self, core: &mut Core, kind: WorkQueueKind) {
        let queue = core.queue(kind);
        while !queue.notify.is_empty() {
            let Done::Completion(completion) = queue.work.take() else { return };
            if let Some(callback) = queue.notify.pop_front() {
                self.card.dispatcher.run(Box::new(move || callback(completion)));
            }
        }
    }

    /// Breaks the connection of a VI whose completion queue has overflowed.
    pub(super) fn settle(&self, core: &mut Core) {
        if core::mem::take(&mut core.has_overrun) && core.state == ViState::Connected {
            self.broken(core, Cause::CqOverrun, Some(Closing::Broke), First::Flushed, false);
        }
    }
}
