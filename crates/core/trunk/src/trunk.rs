//! One trunk: a VI with its buffers, and how many messages the other end has receives for.

use crate::message::{Filling, Message, longest_frame};
use sovia_proto::flow::{Flow, Parameters};
use sovia_proto::packet::{Immediate, Kind};
use std::sync::Arc;
use via::error::{ConnectError, CreateViError, PostError, RegisterError};
use via::{Attach, Completion, NetAddress, Nic, Slots, Vi, ViAttributes, ViState};

/// Messages that may be unacknowledged, and those after which an acknowledgement goes alone: half a megabyte may be on its way, which
/// a path of a hundred gigabits a second holds in 40 µs.
const FLOW: Parameters = Parameters { window: 16, threshold: 8 };
/// Bytes of a message: what VIA asks of every NIC.
pub(crate) const LONGEST: usize = 32 << 10;
/// Bytes of the longest frame that a trunk carries.
pub const FRAME_MAX: usize = longest_frame(LONGEST);
const RECEIVES: usize = FLOW.receives() as usize;
const SENDS: usize = FLOW.window as usize;
/// Acknowledgements that may go alone before the NIC is done with the first.
const ACKS: usize = 4;
/// Entries of a completion queue that the work of one trunk may have.
pub(crate) const ENTRIES: u32 = (RECEIVES + SENDS + ACKS) as u32;

/// Why there can be no trunk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MakeError {
    /// The NIC gives no VI.
    #[error(transparent)]
    Vi(#[from] CreateViError),
    /// The NIC registers no more memory.
    #[error(transparent)]
    Memory(#[from] RegisterError),
    /// The NIC takes no descriptor.
    #[error(transparent)]
    Post(#[from] PostError),
    /// The completion queue cannot be had, or cannot be as long as trunks need it.
    #[error(transparent)]
    Queue(#[from] via::error::CqError),
    /// The NIC does not begin to connect.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// As many trunks to that peer are ending as may at a time.
    #[error(
        "earlier connections of the two NICs have not ended: the other NIC may still read their memory"
    )]
    Ending,
}

/// How far a trunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Connecting,
    Up,
    /// Nothing more comes or goes by it.
    Down,
}

/// A VI with its buffers.
pub(crate) struct Trunk<N: Nic> {
    // Before its memory: a VI that is dropped touches that no more.
    vi: N::Vi,
    receives: Slots<N>,
    sends: Slots<N>,
    acks: Slots<N>,
    free_sends: Vec<usize>,
    free_acks: Vec<usize>,
    flow: Flow,
    pub(crate) state: State,
    /// What the other end is told of what it has sent goes alone, as soon as it can.
    owes: bool,
    /// The next message asks for an answer.
    asks: bool,
    /// An answer has been asked for. It has come when so many messages more have been acknowledged: those before the question, and that.
    asked: Option<u16>,
    /// Why it is down, if the VI does not know.
    reason: Option<String>,
}

impl<N: Nic> Trunk<N> {
    /// A trunk that is being connected to the one which the agent at `remote` makes for `local`.
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

    /// Looks whether the connection is there; true once, when it is.
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

    /// Why nothing more comes or goes by it, for people.
    pub(crate) fn why(&mut self) -> String {
        let cause = || self.vi.cause().map(|cause| cause.to_string());
        self.reason.take().or_else(cause).unwrap_or_else(|| match self.vi.state() {
            ViState::Connected => "the other agent sent an invalid message".to_owned(),
            _ => "the other end has ended the connection".to_owned(),
        })
    }

    /// Takes a send that is done.
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

    /// Takes a receive that is done, into `buffer`, which has room for the longest message: the bytes of a message, if it has brought one.
    pub(crate) fn received(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let done = self.vi.recv_done().completion()?;
        let taken = self.take(&done, buffer);
        if taken.is_none() {
            self.state = State::Down;
        }
        taken.flatten()
    }

    /// The bytes of a message, or none where something was acknowledged alone. `None` if nothing more can come.
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
        // The receive is there again before the other end is told that it is.
        self.post_receive(slot).ok()?;
        self.asked = self.asked.map(|left| left.saturating_sub(immediate.acks));
        Some(is_data.then_some(len))
    }

    /// A message has been taken, and asks for an answer or does not.
    pub(crate) fn consumed(&mut self, message: &Message<'_>) {
        self.owes |= self.flow.consumed() || message.asks;
    }

    /// Has the other end answer, if it is there.
    pub(crate) fn ask(&mut self) {
        (self.asks, self.asked) = (true, None);
    }

    /// Whether the other end has answered; true once.
    pub(crate) fn has_answered(&mut self) -> bool {
        self.asked.take_if(|left| *left == 0).is_some()
    }

    fn has_room(&self) -> bool {
        self.state == State::Up && self.flow.can_send() && !self.free_sends.is_empty()
    }

    /// Sends frames of at most `longest` bytes as long as `next` writes some to the room that it is given; `buffer` has room for a
    /// message. Whether there were some, and whether there is room for more.
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

    /// Sends what goes alone: a question, or what the other end is owed.
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
