//! Endpoints: what a program sends from and receives at.

mod arrive;
mod far;
mod operation;
mod peers;
mod push;
mod receive;
mod remote;
mod send;
mod serve;

pub use receive::{Post, Probe};
pub use remote::{ATOMIC_MAX, Remote};
pub use send::Send;

use crate::address::Address;
use crate::completion::{Completion, Counter, Failure, Queue};
use crate::emp::Far;
use crate::error::Error;
use crate::flag;
use crate::region::Regions;
use crate::shm::{Reader, Station};
use crate::slab::Slab;
use crate::vector::Vector;
use far::Transfer;
use operation::Operation;
use peers::Peer;
use receive::{Kept, Receive};
use sovia_tags::{Label, Matcher};
use std::collections::HashMap;

/// What the endpoints of a domain share.
#[derive(Debug, Default)]
pub struct Common {
    /// Completion queues.
    pub queues: Vec<Option<Queue>>,
    /// Counters.
    pub counters: Vec<Option<Counter>>,
    /// Address vectors.
    pub vectors: Vec<Option<Vector>>,
    /// Registered memory.
    pub regions: Regions,
}

/// Where what an endpoint has done is told.
#[derive(Debug, Default, Clone, Copy)]
pub struct Bindings {
    /// The queue for what it sends, reads and writes.
    pub send_queue: Option<usize>,
    /// The queue for what it receives.
    pub receive_queue: Option<usize>,
    /// Counters of sends, receives, reads, writes, and reads and writes by peers.
    pub counters: [Option<usize>; 6],
    /// The address vector.
    pub vector: Option<usize>,
}

/// Which of an endpoint's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Messages sent.
    Send,
    /// Messages received.
    Receive,
    /// Reads of peers' memory.
    Read,
    /// Writes to peers' memory.
    Write,
    /// Reads by peers.
    RemoteRead,
    /// Writes by peers.
    RemoteWrite,
}

/// An endpoint: reliable, without connections.
#[derive(Debug)]
pub struct Endpoint {
    address: Address,
    bindings: Bindings,
    station: Station,
    /// By which other hosts are reached, if they are.
    far: Option<Box<Far>>,
    uses_shm: bool,
    /// Long messages of other hosts', by the operations that they belong to.
    transfers: HashMap<u64, Transfer>,
    peers: Vec<Peer>,
    by_address: HashMap<Address, u32>,
    /// The peer of each number of the address vector that has been used; `NO_PEER` for others.
    by_number: Vec<u32>,
    inlets: Vec<Inlet>,
    tagged: Matcher<Receive, Kept>,
    plain: Matcher<Receive, Kept>,
    claimed: Vec<(usize, Label, Kept)>,
    operations: Slab<Operation>,
    /// Buffers for messages that no receive awaits.
    spare: Vec<Vec<u8>>,
    /// Peers to which there is something to send as soon as there is room.
    stuck: Vec<u32>,
    /// Operations of whose bytes this end may copy some by itself.
    pulls: Vec<u64>,
    /// Looks for messages so far, and how many of the last have found none.
    looks: u32,
    idle: u32,
    /// Looks so far when the last message was sent.
    sent_at: u32,
    /// Bytes that must be left in a receive for many messages.
    pub min_multi_receive: usize,
}

/// What a peer sends by.
#[derive(Debug)]
struct Inlet {
    peer: u32,
    reader: Reader,
}

const NO_PEER: u32 = u32::MAX;
/// Looks for messages for each look at the station, which takes a system call.
const LOOKS: u32 = 4096;
/// The same, while all are in vain.
const IDLE_LOOKS: u32 = 256;
/// Looks in vain after which the processor is offered to other threads, at each look at the station.
const IDLE: u32 = 2048;

impl Endpoint {
    /// A new one, which peers can reach from now on. The environment says where other hosts reach it (docs/develop/mpi.md).
    ///
    /// # Errors
    /// What the system says; [`Error::INVALID`] if the environment names no place for other hosts to reach it.
    pub fn new(bindings: Bindings) -> Result<Endpoint, Error> {
        Endpoint::with(bindings, |name| std::env::var(name).ok())
    }

    /// A new one with those variables in the place of the environment's.
    ///
    /// # Errors
    /// As for [`Endpoint::new`].
    pub fn with(
        bindings: Bindings,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Endpoint, Error> {
        let mut address = Address::new()?;
        let uses_shm = crate::emp::uses_shm(&variable)?;
        let far = Self::open_station(&mut address, variable)?;
        Ok(Endpoint {
            address,
            bindings,
            station: Station::new(address)?,
            far,
            uses_shm,
            transfers: HashMap::new(),
            peers: Vec::new(),
            by_address: HashMap::new(),
            by_number: Vec::new(),
            inlets: Vec::new(),
            tagged: Matcher::new(),
            plain: Matcher::new(),
            claimed: Vec::new(),
            operations: Slab::default(),
            spare: Vec::new(),
            stuck: Vec::new(),
            pulls: Vec::new(),
            looks: 0,
            idle: 0,
            sent_at: 0,
            min_multi_receive: 64,
        })
    }

    /// Its address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A descriptor that is readable when a peer connects or ends.
    pub fn news(&self) -> i32 {
        self.station.raw()
    }

    /// Changes where it tells what it has done.
    pub fn bind(&mut self, bindings: Bindings) {
        self.bindings = bindings;
    }

    fn queue_of(&self, flags: u64) -> Option<usize> {
        let received = flags & (flag::RECV | flag::REMOTE_READ | flag::REMOTE_WRITE) != 0;
        if received { self.bindings.receive_queue } else { self.bindings.send_queue }
    }

    /// Tells that an operation is over.
    #[inline(always)]
    fn complete(&self, common: &mut Common, count: Count, tell: bool, completion: Completion) {
        if let Some(counter) = self.counter(common, count) {
            counter.value += 1;
        }
        if tell && let Some(queue) = queue(common, self.queue_of(completion.flags)) {
            queue.push(completion);
        }
    }

    /// Tells that an operation has failed.
    fn fail(&self, common: &mut Common, count: Count, failure: Failure) {
        if let Some(counter) = self.counter(common, count) {
            counter.errors += 1;
        }
        if let Some(queue) = queue(common, self.queue_of(failure.completion.flags)) {
            queue.fail(failure);
        }
    }

    #[inline]
    fn counter<'a>(&self, common: &'a mut Common, count: Count) -> Option<&'a mut Counter> {
        let at = self.bindings.counters[count as usize]?;
        common.counters.get_mut(at)?.as_mut()
    }
}

#[inline]
fn queue(common: &mut Common, at: Option<usize>) -> Option<&mut Queue> {
    common.queues.get_mut(at?)?.as_mut()
}
