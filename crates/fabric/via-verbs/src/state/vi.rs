//! A VI: its queues and its connection.

use crate::access::{Access, Recent};
use crate::slot::Slot;
use crate::state::{Card, CqShared, Looks, Token};
use sovia_verbs::{Pair, RegisteredMemory};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use via::descriptor::Segments;
use via::error::{Cause, ConnectError};
use via::event::ViCallback;
use via::queue::WorkQueue;
use via::{DescriptorAddress, Ptag, Status, ViAttributes, ViState, WorkQueueKind};

/// What a request's descriptor is done with.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) operation: Status,
    pub(crate) length: u32,
    /// The message uses up a receive.
    pub(crate) consumes: bool,
    /// What was wrong when it was started.
    pub(crate) failed: Option<Status>,
    /// Where the bytes are that the device could not be handed as they lie, and where they belong.
    pub(crate) copy: Option<Box<(RegisteredMemory, Segments)>>,
}

impl Started {
    pub(crate) fn new(operation: Status, length: u32) -> Started {
        Started { operation, length, consumes: false, failed: None, copy: None }
    }
}

/// A work queue.
pub(crate) struct Queue {
    pub(crate) work: WorkQueue,
    /// Those of its descriptors that the device has, or that ended before it had them.
    pub(crate) started: VecDeque<Started>,
    pub(crate) notify: VecDeque<ViCallback>,
    pub(crate) cq: Option<Arc<CqShared>>,
}

impl Queue {
    fn new(depth: u32, cq: Option<Arc<CqShared>>) -> Queue {
        Queue { work: WorkQueue::new(depth), started: VecDeque::new(), notify: VecDeque::new(), cq }
    }

    /// The oldest descriptor that the device does not have yet.
    #[inline]
    pub(crate) fn next(&self) -> Option<DescriptorAddress> {
        self.work.pending(self.started.len() as u32)
    }
}

/// The queue pair of a connection.
pub(crate) struct Link {
    pub(crate) pair: Pair,
    /// Its identifier, in the thread.
    pub(crate) name: u64,
    /// Where the far NIC listens.
    pub(crate) peer: SocketAddr,
    /// What the far side calls the connection.
    pub(crate) token: u64,
    /// What this side calls it.
    pub(crate) own: Token,
    /// Keys of the far side's regions, to write and to read.
    pub(crate) keys: HashMap<(u32, bool), u32>,
    /// The far side has been asked for one.
    pub(crate) asking: bool,
    /// The thread is told of the next completion, or has been told of one and has not come yet.
    pub(crate) is_armed: bool,
    /// Messages received, and sent, that use up receives.
    pub(crate) received: u32,
    pub(crate) sent: u32,
}

impl Link {
    pub(crate) fn new(pair: Pair, name: u64, peer: SocketAddr, own: Token) -> Link {
        Link {
            pair,
            name,
            peer,
            token: 0,
            own,
            keys: HashMap::new(),
            asking: false,
            is_armed: false,
            received: 0,
            sent: 0,
        }
    }
}

/// What changes of a VI.
pub(crate) struct Core {
    pub(crate) attributes: ViAttributes,
    pub(crate) ptag: Ptag,
    pub(crate) state: ViState,
    pub(crate) cause: Option<Cause>,
    pub(crate) link: Option<Link>,
    pub(crate) send: Queue,
    pub(crate) recv: Queue,
    /// The attempt to connect that is under way, and where its end is told.
    pub(crate) attempt: Option<u64>,
    pub(crate) result: Option<Slot<Result<ViAttributes, ConnectError>>>,
    /// Threads that sleep.
    pub(crate) sleepers: u32,
    pub(crate) recent: Recent,
    pub(crate) overrun: bool,
    /// A completion queue has had no room: the connection is to be broken.
    pub(crate) has_overrun: bool,
}

/// A VI, as its handle, its completion queues and the thread have it.
pub(crate) struct ViShared {
    pub(crate) card: Arc<Card>,
    /// What the NIC calls it.
    pub(crate) name: u64,
    pub(crate) context: u64,
    pub(crate) core: Mutex<Core>,
    pub(crate) news: Condvar,
    pub(crate) looks: Looks,
}

impl core::fmt::Debug for ViShared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Vi").field("context", &self.context).finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) fn access<'a>(&'a mut self, card: &'a Card) -> Access<'a> {
        Access { regions: &card.regions, recent: &mut self.recent, ptag: self.ptag }
    }

    /// Whether its connection has that token.
    pub(crate) fn has(&self, token: u64) -> bool {
        self.link.as_ref().is_some_and(|link| link.own.number() == token)
    }

    pub(crate) fn queue(&mut self, kind: WorkQueueKind) -> &mut Queue {
        match kind {
            WorkQueueKind::Send => &mut self.send,
            WorkQueueKind::Recv => &mut self.recv,
        }
    }

    /// Whether news of its completions are wanted while no thread polls: for callbacks, completion queues, and sends that wait for a peer's key or
    /// for room. A thread that sleeps asks for them itself, whenever it wakes.
    pub(crate) fn wants(&self) -> bool {
        let cq = |queue: &Queue| queue.cq.as_ref().is_some_and(|cq| cq.is_wanted());
        !self.send.notify.is_empty()
            || !self.recv.notify.is_empty()
            || cq(&self.send)
            || cq(&self.recv)
            || self.send.next().is_some()
    }
}

impl ViShared {
    pub(crate) fn new(
        card: Arc<Card>,
        attributes: ViAttributes,
        context: u64,
        send: Option<Arc<CqShared>>,
        recv: Option<Arc<CqShared>>,
        ptag: Ptag,
    ) -> ViShared {
        let depth = card.attributes.max_descriptors_per_queue;
        let core = Core {
            attributes: ViAttributes { ptag: Some(ptag), ..attributes },
            ptag,
            state: ViState::Idle,
            cause: None,
            link: None,
            send: Queue::new(depth, send),
            recv: Queue::new(depth, recv),
            attempt: None,
            result: None,
            sleepers: 0,
            recent: Recent::default(),
            overrun: false,
            has_overrun: false,
        };
        let name = card.name();
        let (core, news, looks) = (Mutex::new(core), Condvar::new(), Looks::new());
        ViShared { card, name, context, core, news, looks }
    }
}
