//! Ends sends that cannot execute. A send fails, an unreliable message is dropped, or all sends are flushed.

use super::{Obstacle, Partial, SendSide};
use crate::card::Card;
use crate::vi::access::{self, Gather, Queue};
use crate::vi::lane::TxLane;
use via::error::Cause;
use via::queue::Outcome;
use via::{Control, Reliability, Status};

/// Returns the status bits for the descriptor's operation.
pub(super) fn operation(control: Control) -> Status {
    match control.operation() {
        Control::OP_RDMAWRITE => Status::OP_RDMA_WRITE,
        Control::OP_RDMAREAD => Status::OP_RDMA_READ,
        _ => Status::OP_SEND,
    }
}

impl SendSide {
    #[cold]
    pub(super) fn overrun(&mut self) -> bool {
        self.trouble = Some(Cause::CqOverrun);
        false
    }

    /// Completes the oldest send with an error. If the peer has closed the connection, leaves the send for the
    /// flush instead. Returns true if the connection continues, which only an unreliable connection can do.
    #[cold]
    pub(super) fn fail(&mut self, nic: &Card, obstacle: Obstacle) -> bool {
        let (status, cause) = match obstacle {
            Obstacle::NoRoom | Obstacle::Ended => {
                self.trouble = self.lane.as_ref().and_then(TxLane::peer_closed);
                return false;
            }
            Obstacle::NoReceive if self.level == Reliability::UNRELIABLE => {
                return self.drop_one(nic);
            }
            Obstacle::Descriptor(error) => (error, Cause::Descriptor(error)),
            Obstacle::NoReceive => (Status::TRANSPORT_ERROR, Cause::ReceiveQueueEmpty),
            Obstacle::Gone => (Status::TRANSPORT_ERROR, Cause::PeerDied),
            Obstacle::Corrupt => (Status::TRANSPORT_ERROR, Cause::Corrupt("an impossible value")),
        };
        let at_work = |lane| self.rdma.is_at_work(lane);
        let begun = self.partial.sent != 0 || self.lane.as_ref().is_some_and(at_work);
        self.end_with(nic, status);
        // The connection must break if the send has begun. If only a part of a message was sent, the peer would
        // take the next message for the rest. If the target is executing an RDMA, the next RDMA would overwrite the
        // words that the target uses.
        let goes_on = self.level == Reliability::UNRELIABLE
            && matches!(obstacle, Obstacle::Descriptor(_))
            && !begun;
        if !goes_on {
            self.trouble = Some(cause);
        }
        goes_on
    }

    /// Completes the oldest send with an error.
    fn end_with(&mut self, nic: &Card, status: Status) {
        let control = self.front_control(nic);
        self.rdma.forget();
        let partial = if self.partial.sent != 0 { Status::PARTIAL_ERROR } else { Status::empty() };
        self.partial = Partial::default();
        let _ = self.queue.complete(nic, Outcome::error(operation(control) | status | partial));
    }

    fn front_control(&mut self, nic: &Card) -> Control {
        let Queue { work, descriptors, ptag, .. } = &mut self.queue;
        let front = work.front();
        let front = front.and_then(|at| access::descriptor(descriptors, nic, *ptag, at));
        front.map_or(Control::empty(), |descriptor| descriptor.control())
    }

    /// Drops the oldest message, for which the peer has no posted receive. On an unreliable connection the send
    /// completes without an error.
    fn drop_one(&mut self, nic: &Card) -> bool {
        if let Some(lane) = &self.lane {
            lane.drop_message();
        }
        let Queue { work, descriptors, data, ptag, .. } = &mut self.queue;
        let front = work.front();
        let front = front.and_then(|at| access::descriptor(descriptors, nic, *ptag, at));
        let Some(descriptor) = front else { return self.fail(nic, Obstacle::NoRoom) };
        let status = operation(descriptor.control());
        let (first, count) = (usize::from(status != Status::OP_SEND), descriptor.seg_count());
        let gather = Gather { descriptor, nic, ptag: *ptag, first, count };
        let length = gather.total(data).unwrap_or(0);
        self.rdma.forget();
        self.done(nic, Outcome { status, length, immediate: None })
    }

    /// Flushes all outstanding descriptors. If the peer published a status before it closed the connection, the oldest
    /// descriptor ends with that status.
    pub(crate) fn flush(&mut self, nic: &Card) {
        // First complete the messages that the peer received before it closed the connection.
        if !self.flight.is_empty()
            && let Some(Ok(delivered)) = self.lane.as_ref().map(TxLane::delivered)
        {
            self.complete_up_to(nic, delivered);
        }
        if let Some(lane) = &self.lane
            && self.queue.work.outstanding() > 0
        {
            let refused = self.rdma.verdict(lane).filter(|status| !status.is_empty());
            let undelivered =
                !self.flight.is_empty() && lane.peer_closed() == Some(Cause::RemoteDescriptor);
            if let Some(status) = refused {
                self.end_with(nic, status);
            } else if undelivered {
                self.flight.clear();
                self.end_with(nic, Status::REMOTE_DESC_ERROR);
            }
        }
        self.flight.clear();
        self.rdma.forget();
        self.queue.flush(nic, operation);
    }
}
