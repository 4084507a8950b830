//! The send queue: turns descriptors into messages, and completes them in order.

use crate::card::Card;
use crate::ids::ViId;
use crate::medium::Medium;
use crate::source::Outgoing;
use crate::world::{Bytes, Progress, Started, World};
use sovia_link::message::{even, parts};
use sovia_link::wire::{Closing, EndId, Item, Operation, Packet};
use std::sync::Arc;
use via::descriptor::Work;
use via::error::Cause;
use via::queue::Outcome;
use via::{Control, DescriptorAddress, MemHandle, Status, ViState, WorkQueueKind};

/// Number of parts that may wait to be sent before no more descriptors are started.
const WAITING: usize = 1024;

impl<M: Medium> World<M> {
    /// Runs after a program has posted sends.
    pub(crate) fn doorbell(&mut self, id: ViId) {
        if let Some(vi) = self.vis.get_mut(&id) {
            vi.rung = false;
            self.push_sends(id);
        }
    }

    /// Starts as many descriptors as possible.
    pub(crate) fn push_sends(&mut self, id: ViId) {
        // Repeat, because completed sends may make room for waiting ones.
        loop {
            while self.start_next(id) {}
            if !self.finish_sends(id) {
                break;
            }
        }
        if let Some(conn) = self.vis.get(&id).and_then(|vi| vi.conn) {
            self.transmit(conn);
        }
    }

    /// Starts the next descriptor. Returns false if there is none or it must wait.
    fn start_next(&mut self, id: ViId) -> bool {
        let Some(vi) = self.vis.get_mut(&id) else { return false };
        let (ViState::Connected, Some(conn)) = (vi.state, vi.conn) else { return false };
        let Some(&at) = vi.waiting.front() else { return false };
        // Limit the waiting parts: descriptors need less memory than parts.
        let waiting = self.conns.get(&conn).map_or(0, |conn| conn.stream.waiting());
        if waiting > WAITING.min(self.config.window as usize) {
            return false;
        }
        // Do not start descriptors after an error, because the connection ends there.
        if vi.started.iter().any(|s| matches!(s.progress, Progress::Failed(_))) {
            return false;
        }
        let loaded = vi.access().load(at, WorkQueueKind::Send);
        let fenced = loaded.as_ref().is_ok_and(|work| work.control.contains(Control::QFENCE));
        let reading = |s: &Started| matches!(s.progress, Progress::Reading(_));
        if fenced && vi.started.iter().any(reading) {
            return false;
        }
        vi.waiting.pop_front();
        let operation = loaded.as_ref().map_or(Status::OP_SEND, Work::operation);
        let length = loaded.as_ref().map_or(0, Work::length);
        let started = match loaded.and_then(|work| self.start(id, conn, work)) {
            Ok((last, progress, moving)) => Started { last, operation, length, progress, moving },
            Err(status) => {
                let progress = Progress::Failed(status);
                Started { last: 0, operation, length: 0, progress, moving: false }
            }
        };
        if let Some(vi) = self.vis.get_mut(&id) {
            vi.started.push_back(started);
        }
        true
    }

    /// Starts one descriptor. Returns the number of its last item, its progress, and whether the medium must move its
    /// bytes.
    ///
    /// # Errors
    /// The descriptor's final status.
    fn start(
        &mut self,
        id: ViId,
        conn: EndId,
        work: Work,
    ) -> Result<(u64, Progress, bool), Status> {
        let vi = self.vis.get(&id).ok_or(Status::TRANSPORT_ERROR)?;
        let reliable = vi.is_reliable();
        let length = work.length();
        if length > vi.attributes.max_transfer_size {
            return Err(Status::LENGTH_ERROR);
        }
        let kind = match (work.control.operation(), work.remote) {
            (Control::OP_RDMAREAD, Some(remote)) => {
                if !reliable {
                    // The answer might be lost.
                    return Err(Status::FORMAT_ERROR);
                }
                if !vi.attributes.enable_rdma_read {
                    // Both ends must enable RDMA reads.
                    return Err(Status::RDMA_PROT_ERROR);
                }
                vi.access().check(&work.data)?;
                let conn = self.conns.get_mut(&conn).ok_or(Status::TRANSPORT_ERROR)?;
                let item = Item::Read { address: remote.address, handle: remote.handle, length };
                return Ok((conn.stream.push(item), Progress::Reading(work.data), false));
            }
            (Control::OP_RDMAWRITE, Some(remote)) => {
                Operation::Write { address: remote.address, handle: remote.handle }
            }
            _ => Operation::Send,
        };
        if reliable && self.moves(conn, length) {
            vi.access().check(&work.data)?;
            let number = self.announce(conn, kind, work.immediate, work.data);
            return Ok((number.ok_or(Status::TRANSPORT_ERROR)?, Progress::Sent, true));
        }
        let fill = |room: &mut [u8]| vi.access().gather(&work.data, room);
        let bytes = match vi.access().lend(&work.data)? {
            Some(lent) => Outgoing::Lent(lent),
            None => Outgoing::Copied(self.buffers.message(length as usize, fill)?),
        };
        let conn_id = conn;
        let conn = self.conns.get_mut(&conn).ok_or(Status::TRANSPORT_ERROR)?;
        let mtu = even(length as usize, conn.part_max());
        if reliable {
            let mut last = 0;
            for part in parts(kind, work.immediate, bytes, mtu) {
                last = conn.stream.push(Item::Part(part));
            }
            return Ok((last, Progress::Sent, false));
        }
        let message = conn.datagrams_sent;
        conn.datagrams_sent += 1;
        let (node, to, peer) = (conn.node, conn.peer_node, conn.peer);
        for part in parts(kind, work.immediate, bytes, mtu) {
            vi.access().view(&part.bytes, |view| {
                let part = part.with(view);
                let packet = Packet::Datagram { to: peer, from: conn_id, message, part };
                self.net.send(node, to, &packet);
            })?;
        }
        Ok((message, Progress::Done, false))
    }

    /// Processes an acknowledgement of all items before `ack`.
    pub(crate) fn sends_acked(&mut self, id: ViId, ack: u64) {
        let Some(vi) = self.vis.get_mut(&id) else { return };
        for started in &mut vi.started {
            if started.last < ack && matches!(started.progress, Progress::Sent) {
                started.progress = Progress::Done;
            }
        }
        self.push_sends(id);
    }

    /// Processes the answer to the RDMA read with this number.
    pub(crate) fn read_done(&mut self, id: ViId, read: u64, bytes: &Bytes) {
        let Some(vi) = self.vis.get_mut(&id) else { return };
        let this = |s: &Started| s.last == read && matches!(s.progress, Progress::Reading(_));
        let Some(place) = vi.started.iter().position(this) else { return };
        vi.started[place].progress = match bytes {
            Bytes::Refused(status) => Progress::Failed(*status),
            Bytes::Placed | Bytes::Here(_) => Progress::Done,
        };
        self.push_sends(id);
    }

    /// Completes descriptors up to the first unfinished one. Returns true if there were any.
    fn finish_sends(&mut self, id: ViId) -> bool {
        let mut any = false;
        // Look the VI up each time: a completion may overflow its completion queue, which breaks the connection.
        while let Some(vi) = self.vis.get_mut(&id)
            && let Some(Started {
                progress: Progress::Done | Progress::Failed(_),
                moving: false,
                ..
            }) = vi.started.front()
            && let Some(Started { operation, length, progress, .. }) = vi.started.pop_front()
        {
            let reliable = vi.is_reliable();
            any = true;
            match progress {
                Progress::Failed(status) => {
                    let outcome = Outcome::error(operation | status);
                    self.complete(id, WorkQueueKind::Send, outcome);
                    if reliable {
                        self.break_vi(id, Cause::Descriptor(status), Some(Closing::Broke));
                    }
                }
                _ => {
                    let outcome = Outcome { status: operation, length, immediate: None };
                    self.complete(id, WorkQueueKind::Send, outcome);
                }
            }
        }
        any
    }

    /// Copies unsent bytes out of a region, before the program gets the memory back.
    pub(crate) fn keep_region(&mut self, nic: &Arc<Card<M::Node>>, handle: MemHandle) {
        for conn in
            self.conns.iter_mut().filter(|it| it.stream.backlog() > 0 || !it.announced.is_empty())
        {
            let vi = conn.vi.and_then(|vi| self.vis.get(&vi));
            if let Some(vi) = vi.filter(|vi| Arc::ptr_eq(&vi.nic, nic)) {
                conn.keep(&vi.access(), Some(handle));
            }
        }
    }

    /// Returns the operation of a posted descriptor, if its memory is still registered.
    pub(crate) fn posted_operation(&self, id: ViId, at: DescriptorAddress) -> Status {
        let control = self.vis.get(&id).and_then(|vi| vi.access().descriptor(at, |d| d.control()));
        control.map_or(Status::OP_SEND, Control::operation_status)
    }
}
