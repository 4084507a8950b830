//! Endpoints, which send and receive a program's messages.

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

/// Objects that the endpoints of a domain share.
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

/// The queues and counters to which an endpoint reports, and its address vector.
#[derive(Debug, Default, Clone, Copy)]
pub struct Bindings {
    /// The queue for sends, reads and writes.
    pub send_queue: Option<usize>,
    /// The queue for receives.
    pub receive_queue: Option<usize>,
    /// Counters of sends, receives, reads, writes, and reads and writes by peers.
    pub counters: [Option<usize>; 6],
    /// The address vector.
    pub vector: Option<usize>,
}

/// Selects one of an endpoint's counters.
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

/// A reliable endpoint without connections.
#[derive(Debug)]
pub struct Endpoint {
    address: Address,
    bindings: Bindings,
    station: Station,
    /// The station for other hosts, if there is one.
    far: Option<Box<Far>>,
    uses_shm: bool,
    /// Long messages from and to other hosts, by operation.
    transfers: HashMap<u64, Transfer>,
    peers: Vec<Peer>,
    by_address: HashMap<Address, u32>,
    /// The peer of each used number of the address vector; `NO_PEER` for other numbers.
    by_number: Vec<u32>,
    inlets: Vec<Inlet>,
    tagged: Matcher<Receive, Kept>,
    plain: Matcher<Receive, Kept>,
    claimed: Vec<(usize, Label, Kept)>,
    operations: Slab<Operation>,
    /// Free buffers for messages that no receive awaits.
    spare: Vec<Vec<u8>>,
    /// Peers with data that waits for room.
    stuck: Vec<u32>,
    /// Operations whose last bytes this end may copy from the peer's memory.
    pulls: Vec<u64>,
    /// Number of looks for messages so far, and number of looks in vain since the last message.
    looks: u32,
    idle: u32,
    /// Value of `looks` at the last send.
    sent_at: u32,
    /// A multi-receive ends when fewer than this number of bytes are free.
    pub min_multi_receive: usize,
}

/// Incoming messages of a peer.
#[derive(Debug)]
struct Inlet {
    peer: u32,
    reader: Reader,
}

const NO_PEER: u32 = u32::MAX;
/// Number of looks for messages per look at the station. A look at the station takes a system call.
const LOOKS: u32 = 4096;
/// Like [`LOOKS`], while no messages arrive.
const IDLE_LOOKS: u32 = 256;
/// Number of looks in vain, after which each look at the station also yields the processor to other threads.
const IDLE: u32 = 2048;

impl Endpoint {
    /// Opens an endpoint that peers can reach at once. The environment selects its address for other hosts
    /// (docs/develop/mpi.md).
    ///
    /// # Errors
    /// Returns the system's errors, or [`Error::INVALID`] if the environment is invalid.
    pub fn new(bindings: Bindings) -> Result<Endpoint, Error> {
        Endpoint::with(bindings, |name| std::env::var(name).ok())
    }

    /// Like [`Endpoint::new`], with `variable` in place of the environment.
    ///
    /// # Errors
    /// Returns the errors of [`Endpoint::new`].
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

    /// Returns the endpoint's address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns a descriptor that is readable when a peer connects or ends.
    pub fn news(&self) -> i32 {
        self.station.raw()
    }

    /// Replaces the queues and counters to which the endpoint reports.
    pub fn bind(&mut self, bindings: Bindings) {
        self.bindings = bindings;
    }

    fn queue_of(&self, flags: u64) -> Option<usize> {
        let received = flags & (flag::RECV | flag::REMOTE_READ | flag::REMOTE_WRITE) != 0;
        if received { self.bindings.receive_queue } else { self.bindings.send_queue }
    }

    /// Reports the success of an operation to its counter, and if `tell` to its queue.
    #[inline(always)]
    fn complete(&self, common: &mut Common, count: Count, tell: bool, completion: Completion) {
        if let Some(counter) = self.counter(common, count) {
            counter.value += 1;
        }
        if tell && let Some(queue) = queue(common, self.queue_of(completion.flags)) {
            queue.push(completion);
        }
    }

    /// Reports the failure of an operation to its counter and its queue.
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
