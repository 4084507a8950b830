//! Scenarios over whole NICs: VIs with descriptors, completion queues and connections, as VIA programs use them.
//!
//! Each flow is a connection between two VIs of its own. A program posts all its receives before the first send. It
//! polls its NIC's completion queue once a microsecond.

use crate::outcome::{Latency, ViOutcome, thousandths};
use crate::scenario::Scenario;
use crate::traffic::{bound, flows};
use core::time::Duration;
use std::collections::VecDeque;
use via::cq::Attach;
use via::{
    Cause, Completion, CompletionQueue, DescriptorAddress, MemAttributes, MemHandle, Memory, Nic,
    Reliability, Vi, ViAttributes, ViState, WorkQueueKind,
};
use via_sim::{Change, Config, Network, Part, SimCq, SimNic, SimVi, Time};

/// Number of message bytes in a frame, and the distance between descriptors.
const MTU: u32 = 1444;
const DESCRIPTOR: usize = 128;
const LOOK: Duration = Duration::from_micros(1);
const ATTRIBUTES: ViAttributes = ViAttributes {
    reliability: Reliability::RELIABLE_DELIVERY,
    max_transfer_size: 64 << 10,
    ptag: None,
    enable_rdma_write: false,
    enable_rdma_read: false,
};

/// A VI, and memory with a descriptor and a buffer for each message.
struct End {
    node: u32,
    vi: SimVi,
    memory: Memory,
    handle: MemHandle,
    messages: usize,
    message: usize,
    /// Numbers of posted and of completed messages: all are sends, or all are receives.
    posted: usize,
    done: usize,
}

/// A flow. Its receiving end follows its sending end in the list of ends.
#[derive(Default)]
struct Flow {
    posted_at: VecDeque<Time>,
    arrived: u64,
}

struct Nodes<'s> {
    scenario: &'s Scenario,
    network: Network,
    nics: Vec<SimNic>,
    cqs: Vec<SimCq>,
    ends: Vec<End>,
    flows: Vec<Flow>,
    latencies: Vec<u64>,
    last_arrival: Time,
}

/// Runs a scenario over NICs until no event is left.
///
/// # Panics
/// Panics if a message arrives changed, or if a VIA call fails unexpectedly.
pub fn run_vis(scenario: &Scenario) -> ViOutcome {
    let mut nodes = Nodes::new(scenario, &flows(scenario));
    let begin = nodes.network.now();
    for fault in &scenario.faults {
        nodes.network.change(begin.after(fault.after), fault.change.clone());
    }
    for death in &scenario.deaths {
        let change = Change::Fail(Part::Access(death.node));
        nodes.network.change(begin.after(death.after), change);
    }
    nodes.play();
    nodes.outcome(begin)
}

impl End {
    fn new(scenario: &Scenario, node: u32, nic: &SimNic, cq: &SimCq, place: usize) -> End {
        let (messages, message) = (scenario.messages as usize, scenario.message as usize);
        let memory = Memory::zeroed(messages * (DESCRIPTOR + message));
        let open = MemAttributes { ptag: None, enable_rdma_write: false, enable_rdma_read: false };
        let handle = nic.register_mem(&memory, open).expect("memory is registered");
        let attach = Attach { send: Some(cq), recv: Some(cq), context: place as u64 };
        let vi = nic.create_vi_with(ATTRIBUTES, attach).expect("a VI is created");
        End { node, vi, memory, handle, messages, message, posted: 0, done: 0 }
    }

    fn buffer(&self, number: usize) -> usize {
        self.messages * DESCRIPTOR + number * self.message
    }

    /// Prepares the next descriptor, for the next message.
    fn prepare(&mut self) -> DescriptorAddress {
        let number = self.posted;
        self.posted += 1;
        let data = self.memory.segment(self.buffer(number), self.message as u32, self.handle);
        let address = self.memory.address(number * DESCRIPTOR);
        let descriptor = self.memory.descriptor_at(address).expect("it lies in the memory");
        descriptor.prepare(&[data], None).expect("it has one segment");
        DescriptorAddress { address, handle: self.handle }
    }

    fn bytes_of(&self, from: u32, number: usize) -> Vec<u8> {
        let mut bytes = vec![number as u8 ^ from as u8; self.message];
        let name = (u64::from(from) << 32 | number as u64).to_be_bytes();
        let begin = name.len().min(bytes.len());
        bytes[..begin].copy_from_slice(&name[..begin]);
        bytes
    }

    /// Checks the next received message.
    fn received(&mut self, from: u32) {
        let mut bytes = vec![0; self.message];
        assert!(self.memory.read(self.buffer(self.done), &mut bytes));
        assert!(bytes == self.bytes_of(from, self.done), "message {} is another", self.done);
        self.done += 1;
    }
}

impl Nodes<'_> {
    /// Makes all VIs, connects them, and posts all receives.
    fn new<'s>(scenario: &'s Scenario, flows: &[(u32, u32)]) -> Nodes<'s> {
        let config = Config {
            mtu: MTU,
            window: scenario.window as u32,
            control: scenario.control,
            retransmit_first: scenario.timing.first,
            retransmit_longest: scenario.timing.longest,
            retransmit_tries: scenario.timing.tries.unwrap_or(u32::MAX),
            ..Config::default().through(scenario.fabric)
        };
        let network = Network::new(scenario.seed, config);
        let nics: Vec<_> = (0..scenario.nodes).map(|n| network.nic(&format!("{n}"))).collect();
        let cqs: Vec<_> = nics.iter().map(|nic| nic.create_cq(1 << 16, 0)).collect();
        let cqs: Vec<_> = cqs.into_iter().map(|cq| cq.expect("a queue is created")).collect();
        let mut ends = Vec::new();
        for &(from, to) in flows {
            for node in [from, to] {
                let (nic, cq) = (&nics[node as usize], &cqs[node as usize]);
                ends.push(End::new(scenario, node, nic, cq, ends.len()));
            }
        }
        let address = |place: usize, end: &End| {
            nics[end.node as usize].address(&(place as u64).to_be_bytes())
        };
        for (place, end) in ends.iter().enumerate() {
            let (own, other) = (address(place, end), address(place ^ 1, &ends[place ^ 1]));
            let minute = Some(Duration::from_secs(60));
            end.vi.connect_peer_request(&own, &other, minute).expect("it may be connected");
        }
        for end in &ends {
            end.vi.connect_peer_wait().expect("it is connected");
        }
        for end in ends.iter_mut().skip(1).step_by(2) {
            for _ in 0..scenario.messages {
                let place = end.prepare();
                end.vi.post_recv(place).expect("a receive is posted");
            }
        }
        network.run_for(Duration::from_millis(1));
        let all = flows.iter().map(|_| Flow::default()).collect();
        let last_arrival = network.now();
        Nodes {
            scenario,
            network,
            nics,
            cqs,
            ends,
            flows: all,
            latencies: Vec::new(),
            last_arrival,
        }
    }

    fn play(&mut self) {
        (0..self.flows.len()).for_each(|flow| self.post(flow));
        // Time without events is skipped.
        while self.is_busy() && self.network.step() {
            self.network.run_for(LOOK);
            self.look();
        }
    }

    /// Returns true if a connected VI waits for a posted send.
    fn is_busy(&self) -> bool {
        let waits = |end: &End| end.vi.state() == ViState::Connected && end.done < end.posted;
        self.ends.iter().step_by(2).any(waits)
    }

    /// Posts as many sends as may be in progress.
    fn post(&mut self, flow: usize) {
        let end = &mut self.ends[2 * flow];
        let under_way = |end: &End| end.posted - end.done < self.scenario.depth as usize;
        while end.posted < end.messages && under_way(end) && end.vi.state() == ViState::Connected {
            let bytes = end.bytes_of(end.node, end.posted);
            assert!(end.memory.write(end.buffer(end.posted), &bytes));
            let place = end.prepare();
            end.vi.post_send(place).expect("a send is posted");
            self.flows[flow].posted_at.push_back(self.network.now());
        }
    }

    /// Takes completions at every NIC.
    fn look(&mut self) {
        for node in 0..self.cqs.len() {
            while let Some(entry) = self.cqs[node].done() {
                let place = entry.context as usize;
                let vi = &self.ends[place].vi;
                match entry.queue {
                    WorkQueueKind::Send => self.sent(place, vi.send_done().completion()),
                    WorkQueueKind::Recv => self.came(place, vi.recv_done().completion()),
                }
            }
        }
    }

    fn sent(&mut self, place: usize, done: Option<Completion>) {
        if done.is_some_and(|done| done.result().is_ok()) {
            self.ends[place].done += 1;
            self.post(place / 2);
        }
    }

    fn came(&mut self, place: usize, done: Option<Completion>) {
        let Some(Ok(_)) = done.map(|done| done.result()) else { return };
        let from = self.ends[place ^ 1].node;
        self.ends[place].received(from);
        let (flow, now) = (&mut self.flows[place / 2], self.network.now());
        let posted_at = flow.posted_at.pop_front().expect("it was posted");
        flow.arrived += 1;
        self.latencies.push(now.since(posted_at).as_nanos() as u64);
        self.last_arrival = now;
    }

    fn outcome(self, begin: Time) -> ViOutcome {
        let message = u64::from(self.scenario.message);
        let loads: Vec<_> = (self.flows.iter().enumerate())
            .map(|(n, flow)| {
                let [from, to] = [2 * n, 2 * n + 1].map(|end| self.ends[end].node);
                (from, to, flow.arrived * message)
            })
            .collect();
        let least = bound(&self.scenario.fabric, &loads);
        let broken = |cause: fn(Cause) -> bool| {
            let causes = self.ends.iter().filter_map(|end| end.vi.cause());
            causes.filter(|&it| cause(it)).count() as u32
        };
        let (counters, queueing) = (self.network.counters(), self.network.queueing());
        ViOutcome {
            goodput: thousandths(least, self.last_arrival.since(begin)),
            arrived: self.latencies.len() as u64,
            messages: self.flows.len() as u64 * u64::from(self.scenario.messages),
            latency: Latency::of(self.latencies),
            frames: counters.sent,
            overflowed: queueing.overflowed,
            cut: counters.cut,
            peer_died: broken(|cause| cause == Cause::PeerDied),
            broken_otherwise: broken(|cause| cause != Cause::PeerDied),
            done: (self.ends.iter().step_by(2)).filter(|end| end.done == end.messages).count()
                as u32,
            vis: self.ends.len() as u32,
            nics: self.nics.len() as u32,
        }
    }
}
