//! Everything there is in a simulated network. What happens to it is said above: `engine`, `meeting`, `events`.

mod attempt;
mod conn;
mod cq;
mod peers;
mod request;
mod vi;

pub(crate) use attempt::{Attempt, Role};
pub(crate) use conn::Conn;
pub(crate) use cq::CqCore;
pub(crate) use peers::Peers;
pub(crate) use request::{Incoming, Outgoing, Waiter};
pub(crate) use vi::{Progress, Started, ViCore, Workqueue};

use crate::Config;
use crate::Time;
use crate::card::Card;
use crate::ids::{CqId, ViId, WaiterId};
use crate::port::Port;
use sovia_link::wire::{EndId, Word};
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
    pub(crate) queue: VecDeque<(Arc<Card>, Job)>,
    /// A thread is running them.
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

    /// The node that has a name, and its address. It is there from the first time on.
    pub(crate) fn node(&mut self, name: &str) -> (NodeId, Box<[u8]>) {
        let known = self.nodes.iter().position(|node| node.name == name);
        if let Some(known) = known {
            return (NodeId(known as u32), self.nodes[known].address.clone());
        }
        let node = self.net.add_node();
        // As an Ethernet card of local administration would have it.
        let [a, b, c, d] = node.0.to_be_bytes();
        let address: Box<[u8]> = [2, 0x51, a, b, c, d].into();
        self.nodes.push(Node { name: name.into(), address: address.clone() });
        self.places.insert(address.clone(), node);
        (node, address)
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
    pub(crate) fn run_later(&mut self, nic: &Arc<Card>, job: Job) {
        self.jobs.queue.push_back((nic.clone(), job));
    }

    /// Tells the NIC's error handler, in its turn.
    pub(crate) fn report(&mut self, nic: &Arc<Card>, error: AsyncError) {
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
}
