//! All ends and nodes on the network, from the first event to the last.

use super::end::{End, Frame, Phase};
use super::node::{Node, RING};
use crate::outcome::{Frames, Latency, Outcome, State, fairness, thousandths};
use crate::scenario::Scenario;
use crate::traffic::{bound, flows};
use core::time::Duration;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sovia_link::Time;
use sovia_simnet::{Change, Event, Net, NodeId, Part};
use std::collections::BTreeMap;

/// Bytes that Ethernet, IP and UDP add to a frame, including the gap between two frames.
const AROUND: u32 = 38 + 28;
/// Time within which flows begin.
const BEGIN: u64 = 10_000;

/// Purpose of a timer.
#[derive(Debug, Clone, Copy)]
enum Timer {
    /// An end begins to send.
    Begin(u32),
    /// An end's stream must handle the passing of time.
    End(u32),
    /// A node's card has room again.
    Card(u32),
    /// A node dies.
    Death(u32),
}

/// A frame, and the end that it is for.
type Addressed = (u32, Frame);

struct World<'s> {
    scenario: &'s Scenario,
    net: Net<Addressed, Timer>,
    nodes: Vec<Node>,
    /// Ends of streams. The two ends of a stream have an even number and the next one.
    ends: Vec<End>,
    latencies: Vec<u64>,
    last_arrival: Time,
    /// Number of message bytes that have arrived, and that are expected in total.
    arrived: u64,
    bytes: u64,
    /// Jain's index when half of the bytes had arrived; goodput when nine tenths of them had.
    fairness: Option<u32>,
    bulk: Option<u32>,
}

/// Runs a scenario until no event is left.
///
/// # Panics
/// Panics if a message arrives changed, or if an end gets an acknowledgement of an unsent item.
pub fn run(scenario: &Scenario) -> Outcome {
    let flows = flows(scenario);
    let mut world = World::new(scenario, &flows);
    while let Some(event) = world.net.step() {
        world.happens(event);
    }
    world.outcome()
}

fn link_time(time: sovia_simnet::Time) -> Time {
    Time::from_nanos(time.nanos())
}

fn net_time(time: Time) -> sovia_simnet::Time {
    sovia_simnet::Time::from_nanos(time.nanos())
}

impl World<'_> {
    fn new<'s>(scenario: &'s Scenario, flows: &[(u32, u32)]) -> World<'s> {
        let mut net = Net::switched(scenario.seed, scenario.fabric);
        let mut nodes = Vec::new();
        for _ in 0..scenario.nodes {
            net.add_node();
            nodes.push(Node::default());
        }
        let mut ends = Vec::new();
        let mut streams = BTreeMap::new();
        let mut random = ChaCha8Rng::seed_from_u64(scenario.seed);
        for &(from, to) in flows {
            let pair = (from.min(to), from.max(to));
            let first = *streams.entry(pair).or_insert_with(|| {
                // Random epochs, one from each end.
                let (a, b) = (random.next_u32().into(), random.next_u32().into());
                let other = End::new(scenario, pair.1, (b, a));
                ends.extend([End::new(scenario, pair.0, (a, b)), other]);
                ends.len() as u32 - 2
            });
            let end = if from == pair.0 { first } else { first + 1 };
            ends[end as usize].outgoing.all = scenario.messages;
            let at = random.next_u64() % BEGIN;
            net.set_timer(sovia_simnet::Time::from_nanos(at), Timer::Begin(end));
        }
        let moment = |after: Duration| sovia_simnet::Time::ZERO.after(after);
        for fault in &scenario.faults {
            net.change(moment(fault.after), fault.change.clone());
        }
        for death in &scenario.deaths {
            net.set_timer(moment(death.after), Timer::Death(death.node.0));
            net.change(moment(death.after), Change::Fail(Part::Access(death.node)));
        }
        let flow_bytes = u64::from(scenario.message) * u64::from(scenario.messages);
        let mut world = World {
            scenario,
            net,
            nodes,
            ends,
            latencies: Vec::new(),
            last_arrival: Time::ZERO,
            arrived: 0,
            bytes: flow_bytes * flows.len() as u64,
            fairness: None,
            bulk: None,
        };
        (0..world.ends.len() as u32).for_each(|end| world.account(end));
        world
    }

    fn now(&self) -> Time {
        link_time(self.net.now())
    }

    fn happens(&mut self, event: Event<Addressed, Timer>) {
        match event {
            Event::Packet(packet) => {
                let ((end, frame), from) = (packet.payload, packet.from.0);
                self.came(end, from, frame, packet.marked);
            }
            Event::Timer(Timer::Begin(end)) => self.progress(end),
            Event::Timer(Timer::End(id)) => {
                let now = self.now();
                let end = &mut self.ends[id as usize];
                if end.timer.is_some_and(|timer| timer <= now) {
                    end.timer = None;
                    end.tick(now);
                    self.progress(id);
                }
            }
            Event::Timer(Timer::Card(node)) => {
                self.nodes[node as usize].looks_at = None;
                self.transmit(node);
            }
            Event::Timer(Timer::Death(node)) => {
                let of_node = self.ends.iter_mut().filter(|end| end.node == node);
                of_node.for_each(|end| end.phase = Phase::Dead);
            }
            Event::Changed => {}
        }
    }

    fn came(&mut self, id: u32, from: u32, frame: Frame, marked: bool) {
        let now = self.now();
        let taken = self.ends[id as usize].came(from, frame, marked, now);
        let outgoing = &mut self.ends[(id ^ 1) as usize].outgoing;
        outgoing.arrived_bytes += taken.bytes;
        self.arrived += taken.bytes;
        for _ in 0..taken.messages {
            let posted_at = outgoing.posted_at.pop_front().expect("it was posted");
            self.latencies.push(now.since(posted_at).as_nanos() as u64);
            outgoing.arrived += 1;
            self.last_arrival = now;
        }
        if self.fairness.is_none() && self.arrived >= self.bytes / 2 {
            self.fairness = Some(self.fairness_by_now());
        }
        if self.bulk.is_none() && self.arrived >= self.bytes / 10 * 9 {
            self.bulk = Some(thousandths(self.least(), now.since(Time::ZERO)));
        }
        self.progress(id);
    }

    /// Posts and sends what an end may send by now.
    fn progress(&mut self, id: u32) {
        let now = self.now();
        let end = &mut self.ends[id as usize];
        if end.phase != Phase::Dead {
            end.post(self.scenario, now);
            if !core::mem::replace(&mut end.is_ready, true) {
                self.nodes[end.node as usize].ready.push_back(id);
            }
            let node = end.node;
            self.transmit(node);
        }
        self.account(id);
    }

    /// Lets a node's ends send in turn, while its ring has room.
    fn transmit(&mut self, node: u32) {
        let now = self.now();
        while let Some(&id) = self.nodes[node as usize].ready.front() {
            let sent_by = link_time(self.net.sent_by(NodeId(node)));
            if sent_by.since(now) > RING {
                // Checks again when half of the ring is empty.
                let at = Time::from_nanos(sent_by.nanos() - RING.as_nanos() as u64 / 2);
                if self.nodes[node as usize].looks_at.is_none() {
                    self.nodes[node as usize].looks_at = Some(at);
                    self.net.set_timer(net_time(at), Timer::Card(node));
                }
                return;
            }
            self.nodes[node as usize].ready.pop_front();
            let peer = self.ends[(id ^ 1) as usize].node;
            let end = &mut self.ends[id as usize];
            if let Some(frame) = end.next_out(now) {
                let bytes = frame.bytes() + AROUND;
                self.net.send(NodeId(node), NodeId(peer), bytes, (id ^ 1, frame));
                self.nodes[node as usize].ready.push_back(id);
                continue;
            }
            end.is_ready = false;
            if let Some(deadline) = end.deadline()
                && end.timer.is_none_or(|timer| timer > deadline)
            {
                end.timer = Some(deadline);
                self.net.set_timer(net_time(deadline), Timer::End(id));
            }
        }
    }

    /// Updates the count of an end's memory.
    fn account(&mut self, id: u32) {
        let end = &mut self.ends[id as usize];
        let node = &mut self.nodes[end.node as usize];
        let bytes = end.state_bytes();
        node.bytes = node.bytes + bytes - end.bytes;
        node.most_bytes = node.most_bytes.max(node.bytes);
        end.most_bytes = end.most_bytes.max(bytes);
        end.bytes = bytes;
    }

    fn senders(&self) -> impl Iterator<Item = &End> {
        self.ends.iter().filter(|end| end.outgoing.all > 0)
    }

    fn fairness_by_now(&self) -> u32 {
        fairness(&self.senders().map(|end| end.outgoing.arrived_bytes).collect::<Vec<_>>())
    }

    /// Returns the shortest time that the network needs for the bytes that have arrived.
    fn least(&self) -> Duration {
        let flow = |(id, end): (usize, &End)| {
            (end.node, self.ends[id ^ 1].node, end.outgoing.arrived_bytes)
        };
        let flows: Vec<_> = self.ends.iter().enumerate().map(flow).collect();
        bound(&self.scenario.fabric, &flows)
    }

    fn outcome(self) -> Outcome {
        let (took, least) = (self.last_arrival.since(Time::ZERO), self.least());
        let goodput = thousandths(least, took);
        let (counters, queueing) = (self.net.counters(), self.net.queueing());
        let mut frames = Frames {
            sent: counters.sent,
            overflowed: counters.overflowed,
            cut: counters.cut,
            marked: queueing.marked,
            queued: queueing.most_bytes,
            ..Frames::default()
        };
        for counts in self.ends.iter().map(End::counts) {
            frames.again += counts.again;
            frames.mistaken += counts.mistaken;
            frames.timeouts += counts.timeouts;
        }
        let is_stuck = |end: &&End| end.phase == Phase::Open && !end.outgoing.is_done();
        let given_up = self.ends.iter().filter(|end| end.phase == Phase::GivenUp).count();
        let most = |of: fn(&Node) -> u64| self.nodes.iter().map(of).max().unwrap_or(0);
        let end = self.ends.iter().map(|end| end.most_bytes).max().unwrap_or(0);
        let state =
            State { end, node: most(|node| node.most_bytes), idle_node: most(|node| node.bytes) };
        Outcome {
            took,
            goodput,
            bulk: self.bulk.unwrap_or(goodput),
            fairness: self.fairness.unwrap_or_else(|| self.fairness_by_now()),
            arrived: self.latencies.len() as u64,
            messages: self.senders().map(|end| u64::from(end.outgoing.all)).sum(),
            given_up: given_up as u32,
            stuck: self.senders().filter(is_stuck).count() as u32,
            latency: Latency::of(self.latencies),
            frames,
            state,
        }
    }
}
