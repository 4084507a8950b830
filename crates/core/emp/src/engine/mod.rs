//! The NIC: it takes posts, frames and the time, and makes frames and outcomes of them.

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

/// The program's memory, which posted pieces name. It is asked for what pieces name that are posted and have not ended, and for
/// nothing else.
pub trait Memory {
    /// Reads the bytes at an address.
    fn read(&self, address: u64, into: &mut [u8]);

    /// Writes bytes to an address.
    fn write(&self, address: u64, bytes: &[u8]);
}

/// Where frames go.
pub trait Sink<A> {
    /// Sends a frame, for which it lends room to `write`. That gives the frame's length; `None` if the room is too short: then
    /// nothing is sent. False if there is no room now.
    fn send(&mut self, to: &A, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool;
}

/// What an engine works with during a call.
#[allow(missing_debug_implementations)]
pub struct Io<'a, A> {
    /// The descriptors.
    pub array: &'a Array,
    /// The program's memory.
    pub memory: &'a dyn Memory,
    /// Where frames go.
    pub sink: &'a mut dyn Sink<A>,
    /// The time, which never goes back.
    pub now: Time,
}

/// How a station speaks.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The name of this process's station, drawn at random: a frame that does not name it is not for it.
    pub name: EndId,
    /// What a peer has to know to be answered.
    pub key: u64,
    /// Whether frames bear a checksum.
    pub checksum: Checksum,
    /// Frames that are acknowledged together: 1 to [`COLLECTION_MAX`]. The paper has 3.
    pub collection: u8,
    /// How long an answer is awaited, and how often.
    pub timing: Timing,
    /// How long a peer may be silent in the middle of a message before it is asked whether it is there.
    pub silence: Duration,
    /// Whether a station that knows the key becomes a peer by saying hello.
    pub takes_strangers: bool,
}

impl Config {
    /// The paper's collections; a silent peer is given up after about a quarter of a minute.
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

/// What has become of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Frames that have come.
    pub came: u64,
    /// Of them, frames that break the format.
    pub malformed: u64,
    /// Frames of strangers, for strangers, or of an older process of a peer.
    pub foreign: u64,
    /// Parts of messages that had come before.
    pub again: u64,
    /// First frames that have found no receive.
    pub dropped: u64,
    /// Later frames of messages that have found none.
    pub unmatched: u64,
    /// Collections that were sent, and those of them that had been sent before.
    pub collections: u64,
    /// See `collections`.
    pub resent: u64,
    /// Time-outs.
    pub timeouts: u64,
    /// Sends and receives that have ended.
    pub ended: u64,
}

/// A NIC. `A` is how its peers are addressed.
#[derive(Debug)]
pub struct Engine<A> {
    config: Config,
    /// Bytes of a message in a frame.
    size: u16,
    peers: Vec<Peer<A>>,
    actives: Vec<Active>,
    spare: Vec<u16>,
    outgoing: Box<[Option<Outgoing>]>,
    incoming: Box<[Option<Incoming>]>,
    matching: Matching,
    posts: Posts,
    /// Those that may have something to send.
    ready: VecDeque<u16>,
    /// Those that have something to acknowledge.
    owed: Vec<u16>,
    timers: BinaryHeap<Reverse<(Time, u16)>>,
    hellos: u64,
    chance: u64,
    counters: Counters,
}

impl<A: Copy + PartialEq> Engine<A> {
    /// A NIC without peers, whose frames have at most so many bytes.
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

    /// Messages that are posted from now on travel in frames of at most so many bytes.
    pub fn set_frame_max(&mut self, bytes: usize) {
        let size = bytes.saturating_sub(OVERHEAD).clamp(1, usize::from(u16::MAX));
        self.size = size as u16;
    }

    /// Frames of a collection, of messages that are posted from now on.
    pub fn set_collection(&mut self, frames: u8) {
        self.config.collection = frames.clamp(1, COLLECTION_MAX);
    }

    /// Another peer, which wants to see that key; its number. One that became a peer by itself has its number already. `None` if
    /// there are as many as there are numbers.
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

    /// How many peers there are.
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    /// The address of a peer.
    pub fn address_of(&self, node: Node) -> Option<A> {
        self.peers.get(usize::from(node)).map(|peer| peer.address)
    }

    /// Peers with which something is under way.
    pub fn busy_peers(&self) -> usize {
        self.actives.len() - self.spare.len()
    }

    /// What has become of frames so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Takes a frame that has come from an address.
    pub fn frame(&mut self, io: &mut Io<'_, A>, address: &A, bytes: &[u8]) {
        self.counters.came += 1;
        // A receive that was posted before the frame came is there before it.
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
                // It is for an older process with this address.
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

    /// Does something with a frame of a peer, if it is one.
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

    /// The active state of a peer that has sent a frame; `None` if no peer has.
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
            // It knows this station's name: the peer may be another process by now.
            self.ask(io, sender);
        }
        None
    }

    /// A random number, on which nothing depends but which of two ends goes first.
    fn chance(&mut self) -> u32 {
        // xorshift64*
        self.chance ^= self.chance >> 12;
        self.chance ^= self.chance << 25;
        self.chance ^= self.chance >> 27;
        (self.chance.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// The active state of a peer.
    fn activate(&mut self, now: Time, node: Node) -> u16 {
        let peer = &mut self.peers[usize::from(node)];
        if peer.active == NONE {
            peer.active = self.spare.pop().unwrap_or_else(|| {
                self.actives.push(Active::new());
                // There are no more of them than nodes.
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

    /// Something has changed of a peer: sets its timer, or lets its active state go.
    fn settle(&mut self, at: u16) {
        let deadline = self.deadline(at);
        let active = &mut self.actives[usize::from(at)];
        if let Some(deadline) = deadline
            && active.armed.is_none_or(|armed| deadline < armed)
        {
            active.armed = Some(deadline);
            self.timers.push(Reverse((deadline, at)));
        }
        // While a timer is set it stays: the next message may be just behind, and finds the window as it is.
        if active.armed.is_none() && active.is_idle() {
            self.release(at);
        }
    }

    fn release(&mut self, at: u16) {
        let active = &mut self.actives[usize::from(at)];
        if active.peer == ANY_NODE {
            // It has been let go already.
            return;
        }
        let round_trip = active.rtt.mean().unwrap_or(0);
        let peer = &mut self.peers[usize::from(active.peer)];
        peer.round_trip = u32::try_from(round_trip).unwrap_or(u32::MAX);
        peer.active = NONE;
        active.peer = ANY_NODE;
        self.spare.push(at);
    }

    /// Says something to a peer. It may get lost, as anything may.
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
