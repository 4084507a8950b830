//! The end of a connection, by either side.

use crate::ids::ViId;
use crate::medium::Medium;
use crate::world::{Progress, Started, World};
use sovia_link::wire::{Closing, EndId};
use via::error::{Cause, ConnectError};
use via::queue::Outcome;
use via::state::{Event, IllegalTransition};
use via::{AsyncError, ErrorCode, Status, ViState, WorkQueueKind};

/// Effect of a connection's end on sends in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All sends are flushed.
    Flush,
    /// The send whose last item has this number ends in this error. The others are flushed.
    Number(u64, Status),
    /// The first unfinished send ends in this error. The others are flushed.
    First(Status),
}

impl<M: Medium> World<M> {
    /// Breaks a connection after an error of this end. Reports the error to the program, and to the peer if `closing`
    /// is given.
    pub(crate) fn break_vi(&mut self, id: ViId, cause: Cause, closing: Option<Closing>) {
        let Some(vi) = self.vis.get(&id).filter(|vi| vi.state == ViState::Connected) else {
            return;
        };
        let (nic, error) = (vi.nic.clone(), AsyncError::of_vi(vi.context, cause.code()));
        if let (Some(conn), Some(closing)) = (vi.conn, closing) {
            self.close(conn, closing);
        }
        self.report(&nic, error);
        self.break_quietly(id, cause);
    }

    /// Breaks a connection without a report, because the error has been reported already.
    pub(crate) fn break_quietly(&mut self, id: ViId, cause: Cause) {
        self.broken(id, cause, Ended::Flush);
    }

    /// Puts the VI into state ERROR.
    fn broken(&mut self, id: ViId, cause: Cause, ended: Ended) {
        let Some(vi) = self.vis.get_mut(&id).filter(|vi| vi.state == ViState::Connected) else {
            return;
        };
        vi.state = ViState::Error;
        vi.cause = Some(cause);
        if let Some(conn) = vi.conn.take()
            && self.conns.get(&conn).is_some_and(|conn| conn.vi.is_some())
        {
            self.close(conn, Closing::Broke);
        }
        self.news = true;
        self.flush_sends(id, ended);
        self.flush(id, WorkQueueKind::Recv);
    }

    /// Processes the end of a connection by the peer. The connection's end has been removed before.
    pub(crate) fn closed_by_peer(&mut self, id: ViId, closing: Closing) {
        let (cause, ended) = match closing {
            Closing::Disconnected => (Cause::PeerDisconnected, Ended::Flush),
            Closing::Broke => (Cause::PeerBroke, Ended::Flush),
            Closing::NoReceive(number) => {
                (Cause::ReceiveQueueEmpty, Ended::Number(number, Status::TRANSPORT_ERROR))
            }
            Closing::BadReceive(number) => {
                (Cause::RemoteDescriptor, Ended::Number(number, Status::REMOTE_DESC_ERROR))
            }
            Closing::RdmaDenied(number) => {
                let status = Status::RDMA_PROT_ERROR;
                (Cause::Descriptor(status), Ended::Number(number, status))
            }
        };
        self.lost(id, cause, ended);
    }

    /// Ends a connection whose peer does not answer any more.
    pub(crate) fn hopeless(&mut self, id: EndId) {
        let Some(conn) = self.conns.remove(&id) else { return };
        if let Some(vi) = conn.vi {
            self.lost(vi, Cause::PeerDied, Ended::First(Status::TRANSPORT_ERROR));
        }
    }

    /// Processes the report that the peer's end does not exist.
    pub(crate) fn peer_gone(&mut self, id: EndId, from: M::Node) {
        match self.conns.get(&id) {
            // Ignore it for an unsettled connection: only the fate of the answer tells whether that connection exists.
            Some(conn) if conn.peer_node == from && conn.unsettled.is_none() => self.hopeless(id),
            _ => self.counters.strangers += 1,
        }
    }

    /// Ends a connection that was lost without a cause at this end.
    fn lost(&mut self, id: ViId, cause: Cause, ended: Ended) {
        let Some(vi) = self.vis.get(&id).filter(|vi| vi.state == ViState::Connected) else {
            return;
        };
        let (nic, context) = (vi.nic.clone(), vi.context);
        self.report(&nic, AsyncError::of_vi(context, ErrorCode::ConnLost));
        self.broken(id, cause, ended);
    }

    /// Disconnects a VI for the program.
    pub(crate) fn disconnect(&mut self, id: ViId) {
        let Some(vi) = self.vis.get_mut(&id) else { return };
        vi.cause = None;
        vi.overrun = false;
        let conn = vi.conn.take();
        if vi.attempt.is_some() {
            let error = IllegalTransition { state: ViState::Idle, event: Event::Accepted };
            self.finish(id, Err(ConnectError::State(error)));
        } else {
            // Every state allows this event.
            vi.state = vi.state.after(Event::Disconnect).unwrap_or(ViState::Idle);
        }
        if let Some(conn) = conn {
            self.close(conn, Closing::Disconnected);
        }
        self.news = true;
        self.flush_sends(id, Ended::Flush);
        self.flush(id, WorkQueueKind::Recv);
    }

    /// Completes all sends: acknowledged ones successfully, the others with an error.
    fn flush_sends(&mut self, id: ViId, ended: Ended) {
        let Some(vi) = self.vis.get_mut(&id) else { return };
        vi.waiting.clear();
        let mut first = true;
        for Started { last, operation, length, progress, .. } in core::mem::take(&mut vi.started) {
            let error = match (progress, ended) {
                (Progress::Done, _) => None,
                (Progress::Failed(status), _) => Some(status),
                (_, Ended::Number(number, status)) if last == number => Some(status),
                (_, Ended::First(status)) if first => Some(status),
                _ => Some(Status::DESC_FLUSHED_ERROR),
            };
            first &= error.is_none();
            let outcome = match error {
                None => Outcome { status: operation, length, immediate: None },
                Some(status) => Outcome::error(operation | status),
            };
            self.complete(id, WorkQueueKind::Send, outcome);
        }
        self.flush(id, WorkQueueKind::Send);
    }

    /// Flushes all descriptors that are not done.
    pub(crate) fn flush(&mut self, id: ViId, kind: WorkQueueKind) {
        while let Some(vi) = self.vis.get_mut(&id)
            && let Some(at) = vi.queue(kind).work.front()
        {
            let operation = match kind {
                WorkQueueKind::Send => self.posted_operation(id, at),
                WorkQueueKind::Recv => Status::OP_RECEIVE,
            };
            let outcome = Outcome::error(operation | Status::DESC_FLUSHED_ERROR);
            self.complete(id, kind, outcome);
        }
    }
}
