//! Ends connections, and the descriptors on them.

use crate::slot::lock;
use crate::state::{Core, Job, Link, ViShared};
use crate::wire::{Answer, Closing, Question};
use via::error::Cause;
use via::queue::Outcome;
use via::{AsyncError, ErrorCode, Status, ViState, WorkQueueKind};

/// Result of the first incomplete send when its connection ends.
#[derive(Clone, Copy)]
pub(crate) enum First {
    /// Flushed like the other sends.
    Flushed,
    /// Ends with this error.
    In(Status),
}

impl Core {
    /// Records that no device has the posted receives any more.
    pub(crate) fn recv_restart(&mut self) {
        self.recv.started.clear();
    }
}

impl ViShared {
    /// Breaks the connection and puts the VI into state ERROR. Notifies the peer if `closing` is given.
    pub(crate) fn broken(
        &self,
        core: &mut Core,
        cause: Cause,
        closing: Option<Closing>,
        first: First,
        report: bool,
    ) {
        if core.state != ViState::Connected {
            return;
        }
        if report {
            // If a message found no receive, the receiver's side reports that error. Here the program gets "connection
            // lost".
            let told = matches!(closing, Some(Closing::NoReceive));
            let code = if told { ErrorCode::ConnLost } else { cause.code() };
            self.card.report(AsyncError::of_vi(self.context, code));
        }
        core.state = ViState::Error;
        core.cause = Some(cause);
        self.unlink(core, closing);
        self.flush_sends(core, first);
        self.flush(core, WorkQueueKind::Recv);
        self.news.notify_all();
    }

    /// Destroys the queue pair. After this call the device uses no memory of the VI.
    pub(super) fn unlink(&self, core: &mut Core, closing: Option<Closing>) {
        let Some(link) = core.link.take() else { return };
        let Link { pair, name, peer, token, received, .. } = link;
        drop(pair);
        let tell = closing.map(|closing| (peer, Question::Close { token, closing, received }));
        self.card.job(Job::Close { name, tell });
    }

    /// Handles the peer's report that the connection with this token ends.
    pub(crate) fn told(&self, token: u64, closing: Closing, received: u32) {
        let core = &mut *lock(&self.core);
        if !core.has(token) || core.state != ViState::Connected {
            return;
        }
        self.poll(core);
        // Messages that the peer has received were sent successfully, even if the pair ended before their
        // acknowledgement.
        while let Some(link) = &core.link
            && link.sent != received
            && received.wrapping_sub(link.sent) < 1 << 31
            && core.send.started.front().is_some_and(|it| it.operation != Status::OP_RDMA_READ)
        {
            self.sent_well(core);
        }
        if closing == Closing::WriteWithImmediateDenied && core.recv.work.front().is_some() {
            core.recv.started.pop_front();
            let status = Status::OP_REMOTE_RDMA_WRITE | Status::RDMA_PROT_ERROR;
            self.complete(core, WorkQueueKind::Recv, Outcome::error(status));
        }
        let cause = match closing {
            Closing::Disconnected => Cause::PeerDisconnected,
            Closing::Broke => Cause::PeerBroke,
            Closing::NoReceive => Cause::ReceiveQueueEmpty,
            Closing::WriteDenied | Closing::WriteWithImmediateDenied => {
                Cause::Rdma(ErrorCode::RdmawProt)
            }
            Closing::ReadDenied => Cause::Rdma(ErrorCode::RdmarProt),
        };
        self.broken(core, cause, None, First::Flushed, true);
    }

    /// Handles the end of a connection without a report of the peer.
    pub(crate) fn lost(&self, name: u64) {
        let core = &mut *lock(&self.core);
        if core.link.as_ref().is_some_and(|link| link.name == name) {
            self.poll(core);
            self.broken(core, Cause::PeerDied, None, First::In(Status::TRANSPORT_ERROR), true);
        }
    }

    /// Handles the peer's question for a key. A question for a key that the peer may not have ends the connection.
    pub(crate) fn asked(
        &self,
        token: u64,
        handle: u32,
        range: (u64, u32),
        write: bool,
        immediate: bool,
    ) -> Answer {
        let (ptag, allowed, sent) = {
            let core = lock(&self.core);
            let (ViState::Connected, true, Some(link)) = (core.state, core.has(token), &core.link)
            else {
                // The peer is being notified of the reason.
                return Answer::Heard;
            };
            let attributes = &core.attributes;
            let allowed =
                if write { attributes.enable_rdma_write } else { attributes.enable_rdma_read };
            (core.ptag, allowed, link.sent)
        };
        if let (true, Some(key)) = (allowed, self.card.regions.remote(ptag, handle, range, write)) {
            return Answer::Key(key);
        }
        let closing = match (write, immediate) {
            (false, _) => Closing::ReadDenied,
            (true, false) => Closing::WriteDenied,
            (true, true) => Closing::WriteWithImmediateDenied,
        };
        self.told(token, closing, sent);
        Answer::Denied
    }

    /// Ends all sends: the first incomplete one as `first` says, and the others as flushed.
    pub(super) fn flush_sends(&self, core: &mut Core, first: First) {
        let mut first = match first {
            First::In(status) => Some(status),
            First::Flushed => None,
        };
        while let Some(at) = core.send.work.front() {
            let operation = match core.send.started.pop_front() {
                Some(started) => started.operation,
                None => core
                    .access(&self.card)
                    .load(at, WorkQueueKind::Send)
                    .map_or(Status::OP_SEND, |it| it.operation()),
            };
            let status = first.take().unwrap_or(Status::DESC_FLUSHED_ERROR);
            self.complete(core, WorkQueueKind::Send, Outcome::error(operation | status));
        }
        core.send.started.clear();
    }

    /// Flushes the incomplete descriptors of a queue.
    pub(super) fn flush(&self, core: &mut Core, kind: WorkQueueKind) {
        if kind == WorkQueueKind::Send {
            return self.flush_sends(core, First::Flushed);
        }
        core.recv.started.clear();
        while core.recv.work.front().is_some() {
            let outcome = Outcome::error(Status::OP_RECEIVE | Status::DESC_FLUSHED_ERROR);
            self.complete(core, WorkQueueKind::Recv, outcome);
        }
    }

    /// Disconnects for the program, after all possible sends.
    pub(crate) fn end(&self, core: &mut Core) {
        core.state = ViState::Idle;
        core.cause = None;
        core.overrun = false;
        core.has_overrun = false;
        self.unlink(core, Some(Closing::Disconnected));
        self.flush_sends(core, First::Flushed);
        self.flush(core, WorkQueueKind::Recv);
        core.has_overrun = false;
        self.news.notify_all();
    }

    /// Undoes a failed attempt to connect. Posted receives stay.
    pub(crate) fn unmade(&self, core: &mut Core) {
        core.link = None;
        core.recv.started.clear();
        core.state = ViState::Idle;
        core.attempt = None;
    }
}
