//! The peer's RDMA operations, at their target.

use crate::ids::ViId;
use crate::medium::Medium;
use crate::source::Outgoing;
use crate::world::{Arrived, Bytes, World};
use sovia_link::message::{even, parts};
use sovia_link::wire::{Closing, EndId, Item, Operation};
use via::error::Cause;
use via::queue::Outcome;
use via::{AsyncError, Control, ErrorCode, Status, WorkQueueKind};

impl<M: Medium> World<M> {
    /// Processes an RDMA write. `number` is the number of its last item.
    pub(crate) fn written(&mut self, id: ViId, conn: EndId, number: u64, message: &Arrived) {
        let Some(vi) = self.vis.get(&id) else { return };
        if matches!(message.bytes, Bytes::Placed) {
            // Wake waiting threads: a program may see the write by polling its memory.
            self.news = true;
            if message.immediate.is_some() {
                self.receive_immediate(id, conn, number, message);
            }
            return;
        }
        if message.immediate.is_some() && vi.recv.work.front().is_some() {
            let status = Status::OP_REMOTE_RDMA_WRITE | Status::RDMA_PROT_ERROR;
            self.complete(id, WorkQueueKind::Recv, Outcome::error(status));
        }
        self.deny(id, conn, number, Control::OP_RDMAWRITE);
    }

    /// Processes an RDMA read: sends the answer in parts.
    pub(crate) fn serve_read(
        &mut self,
        id: ViId,
        conn: EndId,
        number: u64,
        (address, handle, length): (u64, u32, u32),
    ) {
        let Some(vi) = self.vis.get(&id) else { return };
        let allowed = vi.attributes.enable_rdma_read && length <= vi.attributes.max_transfer_size;
        let access = vi.access();
        let memory = allowed.then(|| access.remote_read(address, handle, length)).flatten();
        if let Some(memory) = memory
            && self.moves(conn, length)
            && vi.access().check(&[memory]).is_ok()
        {
            let data = core::iter::once(memory).collect();
            self.announce(conn, Operation::ReadReply { read: number }, None, data);
            return;
        }
        let Some(vi) = self.vis.get(&id) else { return };
        let access = vi.access();
        let message = memory.and_then(|memory| {
            let fill = |room: &mut [u8]| access.gather(&[memory], room);
            self.buffers.message(length as usize, fill).ok().map(Outgoing::Copied)
        });
        let Some(message) = message else {
            return self.deny(id, conn, number, Control::OP_RDMAREAD);
        };
        if let Some(conn) = self.conns.get_mut(&conn) {
            let mtu = even(length as usize, conn.part_max());
            for part in parts(Operation::ReadReply { read: number }, None, message, mtu) {
                conn.stream.push(Item::Part(part));
            }
        }
    }

    /// Refuses an RDMA without accessing memory: reports an error, and breaks a reliable connection.
    fn deny(&mut self, id: ViId, conn: EndId, number: u64, operation: Control) {
        let Some(vi) = self.vis.get(&id) else { return };
        let code = match operation {
            Control::OP_RDMAREAD => ErrorCode::RdmarProt,
            _ => ErrorCode::RdmawProt,
        };
        let error = AsyncError { operation, ..AsyncError::of_vi(vi.context, code) };
        let (nic, reliable) = (vi.nic.clone(), vi.is_reliable());
        self.report(&nic, error);
        if reliable {
            self.refuse(conn, number);
            if let Some(conn) = self.vis.get(&id).and_then(|vi| vi.conn) {
                self.close(conn, Closing::RdmaDenied(number));
            }
            self.break_quietly(id, Cause::Rdma(code));
        }
    }
}
