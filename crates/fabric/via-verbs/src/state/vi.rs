//! A VI's queues and connection.

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

/// A descriptor's data for its completion.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) operation: Status,
    pub(crate) length: u32,
    /// True if the message consumes a receive.
    pub(crate) consumes: bool,
    /// Error that was found at the start, if any.
    pub(crate) failed: Option<Status>,
    /// Temporary memory for bytes that the device could not take in place, and the segments to which the bytes belong.
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
    /// Descriptors that the device has, or that ended before the device got them.
    pub(crate) started: VecDeque<Started>,
    pub(crate) notify: VecDeque<ViCallback>,
    pub(crate) cq: Option<Arc<CqShared>>,
}

impl Queue {
    fn new(depth: u32, cq: Option<Arc<CqShared>>) -> Queue {
        Queue { work: WorkQueue::new(depth), started: VecDeque::new(), notify: VecDeque::new(), cq }
    }

    /// Returns the oldest descriptor that the device does not have yet.
    #[inline]
    pub(crate) fn next(&self) -> Option<DescriptorAddress> {
        self.work.pending(self.started.len() as u32)
    }
}

/// A connection and its queue pair.
pub(crate) struct Link {
    pub(crate) pair: Pair,
    /// Name of the connection's identifier in the NIC's thread.
    pub(crate) name: u64,
    /// Address at which the remote NIC listens.
    pub(crate) peer: SocketAddr,
    /// Token by which the peer names the connection.
    pub(crate) token: u64,
    /// Token by which this side names the connection.
    pub(crate) own: Token,
    /// Keys of the peer's regions, by handle and access (true for writes).
    pub(crate) keys: HashMap<(u32, bool), u32>,
    /// True while a question for a key is in progress.
    pub(crate) asking: bool,
    /// True if the channel will report the next completion, or has reported one that the thread has not handled yet.
    pub(crate) is_armed: bool,
    /// Numbers of messages received and sent that consume receives.
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

/// State of a VI that changes, under the VI's lock.
pub(crate) struct Core {
    pub(crate) attributes: ViAttributes,
    pub(crate) ptag: Ptag,
    pub(crate) state: ViState,
    pub(crate) cause: Option<Cause>,
    pub(crate) link: Option<Link>,
    pub(crate) send: Queue,
    pub(crate) recv: Queue,
    /// Name of the current attempt to connect. `result` gets its outcome.
    pub(crate) attempt: Option<u64>,
    pub(crate) result: Option<Slot<Result<ViAttributes, ConnectError>>>,
    /// Number of sleeping threads.
    pub(crate) sleepers: u32,
    pub(crate) recent: Recent,
    pub(crate) overrun: bool,
    /// Set after a completion queue had no room. The connection must be broken.
    pub(crate) has_overrun: bool,
}

/// The part of a VI that its handle, its completion queues and the NIC's thread share.
pub(crate) struct ViShared {
    pub(crate) card: Arc<Card>,
    /// Name of the VI at the NIC.
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

    /// Returns true if the connection has this token.
    pub(crate) fn has(&self, token: u64) -> bool {
        self.link.as_ref().is_some_and(|link| link.own.number() == token)
    }

    pub(crate) fn queue(&mut self, kind: WorkQueueKind) -> &mut Queue {
        match kind {
            WorkQueueKind::Send => &mut self.send,
            WorkQueueKind::Recv => &mut self.recv,
        }
    }

    /// Returns true if the VI must be armed while no thread polls. Callbacks, completion queues, and sends that wait
    /// for a peer's key or for room need this. A sleeping thread arms the VI itself whenever it wakes.
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
