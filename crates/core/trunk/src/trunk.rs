//! One trunk: a VI with its buffers, and the flow control that limits unacknowledged messages.

use crate::message::{Filling, Message, longest_frame};
use sovia_proto::flow::{Flow, Parameters};
use sovia_proto::packet::{Immediate, Kind};
use std::sync::Arc;
use via::error::{ConnectError, CreateViError, PostError, RegisterError};
use via::{Attach, Completion, NetAddress, Nic, Slots, Vi, ViAttributes, ViState};

/// Flow control: at most 16 unacknowledged messages, and an acknowledgement alone after 8 messages. Half a megabyte
/// may be on its way. A path of 100 gigabits per second carries it in 40 µs.
const FLOW: Parameters = Parameters { window: 16, threshold: 8 };
/// Bytes of a message. VIA requires every NIC to transfer that many.
pub(crate) const LONGEST: usize = 32 << 10;
/// Length in bytes of the longest frame that a trunk carries.
pub const FRAME_MAX: usize = longest_frame(LONGEST);
const RECEIVES: usize = FLOW.receives() as usize;
const SENDS: usize = FLOW.window as usize;
/// Number of acknowledgement descriptors, posted before the NIC has completed the first of them.
const ACKS: usize = 4;
/// Maximum number of completion queue entries that one trunk's descriptors use.
pub(crate) const ENTRIES: u32 = (RECEIVES + SENDS + ACKS) as u32;

/// Reason why a trunk could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MakeError {
    /// The NIC cannot create a VI.
    #[error(transparent)]
    Vi(#[from] CreateViError),
    /// The NIC cannot register more memory.
    #[error(transparent)]
    Memory(#[from] RegisterError),
    /// The NIC refuses a descriptor.
    #[error(transparent)]
    Post(#[from] PostError),
    /// The NIC cannot create the completion queue, or cannot make the queue long enough.
    #[error(transparent)]
    Queue(#[from] via::error::CqError),
    /// The NIC cannot start a connection request.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Too many earlier trunks to this peer are still ending.
    #[error(
        "cannot connect yet: earlier connections between this NIC and the peer's NIC have not ended, and the peer's NIC may still read their memory"
    )]
    Ending,
}

/// State of a trunk's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Connecting,
    Up,
    /// The trunk has failed or ended. Neither end can send or receive by it.
    Down,
}

/// A VI with its buffers.
pub(crate) struct Trunk<N: Nic> {
    // Declared before the buffers, so that it is dropped first. After that, the NIC no longer accesses the buffers.
    vi: N::Vi,
    receives: Slots<N>,
    sends: Slots<N>,
    acks: Slots<N>,
    free_sends: Vec<usize>,
    free_acks: Vec<usize>,
    flow: Flow,
    pub(crate) state: State,
    /// Set while an acknowledgement is due. The acknowledgement travels alone if no message is sent first.
    owes: bool,
    /// Set until the next message is sent, which then asks the other end for an answer.
    asks: bool,
    /// Set while an answer is outstanding: number of messages that the other end must still acknowledge, up to the
    /// one that asked.
    asked: Option<u16>,
    /// Reason why the trunk is down, if the VI does not know the reason.
    reason: Option<String>,
}

impl<N: Nic> Trunk<N> {
    /// Starts to connect a trunk to the trunk that the agent at `remote` makes for `local`.
    pub(crate) fn connect(
        nic: &Arc<N>,
        cq: &N::Cq,
        context: u64,
        local: &NetAddress,
        remote: &NetAddress,
    ) -> Result<Trunk<N>, MakeError> {
        let attributes =
            ViAttributes { max_transfer_size: LONGEST as u32, ..ViAttributes::default() };
        let attach = Attach { send: Some(cq), recv: Some(cq), context };
        let trunk = Trunk {
            vi: nic.create_vi_with(attributes, attach)?,
            receives: Slots::new(nic, RECEIVES, LONGEST)?,
            sends: Slots::new(nic, SENDS, LONGEST)?,
            acks: Slots::new(nic, ACKS, 0)?,
            free_sends: (0..SENDS).collect(),
            free_acks: (0..ACKS).collect(),
            flow: Flow::new(FLOW),
            state: State::Connecting,
            owes: false,
            asks: false,
            asked: None,
            reason: None,
        };
        (0..RECEIVES).try_for_each(|slot| trunk.post_receive(slot))?;
        trunk.vi.connect_peer_request(local, remote, None)?;
        Ok(trunk)
    }

    fn post_receive(&self, slot: usize) -> Result<(), PostError> {
        self.vi.post_recv(self.receives.prepare(slot, LONGEST, None))
    }

    /// Checks a pending connection. Returns true once, when the connection has been made.
    pub(crate) fn has_connected(&mut self) -> bool {
        if self.state != State::Connecting {
            return false;
        }
        match self.vi.connect_peer_done() {
            None => return false,
            Some(Ok(_)) => self.state = State::Up,
            Some(Err(error)) => {
                (self.state, self.reason) = (State::Down, Some(error.to_string()));
            }
        }
        self.state == State::Up
    }

    /// Returns a text for users: the reason why the trunk is down.
    pub(crate) fn why(&mut self) -> String {
        let cause = || self.vi.cause().map(|cause| cause.to_string());
        self.reason.take().or_else(cause).unwrap_or_else(|| match self.vi.state() {
            ViState::Connected => "the other agent sent an invalid message".to_owned(),
            _ => "the other end has ended the connection".to_owned(),
        })
    }

    /// Takes one completed send and frees its buffer.
    pub(crate) fn sent(&mut self) {
        let Some(done) = self.vi.send_done().completion() else { return };
        if done.result().is_err() {
            self.state = State::Down;
        }
        if let Some(slot) = self.sends.slot_of(done.descriptor) {
            self.free_sends.push(slot);
        } else if let Some(slot) = self.acks.slot_of(done.descriptor) {
            self.free_acks.push(slot);
        }
    }

    /// Takes one completed receive. Copies a message into `buffer`, which must hold [`LONGEST`] bytes, and returns
    /// the message's length. Returns `None` if no message came.
    pub(crate) fn received(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let done = self.vi.recv_done().completion()?;
        let taken = self.take(&done, buffer);
        if taken.is_none() {
            self.state = State::Down;
        }
        taken.flatten()
    }

    /// Copies the received message into `buffer` and posts its receive again.
    ///
    /// Returns the message's length, or `Some(None)` for an acknowledgement alone. Returns `None` if the trunk has
    /// failed.
    fn take(&mut self, done: &Completion, buffer: &mut [u8]) -> Option<Option<usize>> {
        let len = done.result().ok()? as usize;
        let slot = self.receives.slot_of(done.descriptor)?;
        let immediate = Immediate::decode(done.immediate?).ok()?;
        let is_data = match immediate.kind {
            Kind::Data => true,
            Kind::Ack if len == 0 => false,
            _ => return None,
        };
        self.flow.arrived(immediate).ok()?;
        if is_data {
            self.receives.read(slot, buffer.get_mut(..len)?);
        }
        // Post the receive before the acknowledgement: the other end may send as soon as it gets the acknowledgement.
        self.post_receive(slot).ok()?;
        self.asked = self.asked.map(|left| left.saturating_sub(immediate.acks));
        Some(is_data.then_some(len))
    }

    /// Records that the caller has processed `message`. An acknowledgement becomes due if the flow control or the
    /// message requires one.
    pub(crate) fn consumed(&mut self, message: &Message<'_>) {
        self.owes |= self.flow.consumed() || message.asks;
    }

    /// Requests an answer from the other end with the next message.
    pub(crate) fn ask(&mut self) {
        (self.asks, self.asked) = (true, None);
    }

    /// Returns true once, after the other end has answered a request.
    pub(crate) fn has_answered(&mut self) -> bool {
        self.asked.take_if(|left| *left == 0).is_some()
    }

    fn has_room(&self) -> bool {
        self.state == State::Up && self.flow.can_send() && !self.free_sends.is_empty()
    }

    /// Sends frames from `next` until `next` returns `None` or no more messages can be sent.
    ///
    /// `next` writes a frame of at most `longest` bytes. `buffer` must hold [`LONGEST`] bytes. Returns two flags:
    /// true if a frame was sent, and true if more messages can be sent.
    pub(crate) fn transmit(
        &mut self,
        longest: usize,
        buffer: &mut [u8],
        next: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
    ) -> (bool, bool) {
        let mut any = false;
        while self.has_room() {
            let mut filling = Filling::default();
            let is_full = filling.fill(&mut buffer[..LONGEST], longest, next);
            if filling.is_empty() {
                return (any, true);
            }
            any = true;
            self.send(filling, buffer);
            if !is_full {
                return (any, true);
            }
        }
        (any, false)
    }

    fn send(&mut self, filling: Filling, buffer: &mut [u8]) {
        let Some(slot) = self.free_sends.pop() else { return };
        let asks = core::mem::take(&mut self.asks);
        let len = filling.end(buffer, asks);
        self.sends.write(slot, &buffer[..len]);
        let immediate = self.flow.send(Kind::Data);
        if asks {
            self.asked = Some(self.flow.unacked());
        }
        self.owes = false;
        if self.vi.post_send(self.sends.prepare(slot, len, Some(immediate.encode()))).is_err() {
            self.state = State::Down;
        }
    }

    /// Sends what no message of frames has carried yet: a request for an answer, and a due acknowledgement.
    pub(crate) fn tell(&mut self, buffer: &mut [u8]) {
        if self.asks && self.has_room() {
            self.send(Filling::default(), buffer);
        }
        if !self.owes || self.state != State::Up {
            return;
        }
        let Some(slot) = self.free_acks.pop() else { return };
        let immediate = self.flow.send(Kind::Ack);
        self.owes = false;
        if self.vi.post_send(self.acks.prepare(slot, 0, Some(immediate.encode()))).is_err() {
            self.state = State::Down;
        }
    }
}
