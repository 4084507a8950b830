//! Everything there is in a simulated network, and what happens to it next.

use crate::Config;
use crate::Time;
use crate::engine::{Conn, CqCore, ViCore};
use crate::ids::{CqId, ViId, WaiterId};
use crate::meeting::{Incoming, Outgoing, Peers, Waiter};
use crate::nic::NicShared;
use crate::port::{Event, Port};
use sovia_link::wire::{EndId, Packet, Word};
use sovia_simnet::NodeId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use via::AsyncError;
use via::event::Job;

/// What timers are set for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Timer {
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

/// When a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deadline {
    Never,
    Virtual(Time),
    Real(Instant),
}

/// A node: a NIC, however often it is opened.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) address: Box<[u8]>,
}

/// The whole state, under one lock.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) config: Config,
    pub(crate) net: Port<Timer>,
    pub(crate) nodes: Vec<Node>,
    /// The node that has an address.
    pub(crate) places: HashMap<Box<[u8]>, NodeId>,
    pub(crate) vis: HashMap<ViId, ViCore>,
    pub(crate) conns: HashMap<EndId, Conn>,
    pub(crate) cqs: HashMap<CqId, CqCore>,
    pub(crate) waiters: BTreeMap<WaiterId, Waiter>,
    pub(crate) incoming: BTreeMap<EndId, Incoming>,
    pub(crate) outgoing: HashMap<EndId, Outgoing>,
    pub(crate) peers: Peers,
    /// Callbacks to run, in order.
    pub(crate) jobs: Jobs,
    /// Something has happened that a waiting thread may wait for.
    pub(crate) news: bool,
    /// The network's own thread has been told that there is something to do.
    pub(crate) driver_called: bool,
    last_id: u64,
}

/// Callbacks that are to run.
#[derive(Default)]
pub(crate) struct Jobs {
    pub(crate) queue: VecDeque<(Arc<NicShared>, Job)>,
    /// Somebody is at it.
    pub(crate) busy: bool,
}

impl core::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} jobs", self.queue.len())
    }
}

impl World {
    pub(crate) fn new(seed: u64, config: Config) -> World {
        World {
            config,
            net: Port::new(seed, config.link),
            nodes: Vec::new(),
            places: HashMap::new(),
            vis: HashMap::new(),
            conns: HashMap::new(),
            cqs: HashMap::new(),
            waiters: BTreeMap::new(),
            incoming: BTreeMap::new(),
            outgoing: HashMap::new(),
            peers: Peers::default(),
            jobs: Jobs::default(),
            news: false,
            driver_called: false,
            last_id: 0,
        }
    }

    /// A number that names nothing yet.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Sends a packet without bytes of a message.
    pub(crate) fn send(&mut self, from: NodeId, to: NodeId, packet: Word) {
        self.net.send(from, to, &packet);
    }

    /// Has something run when the lock is free.
    pub(crate) fn run_later(&mut self, nic: &Arc<NicShared>, job: Job) {
        self.jobs.queue.push_back((nic.clone(), job));
    }

    /// Tells the NIC's error handler, in its turn.
    pub(crate) fn report(&mut self, nic: &Arc<NicShared>, error: AsyncError) {
        let told = nic.clone();
        self.run_later(nic, Box::new(move || told.tell(&error)));
    }

    /// Whether a wait is over.
    pub(crate) fn is_past(&self, deadline: Deadline) -> bool {
        match deadline {
            Deadline::Never => false,
            Deadline::Virtual(time) => self.net.now() >= time,
            Deadline::Real(instant) => Instant::now() >= instant,
        }
    }

    /// Lets the next thing happen; false if there is none.
    pub(crate) fn step(&mut self) -> bool {
        let Some(event) = self.net.step() else { return false };
        match event {
            Event::Frame { from, to, frame } => {
                if let Ok(packet) = self.net.parse(&frame) {
                    self.packet(from, to, packet);
                }
            }
            Event::Timer(timer) => self.timer(timer),
            Event::Nothing => {}
        }
        true
    }

    fn timer(&mut self, timer: Timer) {
        match timer {
            Timer::Doorbell(vi) => self.doorbell(vi),
            Timer::Retransmit(conn) => self.retransmit(conn),
            Timer::Request(request) => self.request_again(request),
            Timer::Answer(request) => self.answer_again(request),
            Timer::Poke(vi, attempt) => self.poke_again(vi, attempt),
            Timer::Expire(vi, attempt) => self.expire_attempt(vi, attempt),
        }
    }

    fn packet(&mut self, from: NodeId, at: NodeId, packet: Packet<&[u8]>) {
        match packet {
            Packet::Stream { to, from: peer, number, ack, item } => {
                self.stream_packet(at, from, to, peer, (number, ack, item));
            }
            Packet::Ack { to, from: peer, ack } => self.ack_packet(at, from, to, peer, ack),
            Packet::Datagram { to, from: peer, message, part } => {
                self.datagram(at, from, (to, peer), message, &part);
            }
            Packet::Gone { to } => self.peer_gone(to),
            Packet::Meeting(meeting) => self.meeting(at, from, meeting),
            // Those are channels'.
            Packet::Hello { .. } | Packet::Probe { .. } | Packet::Echo { .. } => self.net.refuse(),
        }
    }
}
