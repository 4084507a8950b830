//! Everything there is above one network. What happens to it is said above: `engine`, `meeting`, `events`.

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

/// The whole state above one network, under one lock. [`crate::Driver`] says what a driver does with it.
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
    /// What the medium is moving.
    pub(crate) moving: BTreeMap<MoveId, Move<M::Node>>,
    /// Requests that have come, the oldest first.
    pub(crate) asked: VecDeque<EndId>,
    /// Ends that owe an acknowledgement; some may have paid since.
    pub(crate) owing: Vec<EndId>,
    /// Ends that may have something to send when the frames that have come are through.
    pub(crate) later: Vec<EndId>,
    /// For messages that are sent.
    pub(crate) buffers: Buffers,
    pub(crate) counters: Counters,
    /// Callbacks to run, in order.
    jobs: Jobs<M::Node>,
    /// Something has happened that a waiting thread may wait for.
    pub(crate) news: bool,
    /// A request has come for a thread that waits for one.
    pub(crate) requests: bool,
    pub(crate) registrations: Registrations,
    /// The network is gone for good.
    pub(crate) is_gone: bool,
    last_id: u64,
}

/// Frames that were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// They were corrupt, or said what no other end of a connection could say.
    pub malformed: u64,
    /// They came from a node, or for an end, that has no part in what they were about.
    pub strangers: u64,
}

/// Callbacks that are to run.
struct Jobs<N> {
    queue: VecDeque<Callback<N>>,
    /// A thread is running them.
    busy: bool,
}

impl<N> core::fmt::Debug for Jobs<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} jobs", self.queue.len())
    }
}

/// A callback of the program's that is to run, without the world's lock.
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
    /// Runs it in this thread.
    pub fn run_here(self) {
        (self.job)();
    }

    /// Runs it in the NIC's own thread for callbacks, after those that were given before.
    pub fn run_in_thread(self) {
        self.nic.dispatcher.run(self.job);
        // Nothing is held here.
        self.nic.dispatcher.run_waiting();
    }
}

impl<M: Medium> World<M> {
    /// A world without NICs.
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

    /// The network.
    pub fn medium(&self) -> &M {
        &self.net
    }

    /// The network.
    pub fn medium_mut(&mut self) -> &mut M {
        &mut self.net
    }

    /// What has been dropped.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Ends of connections that are alive or not yet known to be over.
    pub fn connection_ends(&self) -> usize {
        self.conns.len()
    }

    /// Whether there are connections, or requests for them.
    pub fn has_peers(&self) -> bool {
        !self.conns.is_empty() || !self.outgoing.is_empty()
    }

    /// The nodes to which there are connections, or requests for them; not the ends' own.
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

    /// Whether nothing is left to be said: no connection is open or being closed, no request or answer on its way.
    pub fn is_quiet(&self) -> bool {
        let answers = || self.incoming.values().any(|it| it.answer.is_some() && !it.is_over());
        self.conns.is_empty() && self.outgoing.is_empty() && !answers()
    }

    /// Whether something has happened that a waiting thread may wait for, since this was asked last.
    pub fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.news)
    }

    /// Whether a request for a connection has come for a waiting thread since this was last asked. It is news as well.
    pub fn take_requests(&mut self) -> bool {
        core::mem::take(&mut self.requests)
    }

    /// Whether a callback or a signal is registered, which is to come though no thread of the program's looks.
    pub fn has_registered(&self) -> bool {
        self.registrations.any()
    }

    /// Whether a callback is to run that no thread is about to.
    pub fn has_callbacks(&self) -> bool {
        !self.jobs.busy && !self.jobs.queue.is_empty()
    }

    /// Begins to run callbacks: the first one, unless there is none or another thread is running them. To be
    /// followed by [`World::next_callback`] until that returns nothing; the lock is free while one runs.
    pub fn begin_callbacks(&mut self) -> Option<Callback<M::Node>> {
        if self.jobs.busy {
            return None;
        }
        self.next_callback()
    }

    /// The next callback; with `None` the thread is done running them.
    pub fn next_callback(&mut self) -> Option<Callback<M::Node>> {
        let next = self.jobs.queue.pop_front();
        self.jobs.busy = next.is_some();
        next
    }

    /// Whether a wait is over.
    pub fn is_past(&self, deadline: Deadline) -> bool {
        match deadline {
            Deadline::Never => false,
            Deadline::At(time) => self.net.now() >= time,
            Deadline::Real(instant) => Instant::now() >= instant,
        }
    }

    /// A number that names nothing yet.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Sends a packet without bytes of a message.
    pub(crate) fn send(&mut self, from: M::Node, to: M::Node, packet: Word) {
        self.net.send(from, to, &packet);
    }

    /// Has something run when the lock is free.
    pub(crate) fn run_later(&mut self, nic: &Arc<Card<M::Node>>, job: Job) {
        self.jobs.queue.push_back(Callback { nic: nic.clone(), job });
    }

    /// Tells the NIC's error handler, in its turn.
    pub(crate) fn report(&mut self, nic: &Arc<Card<M::Node>>, error: AsyncError) {
        if let Some(call) = nic.handler.call_for(error) {
            self.run_later(nic, call);
        }
    }
}
