//! What carries the frames of a world, and its clock.

use crate::ids::ViId;
use crate::moving::{Expected, MoveId, Span};
use core::fmt::Debug;
use sovia_link::Time;
use sovia_link::wire::{EndId, Packet, Readable};
use std::time::Instant;
use via::error::RegisterError;
use via::{Memory, NetAddress};

/// The network below a world. Frames that come and timers that go off are handed to the world by whatever drives
/// it ([`crate::World::frame`], [`crate::World::timer`]).
pub trait Medium: Debug + Send + 'static {
    /// A place that frames come from and go to.
    type Node: Copy + Eq + Debug + Send + Sync + 'static;

    /// Whether it moves long messages itself ([`crate::moving`]).
    const MOVES: bool = false;

    /// The present. It never goes back.
    fn now(&self) -> Time;

    /// Sends a packet from a node of this world. It may be lost.
    fn send<B: Readable>(&mut self, from: Self::Node, to: Self::Node, packet: &Packet<B>);

    /// Sets a timer, which goes off at that time, or soon if that is past.
    fn set_timer(&mut self, at: Time, timer: Timer);

    /// The node that has an address; `None` if the bytes are no address, or no node is known to have it.
    fn find(&self, host: &[u8]) -> Option<Self::Node>;

    /// Bytes of the longest frame that can be sent to a node, where the world asks paths what they take and the network knows it.
    fn frame_max(&self, to: Self::Node) -> Option<u32> {
        let _ = to;
        None
    }

    /// A name for an end of a connection: never [`EndId::NONE`], and never the same twice. Where others than the
    /// world's own nodes can send frames it must not be guessed either.
    fn name(&mut self) -> EndId;

    /// Whether frames that have come are just being handed in, so that a frame that is sent now costs more than one that
    /// is sent when they are through. Streams then wait for [`crate::World::catch_up`].
    fn is_receiving(&self) -> bool {
        false
    }

    /// Connections may be asked for at an address of this world, or not any more; as often the one as the other. For a medium
    /// whose nodes share an address with other worlds.
    fn listen(&mut self, address: &NetAddress, listens: bool) {
        let _ = (address, listens);
    }

    /// Bytes of the shortest reliable message to a node that the medium moves itself ([`crate::moving`]); `None`: all go in frames.
    fn moves_from(&self, to: Self::Node) -> Option<u32> {
        let _ = to;
        None
    }

    /// Parts of memory that one move may have.
    fn spans_max(&self) -> usize {
        1
    }

    /// Makes memory ready for an announced message, and has the node that has announced it told ([`crate::World::ready`]).
    fn expect(&mut self, id: MoveId, message: &Expected<Self::Node>, into: Vec<Span>) {
        let _ = (id, message, into);
    }

    /// Sends the bytes of an announced message to a node, which calls it `ticket`.
    fn dispatch(&mut self, id: MoveId, to: Self::Node, ticket: u64, from: Vec<Span>) {
        let _ = (id, to, ticket, from);
    }

    /// Tells a node that what it expects under `ticket` is not coming.
    fn withdraw(&mut self, to: Self::Node, ticket: u64) {
        let _ = (to, ticket);
    }

    /// A program registers memory; what the medium calls the region, if it has to know it.
    ///
    /// # Errors
    /// [`RegisterError`]: a limit of the system's.
    fn register(&mut self, memory: &Memory) -> Result<Option<u64>, RegisterError> {
        let _ = memory;
        Ok(None)
    }

    /// Nothing uses a region any more.
    fn deregister(&mut self, key: u64) {
        let _ = key;
    }

    /// Something that has happened, for a log.
    fn note(&mut self, words: &[u64]) {
        let _ = words;
    }
}

/// When a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// Never.
    Never,
    /// At a time of the medium's clock.
    At(Time),
    /// At a real time, where the medium's clock is another.
    Real(Instant),
}

/// What a timer is set for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timer(pub(crate) Purpose);

/// As [`Timer`], for the world itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Something has been posted to a send queue.
    Doorbell(ViId),
    /// A connection awaits an acknowledgement.
    Retransmit(EndId),
    /// A request awaits an answer.
    Request(EndId),
    /// An answer awaits being settled.
    Answer(EndId),
    /// A poke awaits being noticed; of the VI's attempt of that number.
    Poke(ViId, u64),
    /// A VI's attempt of that number has had its time.
    Expire(ViId, u64),
}
