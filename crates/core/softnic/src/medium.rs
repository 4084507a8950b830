//! The network below a world, and its clock.

use crate::ids::ViId;
use crate::moving::{Expected, MoveId, Span};
use core::fmt::Debug;
use sovia_link::Time;
use sovia_link::wire::{EndId, Packet, Readable};
use std::time::Instant;
use via::error::RegisterError;
use via::{Memory, NetAddress};

/// The network below a world. The driver passes arriving frames and due timers to the world ([`crate::World::frame`],
/// [`crate::World::timer`]).
pub trait Medium: Debug + Send + 'static {
    /// Identifies a sender or receiver of frames.
    type Node: Copy + Eq + Debug + Send + Sync + 'static;

    /// Set if the medium moves long messages itself ([`crate::moving`]).
    const MOVES: bool = false;

    /// Returns the current time, which never goes back.
    fn now(&self) -> Time;

    /// Sends a packet from a node of this world. The network may lose the packet.
    fn send<B: Readable>(&mut self, from: Self::Node, to: Self::Node, packet: &Packet<B>);

    /// Sets a timer, which fires at this time, or soon if the time is past.
    fn set_timer(&mut self, at: Time, timer: Timer);

    /// Returns the node that has an address; `None` if the bytes are no address, or no known node has it.
    fn find(&self, host: &[u8]) -> Option<Self::Node>;

    /// Number of bytes of the longest frame that can be sent to a node, if the network knows it. Used only if the world
    /// probes paths.
    fn frame_max(&self, to: Self::Node) -> Option<u32> {
        let _ = to;
        None
    }

    /// Returns a name for an end of a connection: never [`EndId::NONE`], and never the same twice. If nodes of other
    /// worlds can send frames, names must be unpredictable.
    fn name(&mut self) -> EndId;

    /// Returns true while received frames are being passed in, if sending a frame now costs more than sending it
    /// afterwards. Streams then wait for [`crate::World::catch_up`].
    fn is_receiving(&self) -> bool {
        false
    }

    /// Notes that a program begins (`listens`) or ceases to accept connections at an address of this world. The calls
    /// are balanced. For media whose nodes share an address with other worlds.
    fn listen(&mut self, address: &NetAddress, listens: bool) {
        let _ = (address, listens);
    }

    /// Number of bytes of the shortest reliable message to a node that the medium moves itself ([`crate::moving`]);
    /// `None` if all messages go in frames.
    fn moves_from(&self, to: Self::Node) -> Option<u32> {
        let _ = to;
        None
    }

    /// Largest number of spans in one move.
    fn spans_max(&self) -> usize {
        1
    }

    /// Makes memory ready for an announced message, and notifies the sender's node ([`crate::World::ready`]).
    fn expect(&mut self, id: MoveId, message: &Expected<Self::Node>, into: Vec<Span>) {
        let _ = (id, message, into);
    }

    /// Sends the bytes of an announced message to a node, which calls the message `ticket`.
    fn dispatch(&mut self, id: MoveId, to: Self::Node, ticket: u64, from: Vec<Span>) {
        let _ = (id, to, ticket, from);
    }

    /// Tells a node that the message that it expects under `ticket` will not come.
    fn withdraw(&mut self, to: Self::Node, ticket: u64) {
        let _ = (to, ticket);
    }

    /// Registers a program's memory. Returns a key for the region if the medium needs one.
    ///
    /// # Errors
    /// [`RegisterError`]: a limit of the system.
    fn register(&mut self, memory: &Memory) -> Result<Option<u64>, RegisterError> {
        let _ = memory;
        Ok(None)
    }

    /// Deregisters a region that nothing uses any more.
    fn deregister(&mut self, key: u64) {
        let _ = key;
    }

    /// Records an event in a log.
    fn note(&mut self, words: &[u64]) {
        let _ = words;
    }
}

/// The end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// The wait has no end.
    Never,
    /// A time of the medium's clock.
    At(Time),
    /// A real time, for a medium whose clock is not real time.
    Real(Instant),
}

/// The purpose of a timer. The world passes it to [`Medium::set_timer`] and gets it back when the timer fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timer(pub(crate) Purpose);

/// The contents of a [`Timer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// A program has posted to a send queue.
    Doorbell(ViId),
    /// A connection waits for an acknowledgement.
    Retransmit(EndId),
    /// A request waits for an answer.
    Request(EndId),
    /// An answer waits for its confirmation.
    Answer(EndId),
    /// A poke waits for its acknowledgement; with the number of the VI's attempt.
    Poke(ViId, u64),
    /// The time of a VI's attempt is over; with the number of the attempt.
    Expire(ViId, u64),
}
