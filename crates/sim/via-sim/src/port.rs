//! The simulated network as the medium of NICs in software: frames are bytes on it, and corrupt ones are corrupt.

use crate::Time;
use sovia_link::wire::{EndId, Packet, Readable};
use sovia_simnet::{Change, Counters, Fabric, Link, Log, Net, NodeId, Queueing};
use sovia_softnic::{Medium, Timer};
use std::collections::HashMap;
use std::sync::Arc;

/// The network, its nodes and their timers.
#[derive(Debug)]
pub struct Port {
    net: Net<Arc<[u8]>, Timer>,
    nodes: Vec<Node>,
    /// The node that has an address.
    places: HashMap<Box<[u8]>, NodeId>,
    /// Where frames are put together.
    frame: Vec<u8>,
    /// The last name that was given to an end.
    last_name: u64,
    /// The network's own thread has been told that there is something to do.
    driver_called: bool,
}

/// A node: a NIC, however often it is opened.
#[derive(Debug)]
struct Node {
    name: String,
    address: Box<[u8]>,
}

/// What happens.
#[derive(Debug)]
pub(crate) enum Event {
    /// A frame has come to a node.
    Frame { from: NodeId, to: NodeId, frame: Arc<[u8]> },
    /// A timer goes off.
    Timer(Timer),
    /// Time has passed.
    Nothing,
}

impl Port {
    pub(crate) fn new(seed: u64, link: Link, fabric: Option<Fabric>) -> Port {
        Port {
            net: fabric.map_or_else(|| Net::new(seed, link), |fabric| Net::switched(seed, fabric)),
            nodes: Vec::new(),
            places: HashMap::new(),
            frame: Vec::new(),
            last_name: 0,
            driver_called: false,
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

    /// The next thing that happens; `None` if there is none.
    pub(crate) fn step(&mut self) -> Option<Event> {
        Some(match self.net.step()? {
            sovia_simnet::Event::Packet(packet) => {
                let (from, to, mut frame) = (packet.from, packet.to, packet.payload);
                if packet.corrupt {
                    // Which byte is all the same: the checksum finds it.
                    let place = self.net.now().nanos() as usize % frame.len();
                    Arc::make_mut(&mut frame)[place] ^= 0x10;
                }
                Event::Frame { from, to, frame }
            }
            sovia_simnet::Event::Timer(timer) => Event::Timer(timer),
            sovia_simnet::Event::Changed => Event::Nothing,
        })
    }

    /// Whether the network's own thread is to be told now that there is something to do.
    pub(crate) fn call_driver(&mut self) -> bool {
        let call = !self.driver_called && self.net.next_time().is_some();
        self.driver_called |= call;
        call
    }

    /// Whether the thread has been told, and is not done.
    pub(crate) fn driver_called(&mut self, called: bool) {
        self.driver_called = called;
    }

    /// The present, as the simulated network counts it.
    pub(crate) fn time(&self) -> Time {
        self.net.now()
    }

    pub(crate) fn next_time(&self) -> Option<Time> {
        self.net.next_time()
    }

    pub(crate) fn pass(&mut self, to: Time) {
        self.net.pass(to);
    }

    pub(crate) fn change(&mut self, at: Time, change: Change) {
        self.net.change(at, change);
    }

    pub(crate) fn log(&self) -> Log {
        self.net.log()
    }

    pub(crate) fn queueing(&self) -> Queueing {
        self.net.queueing()
    }

    pub(crate) fn counters(&self) -> Counters {
        self.net.counters()
    }
}

impl Medium for Port {
    type Node = NodeId;

    fn now(&self) -> sovia_link::Time {
        sovia_link::Time::from_nanos(self.net.now().nanos())
    }

    fn send<B: Readable>(&mut self, from: NodeId, to: NodeId, packet: &Packet<B>) {
        packet.emit(&mut self.frame);
        self.net.send(from, to, self.frame.len() as u32, self.frame.as_slice().into());
    }

    fn set_timer(&mut self, at: sovia_link::Time, timer: Timer) {
        self.net.set_timer(Time::from_nanos(at.nanos()), timer);
    }

    fn find(&self, host: &[u8]) -> Option<NodeId> {
        self.places.get(host).copied()
    }

    /// All nodes are this world's: numbers do.
    fn name(&mut self) -> EndId {
        self.last_name += 1;
        EndId(self.last_name)
    }

    fn note(&mut self, words: &[u64]) {
        self.net.note(words);
    }
}
