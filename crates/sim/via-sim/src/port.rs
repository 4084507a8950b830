//! The simulated network as the medium of NICs in software. Frames are bytes, and corrupt frames have wrong bytes.

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
    /// Nodes by address.
    places: HashMap<Box<[u8]>, NodeId>,
    /// Buffer in which frames are assembled.
    frame: Vec<u8>,
    /// Last name given to an end.
    last_name: u64,
    /// True if the network's thread has been notified of pending events.
    driver_called: bool,
}

/// A node: a NIC, which may be opened several times.
#[derive(Debug)]
struct Node {
    name: String,
    address: Box<[u8]>,
}

/// An event.
#[derive(Debug)]
pub(crate) enum Event {
    /// A frame has arrived at a node.
    Frame { from: NodeId, to: NodeId, frame: Arc<[u8]> },
    /// A timer expires.
    Timer(Timer),
    /// Only time has passed.
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

    /// Returns the node with a name, and its address. The first call for a name makes the node.
    pub(crate) fn node(&mut self, name: &str) -> (NodeId, Box<[u8]>) {
        let known = self.nodes.iter().position(|node| node.name == name);
        if let Some(known) = known {
            return (NodeId(known as u32), self.nodes[known].address.clone());
        }
        let node = self.net.add_node();
        // The address looks like a locally administered Ethernet address.
        let [a, b, c, d] = node.0.to_be_bytes();
        let address: Box<[u8]> = [2, 0x51, a, b, c, d].into();
        self.nodes.push(Node { name: name.into(), address: address.clone() });
        self.places.insert(address.clone(), node);
        (node, address)
    }

    /// Returns the next event; `None` if there is none.
    pub(crate) fn step(&mut self) -> Option<Event> {
        Some(match self.net.step()? {
            sovia_simnet::Event::Packet(packet) => {
                let (from, to, mut frame) = (packet.from, packet.to, packet.payload);
                if packet.corrupt {
                    // Changes any byte, because the checksum detects the change in each.
                    let place = self.net.now().nanos() as usize % frame.len();
                    Arc::make_mut(&mut frame)[place] ^= 0x10;
                }
                Event::Frame { from, to, frame }
            }
            sovia_simnet::Event::Timer(timer) => Event::Timer(timer),
            sovia_simnet::Event::Changed => Event::Nothing,
        })
    }

    /// Returns true if the network's thread must be notified now of pending events.
    pub(crate) fn call_driver(&mut self) -> bool {
        let call = !self.driver_called && self.net.next_time().is_some();
        self.driver_called |= call;
        call
    }

    /// Records whether the thread has been notified and has work left.
    pub(crate) fn driver_called(&mut self, called: bool) {
        self.driver_called = called;
    }

    /// Returns the present time of the simulated network.
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

    /// Names are consecutive numbers, because all nodes belong to this world.
    fn name(&mut self) -> EndId {
        self.last_name += 1;
        EndId(self.last_name)
    }

    fn note(&mut self, words: &[u64]) {
        self.net.note(words);
    }
}
