//! The end of a connection, whichever side brings it about.

use crate::ids::ViId;
use crate::medium::Medium;
use crate::world::{Progress, Started, World};
use sovia_link::wire::{Closing, EndId};
use via::error::{Cause, ConnectError};
use via::queue::Outcome;
use via::state::{Event, IllegalTransition};
use via::{AsyncError, ErrorCode, Status, ViState, WorkQueueKind};

/// What the end of a connection does to the sends that are under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// They are flushed.
    Flush,
    /// The one with that last item ends in that error, the others are flushed.
    Number(u64, Status),
    /// The first that is not done ends in that error, the others are flushed.
    First(Status),
}

impl<M: Medium> World<M> {
    /// An error of this end breaks the connection: the program is told, and the peer if there is
    /// something to tell.
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

    /// Breaks a connection whose breaking has been reported already.
    pub(crate) fn break_quietly(&mut self, id: ViId, cause: Cause) {
        self.broken(id, cause, Ended::Flush);
    }

    /// The VI is in state ERROR from now on.
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

    /// The peer has ended the connection. Its end is gone by now.
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

    /// Packets are not answered any more.
    pub(crate) fn hopeless(&mut self, id: EndId) {
        let Some(conn) = self.conns.remove(&id) else { return };
        if let Some(vi) = conn.vi {
            self.lost(vi, Cause::PeerDied, Ended::First(Status::TRANSPORT_ERROR));
        }
    }

    /// The other end does not exist any more.
    pub(crate) fn peer_gone(&mut self, id: EndId, from: M::Node) {
        match self.conns.get(&id) {
            // Whether a connection that is not settled has come about, the answer's fate tells.
            Some(conn) if conn.peer_node == from && conn.unsettled.is_none() => self.hopeless(id),
            _ => self.counters.strangers += 1,
        }
    }

    /// The connection is lost, not by this end's doing.
    fn lost(&mut self, id: ViId, cause: Cause, ended: Ended) {
        let Some(vi) = self.vis.get(&id).filter(|vi| vi.state == ViState::Connected) else {
            return;
        };
        let (nic, context) = (vi.nic.clone(), vi.context);
        self.report(&nic, AsyncError::of_vi(context, ErrorCode::ConnLost));
        self.broken(id, cause, ended);
    }

    /// The program disconnects.
    pub(crate) fn disconnect(&mut self, id: ViId) {
        let Some(vi) = self.vis.get_mut(&id) else { return };
        vi.cause = None;
        vi.overrun = false;
        let conn = vi.conn.take();
        if vi.attempt.is_some() {
            let error = IllegalTransition { state: ViState::Idle, event: Event::Accepted };
            self.finish(id, Err(ConnectError::State(error)));
        } else {
            // Possible in every state.
            vi.state = vi.state.after(Event::Disconnect).unwrap_or(ViState::Idle);
        }
        if let Some(conn) = conn {
            self.close(conn, Closing::Disconnected);
        }
        self.news = true;
        self.flush_sends(id, Ended::Flush);
        self.flush(id, WorkQueueKind::Recv);
    }

    /// Sends that have been acknowledged are done well, the rest badly.
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

    /// Whatever is not done is done with.
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
