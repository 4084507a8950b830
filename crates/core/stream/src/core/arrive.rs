//! Passes completed descriptors to the session, and posts the session's packets.

use super::{Core, Inner, Kept, Place, Sending};
use crate::error::Reset;
use sovia_proto::Violation;
use sovia_proto::configuration::Handling;
use sovia_proto::packet::{Immediate, Kind, Written};
use sovia_proto::session::{Arrival, BODY_MAX, Body, Leave, Outgoing, Target};
use sovia_proto::state::State;
use via::{Completion, DataSegment, Done, Nic, Status, Vi};

impl<N: Nic + 'static> Core<N> {
    /// Processes arrivals, if this thread may do so, and posts the packets that are due.
    pub(crate) fn progress(&self, inner: &mut Inner<N>) {
        if self.configuration.handling == Handling::Single && !inner.driving {
            self.take_arrivals(inner);
        }
        self.post_due(inner);
    }

    /// Processes every arrival.
    pub(crate) fn take_arrivals(&self, inner: &mut Inner<N>) {
        loop {
            match self.vi.recv_done() {
                Done::Completion(completion) => self.received(inner, completion),
                Done::NotDone => break,
                Done::Empty => {
                    self.check_lost(inner);
                    break;
                }
            }
        }
    }

    /// Processes a completed receive.
    pub(crate) fn received(&self, inner: &mut Inner<N>, completion: Completion) {
        if inner.session.state() == State::Connecting {
            inner.early.push(completion);
            return;
        }
        let Ok(len) = completion.result() else {
            self.lose(inner, None);
            return;
        };
        if inner.reset.is_some() {
            return;
        }
        let receive = self.slots.receive_index(completion.descriptor);
        let immediate = completion.immediate;
        let data = immediate.is_some_and(|bits| {
            Immediate::decode(bits).is_ok_and(|packet| packet.kind == Kind::Data)
        });
        // The immediate data and the completion must agree on whether the message was written by RDMA.
        let told = immediate.is_some_and(|bits| Written::decode(bits).is_some());
        let written = completion.status & Status::OP_MASK == Status::OP_REMOTE_RDMA_WRITE;
        if told != written {
            let violation = Violation("a packet that arrived by another transfer than it names");
            return self.lose(inner, Some(Reset::Protocol(violation)));
        }
        let mut body = [0; BODY_MAX];
        // The session refuses a packet whose body is missing, so pass no body if it is too long.
        let body = match len as usize {
            len @ 1..=BODY_MAX if !data && !written => {
                self.slots.copy_out(receive, 0, &mut body[..len]);
                &body[..len]
            }
            _ => &[],
        };
        match inner.session.arrived(immediate, len, body) {
            Ok(Arrival::Data) => {
                inner.kept.push_back(Kept::Packet { receive: receive as u16, len, had: 0 });
            }
            Ok(Arrival::Written(len)) => {
                self.post_receive(receive);
                inner.kept.push_back(match inner.awaited.take() {
                    Some(Place::Reader) => Kept::Read { len },
                    Some(Place::Landing) | None => Kept::Landed { len, had: 0 },
                });
            }
            Ok(Arrival::Nothing) => {
                self.post_receive(receive);
                let ended = inner.session.state().peer_finished();
                // Clear the permission. After its end the peer writes no more. A written message has used the
                // permission up, even if the session dropped the message.
                if ended || written {
                    inner.awaited = None;
                }
                inner.ended |= ended;
            }
            Err(violation) => self.lose(inner, Some(Reset::Protocol(violation))),
        }
        self.tell(inner);
    }

    /// Posts a receive again. An error means that the connection is lost, which the next poll detects.
    pub(super) fn post_receive(&self, receive: usize) {
        let _ = self.vi.post_recv(self.slots.receive(receive));
    }

    /// Posts the packets that the session has to send, as long as there are free descriptors.
    pub(crate) fn post_due(&self, inner: &mut Inner<N>) {
        loop {
            if inner.free_sends.is_empty() {
                self.take_sent(inner);
                if inner.free_sends.is_empty() {
                    return;
                }
            }
            let Some(Outgoing { immediate, body }) = inner.session.outgoing() else { return };
            let Some(send) = inner.free_sends.pop() else { return };
            let i = usize::from(send);
            let (sending, data) = match body {
                Body::Empty => (Sending::Control, None),
                Body::Terms(terms) => (Sending::Control, Some(self.slots.body(i, &terms.encode()))),
                Body::Number(number) => {
                    (Sending::Control, Some(self.slots.body(i, &number.to_le_bytes())))
                }
                Body::Request(request) => {
                    (Sending::Control, Some(self.slots.body(i, &request.encode())))
                }
                Body::Leave { bytes, waits } => {
                    let leave = Leave { bytes, to: self.target(inner, bytes, waits) };
                    (Sending::Control, Some(self.slots.body(i, &leave.encode())))
                }
                Body::Combined(len) => match inner.combining.take() {
                    Some(buffer) => {
                        let data = self.slots.filled(usize::from(buffer), len);
                        (Sending::Copy(buffer), Some(data))
                    }
                    None => (Sending::Control, None),
                },
            };
            self.post(inner, send, sending, data, immediate, None);
        }
    }

    /// Chooses the buffer for an RDMA write of `bytes` bytes: a reading thread's buffer if that is large enough, or
    /// else the landing buffer.
    ///
    /// The reading thread cannot return before the write arrives. So its buffer is given only to a call of the peer
    /// that waits, because such a call writes as soon as it has permission. Otherwise the reading thread would depend
    /// on when the peer's program makes its next call. The buffer is not given either once the stream has ended for the
    /// reading thread.
    fn target(&self, inner: &mut Inner<N>, bytes: u32, waits: bool) -> Target {
        let lent = waits && !inner.ended;
        if let Some(reader) = inner.reader.filter(|reader| lent && bytes <= reader.room) {
            inner.awaited = Some(Place::Reader);
            return reader.to;
        }
        inner.awaited = Some(Place::Landing);
        // The landing buffer exists: both ends use SOVIA_RDMA when the peer asks for permission.
        self.landing.as_ref().map(|landing| landing.target()).unwrap_or_default()
    }

    /// Posts a send, or an RDMA write to `to`.
    pub(super) fn post(
        &self,
        inner: &mut Inner<N>,
        send: u16,
        sending: Sending<N>,
        data: Option<DataSegment>,
        immediate: Immediate,
        to: Option<Target>,
    ) {
        let i = usize::from(send);
        inner.sending[i] = sending;
        let descriptor = match to {
            None => self.slots.send(i, data, immediate.encode()),
            Some(to) => {
                let len = data.map_or(0, |data| data.length);
                let written = Written { len, acks: immediate.acks };
                self.slots.write(i, to, data, written.encode())
            }
        };
        if self.vi.post_send(descriptor).is_err() {
            self.finish_send(inner, i, false);
        }
    }

    /// Processes every completed send.
    pub(crate) fn take_sent(&self, inner: &mut Inner<N>) {
        while let Done::Completion(completion) = self.vi.send_done() {
            self.sent(inner, completion);
        }
    }

    /// Processes a completed send.
    pub(super) fn sent(&self, inner: &mut Inner<N>, completion: Completion) {
        let i = self.slots.send_index(completion.descriptor);
        self.finish_send(inner, i, completion.result().is_ok());
        self.tell(inner);
    }

    fn finish_send(&self, inner: &mut Inner<N>, i: usize, well: bool) {
        inner.unsendable |= !well;
        match core::mem::replace(&mut inner.sending[i], Sending::Free) {
            Sending::Program(_) => {
                // The waiting thread of the program polls this entry, and frees the descriptor.
                inner.sending[i] = Sending::Program(Some(well));
                return;
            }
            Sending::Copy(buffer) => inner.free_buffers.push(buffer),
            Sending::Lent { again, buffer } => {
                drop(again);
                inner.returned.push_back(buffer);
            }
            Sending::Control => {}
            Sending::Free => return,
        }
        inner.free_sends.push(i as u16);
    }

    /// Starts the timer for a chunk that has just begun.
    pub(super) fn mind_timer(&self, inner: &mut Inner<N>) {
        let batch = inner.session.batch();
        if inner.batch.map(|(batch, _)| batch) == batch {
            return;
        }
        let (Some(batch), Some(combine)) = (batch, self.configuration.combine) else {
            inner.batch = None;
            return;
        };
        let now = std::time::Instant::now();
        inner.batch = Some((batch, now));
        if !inner.timer_set {
            inner.timer_set = self.stack.wake_at(now + combine.delay, self.weak());
        }
    }

    /// Runs when the timer fires. Returns when to fire next.
    pub(crate) fn timer(&self) -> Option<std::time::Instant> {
        let mut held = self.lock();
        let delay = self.configuration.combine?.delay;
        if let Some((batch, since)) = held.batch
            && held.session.batch() == Some(batch)
        {
            if since.elapsed() < delay {
                return Some(since + delay);
            }
            held.session.timer(batch);
            self.post_due(&mut held);
        }
        held.timer_set = false;
        held.batch = None;
        None
    }
}
