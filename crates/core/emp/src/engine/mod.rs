//! The NIC, which turns posts, frames and the time into frames and outcomes.

mod ending;
mod greeting;
mod posts;
mod receiving;
mod sending;
mod timers;

use crate::active::Active;
use crate::array::{Array, DESCRIPTORS, Posts};
use crate::matching::Matching;
use crate::message::{Incoming, Outgoing};
use crate::peer::{NONE, Peer};
use crate::wire::{Body, COLLECTION_MAX, Frame, OVERHEAD};
use crate::{ANY_NODE, Node};
use core::cmp::Reverse;
use core::time::Duration;
use sovia_link::Time;
use sovia_link::stream::Timing;
use sovia_link::wire::{Checksum, EndId};
use std::collections::{BinaryHeap, VecDeque};

/// The program's memory, to which posted pieces point. The engine accesses only pieces of posts that have not ended.
pub trait Memory {
    /// Reads the bytes at an address.
    fn read(&self, address: u64, into: &mut [u8]);

    /// Writes bytes to an address.
    fn write(&self, address: u64, bytes: &[u8]);
}

/// Sends frames to peers.
pub trait Sink<A> {
    /// Lends memory to `write`, which writes a frame and returns its length. Then sends the frame. If the memory is too
    /// short, `write` returns `None` and nothing is sent. Returns false if the sink has no room now.
    fn send(&mut self, to: &A, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool;
}

/// The environment of an engine during a call.
#[allow(missing_debug_implementations)]
pub struct Io<'a, A> {
    /// The descriptors.
    pub array: &'a Array,
    /// The program's memory.
    pub memory: &'a dyn Memory,
    /// The sink for frames.
    pub sink: &'a mut dyn Sink<A>,
    /// The time, which never decreases.
    pub now: Time,
}

/// Configuration of a station.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The station's random name. The station ignores frames that do not name it.
    pub name: EndId,
    /// The key that a peer must know to get an answer.
    pub key: u64,
    /// The checksum of frames, if they have one.
    pub checksum: Checksum,
    /// Number of frames per acknowledgement: 1 to [`COLLECTION_MAX`]. The paper uses 3.
    pub collection: u8,
    /// Times to wait for an answer, and number of attempts.
    pub timing: Timing,
    /// Time that a peer may be silent in the middle of a message, before the station asks if the peer is alive.
    pub silence: Duration,
    /// Set if an unknown station that knows the key becomes a peer when it sends a hello.
    pub takes_strangers: bool,
}

impl Config {
    /// Returns the paper's configuration. A silent peer is given up after about 15 seconds.
    pub fn new(name: EndId, key: u64) -> Config {
        Config {
            name,
            key,
            checksum: Checksum::Crc,
            collection: 3,
            timing: Timing {
                first: Duration::from_millis(2),
                longest: Duration::from_secs(1),
                tries: Some(24),
            },
            silence: Duration::from_secs(1),
            takes_strangers: false,
        }
    }
}

/// Counters of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Frames received.
    pub came: u64,
    /// Received frames with an invalid format.
    pub malformed: u64,
    /// Received frames from unknown stations, for other stations, or from an earlier process of a peer.
    pub foreign: u64,
    /// Received parts of messages that had already arrived.
    pub again: u64,
    /// First frames of messages, dropped because no receive matched.
    pub dropped: u64,
    /// Later frames of messages that have met no receive.
    pub unmatched: u64,
    /// Collections sent, including those sent again.
    pub collections: u64,
    /// Collections sent again.
    pub resent: u64,
    /// Time-outs.
    pub timeouts: u64,
    /// Sends and receives that have ended.
    pub ended: u64,
}

/// A NIC. `A` is the type of its peers' addresses.
#[derive(Debug)]
pub struct Engine<A> {
    config: Config,
    /// Maximum number of bytes of a message in one frame.
    size: u16,
    peers: Vec<Peer<A>>,
    actives: Vec<Active>,
    spare: Vec<u16>,
    outgoing: Box<[Option<Outgoing>]>,
    incoming: Box<[Option<Incoming>]>,
    matching: Matching,
    posts: Posts,
    /// Peers that may have data to send.
    ready: VecDeque<u16>,
    /// Peers with an acknowledgement to send.
    owed: Vec<u16>,
    timers: BinaryHeap<Reverse<(Time, u16)>>,
    hellos: u64,
    chance: u64,
    counters: Counters,
}

impl<A: Copy + PartialEq> Engine<A> {
    /// Returns a NIC without peers, whose frames have at most `frame_max` bytes.
    pub fn new(config: Config, frame_max: usize) -> Engine<A> {
        let collection = config.collection.clamp(1, COLLECTION_MAX);
        let mut engine = Engine {
            chance: config.name.0 | 1,
            config: Config { collection, ..config },
            size: 1,
            peers: Vec::new(),
            actives: Vec::new(),
            spare: Vec::new(),
            outgoing: vec![None; DESCRIPTORS].into(),
            incoming: vec![None; DESCRIPTORS].into(),
            matching: Matching::default(),
            posts: Posts::default(),
            ready: VecDeque::new(),
            owed: Vec::new(),
            timers: BinaryHeap::new(),
            hellos: 0,
            counters: Counters::default(),
        };
        engine.set_frame_max(frame_max);
        engine
    }

    /// Limits the frames of messages that are posted from now on to `bytes` bytes.
    pub fn set_frame_max(&mut self, bytes: usize) {
        let size = bytes.saturating_sub(OVERHEAD).clamp(1, usize::from(u16::MAX));
        self.size = size as u16;
    }

    /// Sets the number of frames per collection, for messages that are posted from now on.
    pub fn set_collection(&mut self, frames: u8) {
        self.config.collection = frames.clamp(1, COLLECTION_MAX);
    }

    /// Adds a peer that requires the key `key`, and returns the peer's number. A peer that has already sent a hello
    /// keeps its number. Returns `None` if all numbers are in use.
    pub fn add_peer(&mut self, array: &Array, address: A, key: u64) -> Option<Node> {
        let is_it = |peer: &Peer<A>| self.config.takes_strangers && peer.address == address;
        if let Some(node) = self.peers.iter().position(is_it) {
            self.peers[node].key = key;
            return Some(node as Node);
        }
        self.another(array, address, key)
    }

    fn another(&mut self, array: &Array, address: A, key: u64) -> Option<Node> {
        let node = Node::try_from(self.peers.len()).ok().filter(|&node| node != ANY_NODE)?;
        self.peers.push(Peer::new(address, key));
        array.set_nodes(self.peers.len());
        Some(node)
    }

    /// Returns the number of peers.
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    /// Returns the address of a peer.
    pub fn address_of(&self, node: Node) -> Option<A> {
        self.peers.get(usize::from(node)).map(|peer| peer.address)
    }

    /// Returns the number of peers with transfers under way.
    pub fn busy_peers(&self) -> usize {
        self.actives.len() - self.spare.len()
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Handles a frame from an address.
    pub fn frame(&mut self, io: &mut Io<'_, A>, address: &A, bytes: &[u8]) {
        self.counters.came += 1;
        // A receive that was posted before the frame arrived must match the frame.
        self.take_posts(io);
        let Ok(Frame { to, from, body }) = Frame::parse(bytes, self.config.checksum) else {
            self.counters.malformed += 1;
            return;
        };
        if let Body::Hello(hello) = body {
            return self.hello(io, address, from, &hello);
        }
        if to != self.config.name {
            self.counters.foreign += 1;
            if from != EndId::NONE {
                // The frame is for an earlier process at this address.
                let body = Body::Gone { name: to };
                self.say_to(io, address, from, body);
            }
            return;
        }
        match body {
            Body::Hello(_) => {}
            Body::Welcome(greeting) => self.welcome(io, from, &greeting),
            Body::Gone { name } => self.gone(io, name),
            Body::Data { sender, head, message, ack, bytes } => {
                let Some(at) = self.heard(io, sender, from) else { return };
                if let Some(ack) = ack {
                    self.acked(io, at, &ack);
                }
                self.data(io, at, head, message, bytes);
                self.settle(at);
            }
            Body::Ack { sender, ack } => {
                self.with(io, sender, from, |engine, io, at| engine.acked(io, at, &ack));
            }
            Body::Refused { sender, id, why } => {
                self.with(io, sender, from, |engine, io, at| engine.refused(io, at, id, why));
            }
            Body::Noted { sender, id } => {
                self.with(io, sender, from, |engine, _, at| engine.noted(at, id));
            }
            Body::NotReady { sender, id, is_early } => {
                self.with(io, sender, from, |engine, io, at| {
                    engine.not_ready(io.now, at, id, is_early);
                });
            }
            Body::Go { sender, tag } => {
                self.with(io, sender, from, |engine, _, at| engine.go(at, tag));
            }
        }
    }

    /// Calls `take` if the frame comes from a peer.
    fn with(
        &mut self,
        io: &mut Io<'_, A>,
        sender: Node,
        from: EndId,
        take: impl FnOnce(&mut Engine<A>, &mut Io<'_, A>, u16),
    ) {
        if let Some(at) = self.heard(io, sender, from) {
            take(self, io, at);
            self.settle(at);
        }
    }

    /// Returns the active state of the peer that sent a frame; `None` if the sender is no peer.
    fn heard(&mut self, io: &mut Io<'_, A>, sender: Node, from: EndId) -> Option<u16> {
        let peer = self.peers.get(usize::from(sender));
        let is_it = peer.map(|peer| peer.name == from);
        if is_it == Some(true) {
            let at = self.activate(io.now, sender);
            self.active(at).heard = io.now;
            return Some(at);
        }
        self.counters.foreign += 1;
        if is_it == Some(false) {
            // The sender knows this station's name, so the peer may be another process now.
            self.ask(io, sender);
        }
        None
    }

    /// Returns a random number. Only delays depend on it.
    fn chance(&mut self) -> u32 {
        // xorshift64*
        self.chance ^= self.chance >> 12;
        self.chance ^= self.chance << 25;
        self.chance ^= self.chance >> 27;
        (self.chance.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// Returns the active state of a peer, and creates the state if necessary.
    fn activate(&mut self, now: Time, node: Node) -> u16 {
        let peer = &mut self.peers[usize::from(node)];
        if peer.active == NONE {
            peer.active = self.spare.pop().unwrap_or_else(|| {
                self.actives.push(Active::new());
                // The number of active states is at most the number of nodes, so it fits.
                (self.actives.len() - 1) as u16
            });
            self.actives[usize::from(peer.active)].begin(node, peer.round_trip, now);
        }
        peer.active
    }

    fn active(&mut self, at: u16) -> &mut Active {
        &mut self.actives[usize::from(at)]
    }

    fn peer_at(&mut self, at: u16) -> &mut Peer<A> {
        let node = self.actives[usize::from(at)].peer;
        &mut self.peers[usize::from(node)]
    }

    /// Updates the timer of a peer after a change, or releases its active state.
    fn settle(&mut self, at: u16) {
        let deadline = self.deadline(at);
        let active = &mut self.actives[usize::from(at)];
        if let Some(deadline) = deadline
            && active.armed.is_none_or(|armed| deadline < armed)
        {
            active.armed = Some(deadline);
            self.timers.push(Reverse((deadline, at)));
        }
        // While a timer is set the state stays, so that a message soon after this one finds its window.
        if active.armed.is_none() && active.is_idle() {
            self.release(at);
        }
    }

    fn release(&mut self, at: u16) {
        let active = &mut self.actives[usize::from(at)];
        if active.peer == ANY_NODE {
            // The state was released before.
            return;
        }
        let round_trip = active.rtt.mean().unwrap_or(0);
        let peer = &mut self.peers[usize::from(active.peer)];
        peer.round_trip = u32::try_from(round_trip).unwrap_or(u32::MAX);
        peer.active = NONE;
        active.peer = ANY_NODE;
        self.spare.push(at);
    }

    /// Sends a frame without data to a peer. The frame may get lost.
    fn say(
        &mut self,
        io: &mut Io<'_, A>,
        node: Node,
        body: impl FnOnce(Node) -> Body<[u8; 0]>,
    ) -> bool {
        let peer = &self.peers[usize::from(node)];
        let (to, address) = (peer.name, peer.address);
        let body = body(peer.known_as);
        to != EndId::NONE && self.say_to(io, &address, to, body)
    }

    fn say_to(&self, io: &mut Io<'_, A>, address: &A, to: EndId, body: Body<[u8; 0]>) -> bool {
        let from = if matches!(body, Body::Gone { .. }) { EndId::NONE } else { self.config.name };
        let frame = Frame { to, from, body };
        io.sink.send(address, &mut |room| frame.emit(room, self.config.checksum))
    }
}
