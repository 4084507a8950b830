//! The network: nodes, packets on their way, timers.

use crate::dice::Dice;
use crate::faults::{Change, Cuts};
use crate::node::NodeId;
use crate::queue::Queue;
use crate::{Link, Log, Time};
use core::time::Duration;
use std::collections::{BTreeMap, HashMap};

/// A packet at its destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery<P> {
    /// The node that sent it.
    pub from: NodeId,
    /// Where it is.
    pub to: NodeId,
    /// What it carries.
    pub payload: P,
    /// It was damaged on its way: its bytes are not to be believed. (The payload is as it was
    /// sent; a receiver that has a checksum would see that it does not match.)
    pub damaged: bool,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<P, T> {
    /// A packet arrives.
    Packet(Delivery<P>),
    /// A timer goes off.
    Timer(T),
    /// The network itself has changed.
    Changed,
}

/// What has become of packets so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that arrived, duplicates and damaged ones included.
    pub arrived: u64,
    /// Packets that were lost by chance.
    pub lost: u64,
    /// Packets that were lost because their link's queue was full.
    pub overflowed: u64,
    /// Packets that were lost because their nodes cannot reach each other.
    pub cut: u64,
    /// Duplicates.
    pub duplicated: u64,
    /// Packets that were damaged.
    pub damaged: u64,
    /// Packets that others were allowed to overtake.
    pub reordered: u64,
}

#[derive(Debug)]
enum Pending<P, T> {
    Packet(Delivery<P>, u32),
    Timer(T),
    Change(Change),
}

/// State of one direction between two nodes.
#[derive(Debug, Default)]
struct Lane {
    /// When the link has sent what it was given.
    busy_until: Time,
    /// When the last packet that must not be overtaken arrives.
    last_arrival: Time,
}

/// A network whose packets carry `P` and whose timers `T`.
#[derive(Debug)]
pub struct Net<P, T> {
    now: Time,
    dice: Dice,
    nodes: u32,
    link: Link,
    links: BTreeMap<(NodeId, NodeId), Link>,
    lanes: HashMap<(NodeId, NodeId), Lane>,
    cuts: Cuts,
    pending: Queue<Pending<P, T>>,
    log: Log,
    counters: Counters,
}

impl<P: Clone, T> Net<P, T> {
    /// A network without nodes, all of whose links are like `link`, that draws from `seed`.
    pub fn new(seed: u64, link: Link) -> Net<P, T> {
        Net {
            now: Time::ZERO,
            dice: Dice::new(seed),
            nodes: 0,
            link,
            links: BTreeMap::new(),
            lanes: HashMap::new(),
            cuts: Cuts::default(),
            pending: Queue::new(),
            log: Log::new(),
            counters: Counters::default(),
        }
    }

    /// Another node.
    pub fn add_node(&mut self) -> NodeId {
        self.nodes += 1;
        NodeId(self.nodes - 1)
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A fingerprint of all that has happened.
    pub fn log(&self) -> Log {
        self.log
    }

    /// Puts something of the user's into the log, with the time.
    pub fn note(&mut self, words: &[u64]) {
        self.log.record(&[0, self.now.nanos()]);
        self.log.record(words);
    }

    /// What has become of packets.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Sets a timer, which goes off at that time, or now if that is past.
    pub fn set_timer(&mut self, at: Time, timer: T) {
        self.pending.push(at.max(self.now), Pending::Timer(timer));
    }

    /// Has the network change at that time, or now if that is past: in any case as an event of
    /// its own.
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
        let link = *self.links.get(&(from, to)).unwrap_or(&self.link);
        let lane = self.lanes.entry((from, to)).or_default();
        if !link.has_room(bytes, lane.busy_until.since(self.now)) {
            self.counters.overflowed += 1;
            return;
        }
        // A lost packet has occupied its link too.
        lane.busy_until = lane.busy_until.max(self.now).after(link.occupied(bytes));
        if self.dice.chance(link.loss) {
            self.counters.lost += 1;
            return;
        }
        let copies = if self.dice.chance(link.duplicate) { 2 } else { 1 };
        self.counters.duplicated += copies - 1;
        for _ in 0..copies {
            let damaged = self.dice.chance(link.corrupt);
            self.counters.damaged += u64::from(damaged);
            let late = self.dice.chance(link.reorder);
            let at = self.arrival(from, to, &link, late);
            let delivery = Delivery { from, to, payload: payload.clone(), damaged };
            self.pending.push(at, Pending::Packet(delivery, bytes));
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

    /// When the next event is, if there is one.
    pub fn next_time(&self) -> Option<Time> {
        self.pending.next_time()
    }

    /// The next event, whose time becomes the present. A packet that gets lost at its destination
    /// is an event too ([`Event::Changed`]: nothing but time).
    pub fn step(&mut self) -> Option<Event<P, T>> {
        let (at, pending) = self.pending.pop()?;
        self.now = self.now.max(at);
        let now = self.now.nanos();
        Some(match pending {
            Pending::Packet(delivery, bytes) => {
                let (from, to) = (delivery.from, delivery.to);
                if self.cuts.between(from, to) {
                    self.counters.cut += 1;
                    self.log.record(&[1, now, from.0.into(), to.0.into()]);
                    return Some(Event::Changed);
                }
                self.counters.arrived += 1;
                let damaged = u64::from(delivery.damaged);
                let words = [2, now, from.0.into(), to.0.into(), bytes.into(), damaged];
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
        })
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Sever(a, b) => self.cuts.sever(a, b),
            Change::Mend(a, b) => self.cuts.mend(a, b),
            Change::Partition(island) => self.cuts.partition(island),
            Change::Heal => self.cuts.heal(),
            Change::Link(from, to, link) => drop(self.links.insert((from, to), link)),
        }
    }

    /// Lets time pass up to `to`, or to the next event if that is before.
    pub fn pass(&mut self, to: Time) {
        let to = self.next_time().map_or(to, |next| next.min(to));
        self.now = self.now.max(to);
    }

    /// Lets a while pass, as [`Net::pass`].
    pub fn pass_for(&mut self, while_: Duration) {
        self.pass(self.now.after(while_));
    }
}
