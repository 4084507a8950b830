//! The network: nodes, packets in flight, timers.

use crate::dice::Dice;
use crate::fabric::{Fabric, Fate, Hop, Queueing, Switches};
use crate::faults::{Change, Cuts};
use crate::node::NodeId;
use crate::queue::Queue;
use crate::{Link, Log, Time};
use core::time::Duration;
use std::collections::{BTreeMap, HashMap};

/// A packet at its destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery<P> {
    /// Sending node.
    pub from: NodeId,
    /// Receiving node.
    pub to: NodeId,
    /// Payload of the packet.
    pub payload: P,
    /// True if the packet is corrupt, so that its bytes must not be trusted. The payload itself is unchanged: a
    /// receiver with a checksum would find that the checksum does not match.
    pub corrupt: bool,
    /// True if a switch has marked the packet (ECN CE), because it had to wait behind many others.
    pub marked: bool,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<P, T> {
    /// A packet arrives.
    Packet(Delivery<P>),
    /// A timer expires.
    Timer(T),
    /// The network has changed, or only time has passed.
    Changed,
}

/// Counters of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets sent.
    pub sent: u64,
    /// Packets that arrived, including duplicates and corrupt ones.
    pub arrived: u64,
    /// Packets lost by chance.
    pub lost: u64,
    /// Packets lost because their nodes cannot reach each other.
    pub cut: u64,
    /// Packets without room in the queue of a link or switch.
    pub overflowed: u64,
    /// Duplicates.
    pub duplicated: u64,
    /// Corrupt packets.
    pub corrupt: u64,
    /// Packets that others were allowed to overtake.
    pub reordered: u64,
}

#[derive(Debug)]
enum Pending<P, T> {
    Packet(Delivery<P>, u32),
    /// A packet has passed a cable of the fabric.
    Hop(Delivery<P>, u32, Hop),
    Timer(T),
    Change(Change),
    /// The switches react to failed parts.
    Reroute,
}

/// State of one direction between two nodes.
#[derive(Debug, Default)]
struct Lane {
    /// Time when the link has sent all packets given to it.
    busy_until: Time,
    /// Arrival time of the last packet that must not be overtaken.
    last_arrival: Time,
}

/// A network with packets of type `P` and timers of type `T`.
#[derive(Debug)]
pub struct Net<P, T> {
    now: Time,
    dice: Dice,
    nodes: u32,
    link: Link,
    links: BTreeMap<(NodeId, NodeId), Link>,
    lanes: HashMap<(NodeId, NodeId), Lane>,
    cuts: Cuts,
    switches: Option<Switches>,
    pending: Queue<Pending<P, T>>,
    log: Log,
    counters: Counters,
}

impl<P: Clone, T> Net<P, T> {
    /// Makes a network without nodes. All its links behave like `link`, and its random choices come from `seed`.
    pub fn new(seed: u64, link: Link) -> Net<P, T> {
        Net {
            now: Time::ZERO,
            dice: Dice::new(seed),
            nodes: 0,
            link,
            links: BTreeMap::new(),
            lanes: HashMap::new(),
            cuts: Cuts::default(),
            switches: None,
            pending: Queue::new(),
            log: Log::new(),
            counters: Counters::default(),
        }
    }

    /// Makes a network whose nodes are joined by switches. Packets are not lost by chance.
    pub fn switched(seed: u64, fabric: Fabric) -> Net<P, T> {
        let switches = Some(Switches::new(fabric, seed));
        Net { switches, ..Net::new(seed, Link::perfect()) }
    }

    /// Adds a node.
    pub fn add_node(&mut self) -> NodeId {
        if let Some(switches) = &mut self.switches {
            switches.add_node();
        }
        self.nodes += 1;
        NodeId(self.nodes - 1)
    }

    /// Returns the present time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns a fingerprint of all events so far.
    pub fn log(&self) -> Log {
        self.log
    }

    /// Adds words of the user to the log, with the time.
    pub fn note(&mut self, words: &[u64]) {
        self.log.record(&[0, self.now.nanos()]);
        self.log.record(words);
    }

    /// Returns the counters of packets.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the counters of the switches' queues; all zero without switches.
    pub fn queueing(&self) -> Queueing {
        self.switches.as_ref().map(Switches::queueing).unwrap_or_default()
    }

    /// Returns the time when all packets that a node has sent so far have left it. The time may be past. A node with
    /// little send memory waits for this time. Without switches, it is the present.
    pub fn sent_by(&self, node: NodeId) -> Time {
        self.switches.as_ref().map_or(self.now, |switches| switches.sent_by(node))
    }

    /// Sets a timer. It expires at the given time, or now if that time is past.
    pub fn set_timer(&mut self, at: Time, timer: T) {
        self.pending.push(at.max(self.now), Pending::Timer(timer));
    }

    /// Schedules a change of the network at the given time, or now if that time is past. The change is always a
    /// separate event.
    pub fn change(&mut self, at: Time, change: Change) {
        self.pending.push(at.max(self.now), Pending::Change(change));
    }

    /// Sends a packet that occupies `bytes` on its link.
    pub fn send(&mut self, from: NodeId, to: NodeId, bytes: u32, payload: P) {
        self.counters.sent += 1;
        if self.cuts.between(from, to) {
            self.counters.cut += 1;
            return;
        }
        if let Some(switches) = &mut self.switches {
            let fate = switches.send(from, bytes, self.now);
            let delivery = Delivery { from, to, payload, corrupt: false, marked: false };
            self.travel(delivery, bytes, fate);
            return;
        }
        let link = *self.links.get(&(from, to)).unwrap_or(&self.link);
        let lane = self.lanes.entry((from, to)).or_default();
        if !link.has_room(bytes, lane.busy_until.since(self.now)) {
            self.counters.overflowed += 1;
            return;
        }
        // A lost packet has also occupied its link.
        lane.busy_until = lane.busy_until.max(self.now).after(link.occupied(bytes));
        if self.dice.chance(link.loss) {
            self.counters.lost += 1;
            return;
        }
        let copies = if self.dice.chance(link.duplicate) { 2 } else { 1 };
        self.counters.duplicated += copies - 1;
        for _ in 0..copies {
            let corrupt = self.dice.chance(link.corrupt);
            self.counters.corrupt += u64::from(corrupt);
            let late = self.dice.chance(link.reorder);
            let at = self.arrival(from, to, &link, late);
            let delivery = Delivery { from, to, payload: payload.clone(), corrupt, marked: false };
            self.pending.push(at, Pending::Packet(delivery, bytes));
        }
    }

    /// Moves a packet on in the fabric, or drops it.
    fn travel(&mut self, mut delivery: Delivery<P>, bytes: u32, fate: Fate) {
        match fate {
            Fate::Travels(at, hop, marked) => {
                delivery.marked |= marked;
                self.pending.push(at, Pending::Hop(delivery, bytes, hop));
            }
            Fate::Overflowed => self.counters.overflowed += 1,
            Fate::Cut => self.counters.cut += 1,
            Fate::Arrived => {}
        }
    }

    fn arrival(&mut self, from: NodeId, to: NodeId, link: &Link, late: bool) -> Time {
        let lane = self.lanes.entry((from, to)).or_default();
        let at = lane.busy_until.after(link.latency).after(self.dice.below(link.jitter));
        if late {
            self.counters.reordered += 1;
            return at.after(self.dice.below(link.reorder_delay));
        }
        lane.last_arrival = lane.last_arrival.max(at);
        lane.last_arrival
    }

    /// Returns the time of the next event, if there is one.
    pub fn next_time(&self) -> Option<Time> {
        self.pending.next_time()
    }

    /// Returns the next event, and advances the present to its time. A packet that gets lost at its destination is an
    /// event too ([`Event::Changed`]). A packet's passage through a switch is not.
    pub fn step(&mut self) -> Option<Event<P, T>> {
        loop {
            let (at, pending) = self.pending.pop()?;
            self.now = self.now.max(at);
            let Pending::Hop(delivery, bytes, hop) = pending else {
                return Some(self.happens(pending));
            };
            let Some(switches) = &mut self.switches else { continue };
            match switches.passed(hop, (delivery.from, delivery.to), bytes, self.now) {
                Fate::Arrived => return Some(self.happens(Pending::Packet(delivery, bytes))),
                fate => self.travel(delivery, bytes, fate),
            }
        }
    }

    fn happens(&mut self, pending: Pending<P, T>) -> Event<P, T> {
        let now = self.now.nanos();
        match pending {
            Pending::Packet(delivery, bytes) | Pending::Hop(delivery, bytes, _) => {
                let (from, to) = (delivery.from, delivery.to);
                if self.cuts.between(from, to) {
                    self.counters.cut += 1;
                    self.log.record(&[1, now, from.0.into(), to.0.into()]);
                    return Event::Changed;
                }
                self.counters.arrived += 1;
                let state = u64::from(delivery.corrupt) | u64::from(delivery.marked) << 1;
                let words = [2, now, from.0.into(), to.0.into(), bytes.into(), state];
                self.log.record(&words);
                Event::Packet(delivery)
            }
            Pending::Timer(timer) => {
                self.log.record(&[3, now]);
                Event::Timer(timer)
            }
            Pending::Change(change) => {
                self.log.record(&[4, now]);
                self.apply(change);
                Event::Changed
            }
            Pending::Reroute => {
                if let Some(switches) = &mut self.switches {
                    switches.reroute();
                }
                Event::Changed
            }
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Sever(a, b) => self.cuts.sever(a, b),
            Change::Mend(a, b) => self.cuts.mend(a, b),
            Change::Partition(island) => self.cuts.partition(island),
            Change::Heal => self.cuts.heal(),
            Change::Link(from, to, link) => drop(self.links.insert((from, to), link)),
            Change::Fail(part) => {
                let now = self.now;
                self.change_fabric(|switches| switches.fail(part, now));
            }
            Change::Recover(part) => self.change_fabric(|switches| switches.recover(part)),
        }
    }

    /// Makes a part of the fabric fail or recover. The switches react after the time `reroute`.
    fn change_fabric(&mut self, change: impl FnOnce(&mut Switches)) {
        let Some(switches) = &mut self.switches else { return };
        change(switches);
        let at = self.now.after(switches.fabric().reroute);
        self.pending.push(at, Pending::Reroute);
    }

    /// Advances the present to `to`, or to the next event if that is earlier.
    pub fn pass(&mut self, to: Time) {
        let to = self.next_time().map_or(to, |next| next.min(to));
        self.now = self.now.max(to);
    }

    /// Advances the present by a duration, like [`Net::pass`].
    pub fn pass_for(&mut self, while_: Duration) {
        self.pass(self.now.after(while_));
    }
}
