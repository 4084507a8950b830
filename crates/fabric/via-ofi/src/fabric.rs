//! An endpoint of libfabric, with a clock, as the medium of the engine.

use crate::alive::Alive;
use crate::doubts::{Answers, Doubts};
use crate::message;
use crate::moves::Moves;
use crate::nodes::{Node, Nodes};
use core::cell::RefCell;
use core::hash::BuildHasher;
use core::time::Duration;
use sovia_drive::{Clock, Descriptors, Driven, Terms};
use sovia_link::Time;
use sovia_link::wire::{Checksum, EndId, Packet, Readable};
use sovia_ofi::{Endpoint, Event};
use sovia_softnic::moving::{Expected, MoveId, Span};
use sovia_softnic::{Medium, Timer, World};
use std::collections::{BTreeMap, VecDeque};
use std::hash::RandomState;
use std::sync::Arc;
use via::Memory;
use via::error::RegisterError;

/// First sleep of a thread without a descriptor. Each further sleep without an event is twice as long.
const NAP: Duration = Duration::from_micros(20);
/// Longest such sleep.
const NAP_MAX: Duration = Duration::from_millis(1);
/// Time after which a provider without room is asked again.
const FULL: Duration = Duration::from_micros(100);

/// A message of a NIC to itself.
#[derive(Debug)]
pub(crate) enum Own {
    /// A frame.
    Frame(Vec<u8>),
    /// Memory is ready for an announced message.
    Ready(Expected<Node>, u64),
    /// A move is over; true if all bytes are there.
    Moved(MoveId, bool),
}

/// An endpoint with its clock.
#[derive(Debug)]
pub struct Fabric {
    pub(crate) endpoint: Endpoint,
    pub(crate) clock: Clock,
    pub(crate) alive: Alive,
    pub(crate) nodes: RefCell<Nodes>,
    /// Number by which peers know this NIC.
    number: u64,
    /// Messages of at least this length are moved.
    moves_from: u32,
    pub(crate) own: VecDeque<Own>,
    pub(crate) moves: Moves,
    /// Memory in which this NIC expects messages to itself, by ticket.
    within: BTreeMap<u64, (MoveId, Vec<Span>)>,
    /// Key and count from which tickets are drawn. No peer can guess another peer's ticket.
    tickets: (RandomState, u64),
    pub(crate) doubts: Doubts,
    /// Results of the threads that check nodes in doubt.
    pub(crate) answers: Arc<Answers>,
    /// Number of consecutive polls without an event.
    pub(crate) idle: u32,
    pub(crate) events: Vec<Event>,
    /// Number of invalid messages, and of messages from unknown NICs.
    pub(crate) strange: u64,
}

impl Fabric {
    pub(crate) fn new(endpoint: Endpoint, moves_from: u32, alike: bool) -> Option<Fabric> {
        let nodes = RefCell::new(Nodes::new(endpoint.address(), alike));
        Some(Fabric {
            clock: Clock::default(),
            alive: Alive::default(),
            nodes,
            number: random()?,
            moves_from,
            own: VecDeque::new(),
            moves: Moves::default(),
            within: BTreeMap::new(),
            tickets: (RandomState::new(), 0),
            doubts: Doubts::default(),
            answers: Answers::new().ok()?,
            idle: 0,
            events: Vec::new(),
            strange: 0,
            endpoint,
        })
    }

    /// Returns a new ticket, which no peer can guess.
    fn ticket(&mut self) -> u64 {
        let (state, count) = &mut self.tickets;
        loop {
            *count += 1;
            let ticket = state.hash_one(*count);
            if !self.moves.has(ticket) && !self.within.contains_key(&ticket) {
                return ticket;
            }
        }
    }

    /// Returns libfabric's name of a node. The first call for a node passes its address to libfabric.
    pub(crate) fn peer(&mut self, node: Node) -> Option<sovia_ofi::Peer> {
        let nodes = self.nodes.get_mut();
        if let Some(peer) = nodes.peer(node) {
            return Some(peer);
        }
        let peer = self.endpoint.peer(nodes.address(node)).ok()?;
        nodes.call(node, peer);
        Some(peer)
    }

    /// Sends a message to another node. The message is lost if no buffer is free. That is harmless: the engine
    /// retransmits frames, and messages about moves are repeated until they are answered.
    pub(crate) fn put(&mut self, to: Node, write: impl FnOnce(&mut [u8], u64) -> Option<usize>) {
        let number = self.number;
        if let Some(peer) = self.peer(to) {
            self.endpoint.send(peer, |room| write(room, number));
        }
    }

    /// Sends this NIC's address to a node.
    pub(crate) fn greet(&mut self, to: Node) {
        if self.peer(to).is_some_and(|peer| self.endpoint.is_stuck(peer)) {
            // A check of this node is in progress already.
            return;
        }
        let own: Box<[u8]> = self.endpoint.address().into();
        self.put(to, |room, number| message::begin(room, number, Some(&own)));
    }

    /// Ends the moves from and to a lost node, and drops the operations that wait for it.
    pub(crate) fn abandon(&mut self, node: Node) {
        if let Some(peer) = self.nodes.get_mut().peer(node) {
            self.endpoint.give_up(peer);
        }
        let (lent, expected) = self.moves.abandon(node);
        lent.iter().for_each(|id| self.endpoint.take_back(id.0));
        let over = lent.into_iter().chain(expected);
        self.own.extend(over.map(|id| Own::Moved(id, false)));
    }

    /// Copies a message of this NIC to itself.
    fn copy(&mut self, id: MoveId, ticket: u64, from: &[Span]) {
        let Some((place, into)) = self.within.remove(&ticket) else {
            self.own.push_back(Own::Moved(id, false));
            return;
        };
        let mut bytes = Vec::new();
        for span in from {
            let at = bytes.len();
            bytes.resize(at + span.len as usize, 0);
            span.memory.read(span.at, &mut bytes[at..]);
        }
        let mut rest = &bytes[..];
        for span in &into {
            let (now, later) = rest.split_at(rest.len().min(span.len as usize));
            span.memory.write(span.at, now);
            rest = later;
        }
        self.own.push_back(Own::Moved(place, true));
        self.own.push_back(Own::Moved(id, true));
    }
}

/// Returns a random number from the kernel.
fn random() -> Option<u64> {
    let mut bytes = [0; 8];
    let drawn = sovia_sys::call::getrandom(&mut bytes);
    (drawn == Ok(bytes.len())).then(|| u64::from_ne_bytes(bytes))
}

fn spans(spans: Vec<Span>) -> Vec<sovia_ofi::Span> {
    let span = |it: Span| {
        let Span { memory, at, len, key } = it;
        sovia_ofi::Span { memory, at, len, key }
    };
    spans.into_iter().map(span).collect()
}

impl Medium for Fabric {
    type Node = Node;
    const MOVES: bool = true;

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn send<B: Readable>(&mut self, _from: Node, to: Node, packet: &Packet<B>) {
        if to == Node::OWN {
            let mut frame = Vec::new();
            packet.emit_for(&mut frame, Checksum::Link);
            self.own.push_back(Own::Frame(frame));
            return;
        }
        let introduces = matches!(packet, Packet::Meeting(_)) | self.nodes.get_mut().introduce(to);
        let own: Option<Box<[u8]>> = introduces.then(|| self.endpoint.address().into());
        self.put(to, |room, number| {
            if own.is_none()
                && let Some(len) = message::whole(room, number, packet)
            {
                return Some(len);
            }
            let begin = message::begin(room, number, own.as_deref())?;
            let len = packet.emit_into_for(room.get_mut(begin..)?, Checksum::Link)?;
            Some(begin + len)
        });
    }

    fn set_timer(&mut self, at: Time, timer: Timer) {
        self.clock.set(at, timer);
    }

    fn find(&self, host: &[u8]) -> Option<Node> {
        self.nodes.borrow_mut().find(host)
    }

    /// Returns a random name from the kernel, so that a frame of an older connection names no current end.
    fn name(&mut self) -> EndId {
        loop {
            // Without random bytes from the kernel there is no safe way to continue.
            if let Some(name) = random().map(EndId).filter(|name| *name != EndId::NONE) {
                return name;
            }
        }
    }

    fn moves_from(&self, _to: Node) -> Option<u32> {
        Some(self.moves_from)
    }

    fn spans_max(&self) -> usize {
        self.endpoint.limits().parts
    }

    fn expect(&mut self, id: MoveId, message: &Expected<Node>, into: Vec<Span>) {
        let ticket = self.ticket();
        if message.from == Node::OWN {
            self.within.insert(ticket, (id, into));
            self.own.push_back(Own::Ready(*message, ticket));
            return;
        }
        self.moves.expect(ticket, id, *message, spans(into));
        self.tell_ready(ticket, message);
    }

    fn dispatch(&mut self, id: MoveId, to: Node, ticket: u64, from: Vec<Span>) {
        if to == Node::OWN {
            return self.copy(id, ticket, &from);
        }
        match self.endpoint.lend(id.0, &spans(from)) {
            Ok(parts) => {
                self.tell_lent(to, ticket, &parts);
                self.moves.lend(to, ticket, id, parts);
            }
            // The peer gets this answer when it repeats that it is ready.
            Err(_) => self.own.push_back(Own::Moved(id, false)),
        }
    }

    fn withdraw(&mut self, to: Node, ticket: u64) {
        if to == Node::OWN {
            if let Some((place, _)) = self.within.remove(&ticket) {
                self.own.push_back(Own::Moved(place, false));
            }
            return;
        }
        self.put(to, |room, sender| message::withdrawn(room, sender, ticket));
    }

    fn register(&mut self, memory: &Memory) -> Result<Option<u64>, RegisterError> {
        self.endpoint.register(memory).map_err(|_| RegisterError::TooManyBytes)
    }

    fn deregister(&mut self, key: u64) {
        self.endpoint.deregister(key);
    }
}

impl Driven for Fabric {
    const THREAD: &'static str = "libfabric";

    fn take(world: &mut World<Fabric>) -> usize {
        Fabric::arrivals(world)
    }

    fn step(world: &mut World<Fabric>) -> bool {
        Fabric::due(world)
    }

    fn flush(&mut self) {
        self.endpoint.flush();
    }

    fn next_timer(&self) -> Option<Time> {
        self.clock.next().into_iter().chain(self.alive.next()).min()
    }

    fn pass(&self) {
        self.clock.pass();
    }

    fn terms(&mut self, until: Option<Time>) -> Terms {
        let now = self.clock.now();
        let frames = self.endpoint.descriptor();
        let nap = match frames {
            Some(_) if self.endpoint.about_to_sleep() => None,
            Some(_) => Some(now),
            None => Some(now.after((NAP * 2u32.pow(self.idle.min(8))).min(NAP_MAX))),
        };
        let full = self.endpoint.is_full().then(|| now.after(FULL));
        let until = [until, self.next_timer(), nap, full].into_iter().flatten().min();
        Terms {
            descriptors: Descriptors {
                frames: frames.unwrap_or(-1),
                room: -1,
                news: Some(self.answers.descriptor()),
            },
            frames: true,
            room: false,
            until: until.map(Time::nanos),
        }
    }

    fn woken(&mut self, news: bool) {
        if news {
            self.answers.hush();
        }
    }

    fn is_gone(&self) -> bool {
        false
    }
}
