//! The receive queue: matches messages to descriptors.

use crate::ids::ViId;
use crate::medium::Medium;
use crate::world::{Arrived, Bytes, World};
use sovia_link::wire::{Closing, EndId};
use via::error::Cause;
use via::queue::Outcome;
use via::{AsyncError, ErrorCode, Reliability, Status, WorkQueueKind};

impl<M: Medium> World<M> {
    /// Processes a message that needs a posted receive. `number` is the number of its last item.
    pub(crate) fn receive(&mut self, id: ViId, conn: EndId, number: u64, message: &Arrived) {
        let Some(vi) = self.vis.get(&id) else { return };
        let Some(front) = vi.recv.work.front() else {
            return self.no_receive(id, conn, number);
        };
        let access = vi.access();
        let met = match &message.bytes {
            Bytes::Placed => Ok(()),
            Bytes::Refused(status) => Err(*status),
            Bytes::Here(bytes) => access
                .load(front, WorkQueueKind::Recv)
                .and_then(|work| access.scatter(&work.data, bytes)),
        };
        match met {
            Ok(()) => {
                let Arrived { length, immediate, .. } = *message;
                let outcome = Outcome { status: Status::OP_RECEIVE, length, immediate };
                self.complete(id, WorkQueueKind::Recv, outcome);
            }
            Err(status) => self.bad_receive(id, conn, number, status),
        }
    }

    /// Completes a receive for an RDMA write with immediate data, whose bytes are already in place.
    pub(crate) fn receive_immediate(
        &mut self,
        id: ViId,
        conn: EndId,
        number: u64,
        message: &Arrived,
    ) {
        let Some(vi) = self.vis.get(&id) else { return };
        let Some(front) = vi.recv.work.front() else {
            return self.no_receive(id, conn, number);
        };
        match vi.access().load(front, WorkQueueKind::Recv) {
            Ok(_) => {
                let Arrived { length, immediate, .. } = *message;
                let outcome = Outcome { status: Status::OP_REMOTE_RDMA_WRITE, length, immediate };
                self.complete(id, WorkQueueKind::Recv, outcome);
            }
            Err(status) => self.bad_receive(id, conn, number, status),
        }
    }

    /// Processes a message without a posted receive: drops an unreliable message, or breaks a reliable connection.
    fn no_receive(&mut self, id: ViId, conn: EndId, number: u64) {
        let Some(vi) = self.vis.get(&id) else { return };
        if vi.is_reliable() {
            self.refuse(conn, number);
            self.break_vi(id, Cause::ReceiveQueueEmpty, Some(Closing::NoReceive(number)));
        } else {
            let (nic, context) = (vi.nic.clone(), vi.context);
            self.report(&nic, AsyncError::of_vi(context, ErrorCode::RecvqEmpty));
        }
    }

    /// Completes a receive that is invalid or too short with an error.
    fn bad_receive(&mut self, id: ViId, conn: EndId, number: u64, status: Status) {
        let level = self.vis.get(&id).map(|vi| vi.attributes.reliability);
        self.complete(id, WorkQueueKind::Recv, Outcome::error(Status::OP_RECEIVE | status));
        let cause = Cause::Descriptor(status);
        match level {
            // The sender gets an error for exactly this message.
            Some(Reliability::RELIABLE_RECEPTION) => {
                self.refuse(conn, number);
                self.break_vi(id, cause, Some(Closing::BadReceive(number)));
            }
            // The message has been delivered, so the error concerns only this end.
            Some(Reliability::RELIABLE_DELIVERY) => {
                self.break_vi(id, cause, Some(Closing::Broke));
            }
            _ => {}
        }
    }

    /// Never acknowledges the item `number`, nor any after it.
    pub(crate) fn refuse(&mut self, conn: EndId, number: u64) {
        if let Some(conn) = self.conns.get_mut(&conn) {
            conn.stream.refuse(number);
        }
    }
}
