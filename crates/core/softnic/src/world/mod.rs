//! All state above one network. `engine`, `meeting` and `events` implement its changes.

mod arriving;
mod attempt;
mod conn;
mod cq;
mod moving;
mod peers;
mod request;
mod vi;

pub(crate) use arriving::{Arrived, Arriving, Bytes};
pub(crate) use attempt::{Attempt, Role};
pub(crate) use conn::Conn;
pub(crate) use cq::CqCore;
pub(crate) use moving::{Announced, Coming, Lending, Move, Way};
pub(crate) use peers::Peers;
pub(crate) use request::{Incoming, Outgoing, Waiter};
pub(crate) use vi::{Progress, Started, ViCore, Workqueue};

use crate::card::Card;
use crate::config::Config;
use crate::ids::{CqId, ViId, WaiterId};
use crate::medium::{Deadline, Medium};
use crate::moving::MoveId;
use crate::registered::Registrations;
use crate::table::Table;
use sovia_link::buffers::Buffers;
use sovia_link::wire::{EndId, Word};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use via::AsyncError;
use via::event::Job;

/// All state above one network, under one lock. [`crate::Driver`] states a driver's duties.
#[derive(Debug)]
pub struct World<M: Medium> {
    pub(crate) config: Config,
    pub(crate) net: M,
    pub(crate) vis: Table<ViId, ViCore<M::Node>>,
    pub(crate) conns: Table<EndId, Conn<M::Node>>,
    pub(crate) cqs: Table<CqId, CqCore<M::Node>>,
    pub(crate) waiters: BTreeMap<WaiterId, Waiter<M::Node>>,
    pub(crate) incoming: BTreeMap<EndId, Incoming<M::Node>>,
    pub(crate) outgoing: Table<EndId, Outgoing<M::Node>>,
    pub(crate) peers: Peers,
    /// Messages that the medium is moving.
    pub(crate) moving: BTreeMap<MoveId, Move<M::Node>>,
    /// Received requests, the oldest first.
    pub(crate) asked: VecDeque<EndId>,
    /// Ends that owe an acknowledgement. Some may have sent it since.
    pub(crate) owing: Vec<EndId>,
    /// Ends that may have frames to send after all received frames have been passed in.
    pub(crate) later: Vec<EndId>,
    /// Buffers for outgoing messages.
    pub(crate) buffers: Buffers,
    pub(crate) counters: Counters,
    /// Callbacks to run, in order.
    jobs: Jobs<M::Node>,
    /// Set after an event for which a thread may be waiting.
    pub(crate) news: bool,
    /// Set after a request has arrived for a waiting thread.
    pub(crate) requests: bool,
    pub(crate) registrations: Registrations,
    /// Set once the network has failed permanently.
    pub(crate) is_gone: bool,
    last_id: u64,
}

/// Counts of dropped frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Frames that were corrupt, or that a correct peer could not have sent.
    pub malformed: u64,
    /// Frames from a node, or for an end, that does not take part in the connection or request.
    pub strangers: u64,
}

/// Queued callbacks.
struct Jobs<N> {
    queue: VecDeque<Callback<N>>,
    /// Set while a thread is running callbacks.
    busy: bool,
}

impl<N> core::fmt::Debug for Jobs<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} jobs", self.queue.len())
    }
}

/// A callback of the program. Run it without the world's lock.
pub struct Callback<N> {
    nic: Arc<Card<N>>,
    job: Job,
}

impl<N> core::fmt::Debug for Callback<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Callback")
    }
}

impl<N> Callback<N> {
    /// Runs the callback in this thread.
    pub fn run_here(self) {
        (self.job)();
    }

    /// Runs the callback in the NIC's callback thread, after earlier ones.
    pub fn run_in_thread(self) {
        self.nic.dispatcher.run(self.job);
        // This thread holds no locks here.
        self.nic.dispatcher.run_waiting();
    }
}

impl<M: Medium> World<M> {
    /// Creates a world without NICs.
    pub fn new(net: M, config: Config) -> World<M> {
        World {
            config,
            net,
            vis: Table::default(),
            conns: Table::default(),
            cqs: Table::default(),
            waiters: BTreeMap::new(),
            incoming: BTreeMap::new(),
            outgoing: Table::default(),
            peers: Peers::default(),
            moving: BTreeMap::new(),
            asked: VecDeque::new(),
            owing: Vec::new(),
            later: Vec::new(),
            buffers: Buffers::default(),
            counters: Counters::default(),
            jobs: Jobs { queue: VecDeque::new(), busy: false },
            news: false,
            requests: false,
            registrations: Registrations::default(),
            is_gone: false,
            last_id: 0,
        }
    }

    /// Returns the network.
    pub fn medium(&self) -> &M {
        &self.net
    }

    /// Returns the network.
    pub fn medium_mut(&mut self) -> &mut M {
        &mut self.net
    }

    /// Returns the counts of dropped frames.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Number of connection ends that are open, or whose peers may not know that they are closed.
    pub fn connection_ends(&self) -> usize {
        self.conns.len()
    }

    /// Returns true if there are connections or outgoing requests.
    pub fn has_peers(&self) -> bool {
        !self.conns.is_empty() || !self.outgoing.is_empty()
    }

    /// Returns the peers' nodes of all connections and outgoing requests, except where a node is its own peer.
    pub fn peers(&self) -> Vec<M::Node> {
        let mut peers = Vec::new();
        let ends = self.conns.iter_named().map(|(_, conn)| (conn.node, conn.peer_node));
        let asked = self.outgoing.iter_named().map(|(_, it)| (it.node, it.to));
        for (own, peer) in ends.chain(asked) {
            if own != peer && !peers.contains(&peer) {
                peers.push(peer);
            }
        }
        peers
    }

    /// Returns true if all connections are closed and no request or answer is pending.
    pub fn is_quiet(&self) -> bool {
        let answers = || self.incoming.values().any(|it| it.answer.is_some() && !it.is_over());
        self.conns.is_empty() && self.outgoing.is_empty() && !answers()
    }

    /// Returns true if, since the last call, an event occurred for which a thread may be waiting.
    pub fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.news)
    }

    /// Returns true if, since the last call, a request arrived for a waiting thread. [`World::take_news`] reports it
    /// too.
    pub fn take_requests(&mut self) -> bool {
        core::mem::take(&mut self.requests)
    }

    /// Returns true if a callback or a signal is registered, which must run even if no thread of the program polls.
    pub fn has_registered(&self) -> bool {
        self.registrations.any()
    }

    /// Returns true if callbacks are queued and no thread is running them.
    pub fn has_callbacks(&self) -> bool {
        !self.jobs.busy && !self.jobs.queue.is_empty()
    }

    /// Starts to run callbacks. Returns the first callback, or `None` if there is none or another thread is running
    /// them. After each callback, call [`World::next_callback`] until it returns `None`. Release the lock while a
    /// callback runs.
    pub fn begin_callbacks(&mut self) -> Option<Callback<M::Node>> {
        if self.jobs.busy {
            return None;
        }
        self.next_callback()
    }

    /// Returns the next callback. `None` ends this thread's turn.
    pub fn next_callback(&mut self) -> Option<Callback<M::Node>> {
        let next = self.jobs.queue.pop_front();
        self.jobs.busy = next.is_some();
        next
    }

    /// Returns true if the deadline has passed.
    pub fn is_past(&self, deadline: Deadline) -> bool {
        match deadline {
            Deadline::Never => false,
            Deadline::At(time) => self.net.now() >= time,
            Deadline::Real(instant) => Instant::now() >= instant,
        }
    }

    /// Returns an unused number.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Sends a packet without message bytes.
    pub(crate) fn send(&mut self, from: M::Node, to: M::Node, packet: Word) {
        self.net.send(from, to, &packet);
    }

    /// Queues a job that runs after the lock is released.
    pub(crate) fn run_later(&mut self, nic: &Arc<Card<M::Node>>, job: Job) {
        self.jobs.queue.push_back(Callback { nic: nic.clone(), job });
    }

    /// Queues an error for the NIC's error handler.
    pub(crate) fn report(&mut self, nic: &Arc<Card<M::Node>>, error: AsyncError) {
        if let Some(call) = nic.handler.call_for(error) {
            self.run_later(nic, call);
        }
    }
}
