//! What carries the frames of a world, and its clock.

use crate::ids::ViId;
use core::fmt::Debug;
use sovia_link::Time;
use sovia_link::wire::{EndId, Packet, Readable};
use std::time::Instant;
use via::NetAddress;

/// The network below a world. Frames that come and timers that go off are handed to the world by whatever drives
/// it ([`crate::World::frame`], [`crate::World::timer`]).
pub trait Medium: Debug + Send + 'static {
    /// A place that frames come from and go to.
    type Node: Copy + Eq + Debug + Send + Sync + 'static;

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
