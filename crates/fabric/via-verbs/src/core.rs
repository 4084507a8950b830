//! A VI: its queues, its queue pair, and what becomes of its descriptors.

use crate::access::{Access, Keyed, Recent, Segments, Work};
use crate::agent::Job;
use crate::card::{Card, Token};
use crate::cq::CqShared;
use crate::slot::{Slot, lock};
use crate::wire::{Answer, Closing, Question};
use sovia_verbs::pair::Work as Request;
use sovia_verbs::sys::value;
use sovia_verbs::{Completion as Ended, Cq, Pair, RegisteredMemory, Remote, Rights, Segment};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use via::error::{Cause, ConnectError, PostError};
use via::event::ViCallback;
use via::queue::{Outcome, WorkQueue};
use via::{
    AsyncError, Control, CqEntry, DescriptorAddress, Done, ErrorCode, Memory, Ptag, Status,
    ViAttributes, ViState, WorkQueueKind,
};

/// Names of requests: sends and receives end in one completion queue.
const SEND: u64 = 0;
const RECEIVE: u64 = 1;
/// A key that no region has.
const NO_KEY: u32 = 0;

/// What a request's descriptor is done with.
#[derive(Debug)]
struct Started {
    operation: Status,
    length: u32,
    /// The message uses up a receive.
    consumes: bool,
    /// What was wrong when it was started.
    failed: Option<Status>,
    /// Where the bytes are that the device could not be handed as they lie, and where they belong.
    copy: Option<(RegisteredMemory, Segments)>,
}

/// A work queue.
pub(crate) struct Queue {
    pub(crate) work: WorkQueue,
    /// Those of its descriptors that the device has, or that ended before it had them.
    started: VecDeque<Started>,
    pub(crate) notify: VecDeque<ViCallback>,
    pub(crate) cq: Option<Arc<CqShared>>,
}

impl Queue {
    fn new(depth: u32, cq: Option<Arc<CqShared>>) -> Queue {
        Queue { work: WorkQueue::new(depth), started: VecDeque::new(), notify: VecDeque::new(), cq }
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
    keys: HashMap<(u32, bool), u32>,
    /// The far side has been asked for one.
    pub(crate) asking: bool,
    /// Messages received, and sent, that use up receives.
    received: u32,
    sent: u32,
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
    /// How often the program has looked; and how often it had when the thread last saw.
    pub(crate) looks: u32,
    looked: u32,
    recent: Recent,
    overrun: bool,
    /// A completion queue has had no room: the connection is to be broken.
    has_overrun: bool,
}

/// A VI, as its handle, its completion queues and the thread have it.
pub(crate) struct ViShared {
    pub(crate) card: Arc<Card>,
    /// What the NIC calls it.
    pub(crate) name: u64,
    pub(crate) context: u64,
    pub(crate) core: Mutex<Core>,
    pub(crate) news: Condvar,
}

impl core::fmt::Debug for ViShared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Vi").field("context", &self.context).finish_non_exhaustive()
    }
}

/// What the end of a connection does to the first send that is not done.
#[derive(Clone, Copy)]
pub(crate) enum First {
    /// It is flushed as the others are.
    Flushed,
    /// It ends in that error.
    In(Status),
}

impl Core {
    fn access<'a>(&'a mut self, card: &'a Card) -> Access<'a> {
        Access { card, recent: &mut self.recent, ptag: self.ptag }
    }

    /// Whether its connection has that token.
    fn has(&self, token: u64) -> bool {
        self.link.as_ref().is_some_and(|link| link.own.number() == token)
    }

    /// No device has the posted receives any more.
    pub(crate) fn recv_restart(&mut self) {
        self.recv.started.clear();
    }

    pub(crate) fn queue(&mut self, kind: WorkQueueKind) -> &mut Queue {
        match kind {
            WorkQueueKind::Send => &mut self.send,
            WorkQueueKind::Recv => &mut self.recv,
        }
    }

    /// Whether news of its completions are wanted while no thread polls.
    fn wants(&self) -> bool {
        let cq = |queue: &Queue| queue.cq.as_ref().is_some_and(|cq| cq.is_wanted());
        self.sleepers > 0
            || !self.send.notify.is_empty()
            || !self.recv.notify.is_empty()
            || cq(&self.send)
            || cq(&self.recv)
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
            looks: 0,
            looked: 0,
            recent: Recent::default(),
            overrun: false,
            has_overrun: false,
        };
        let name = card.name();
        ViShared { card, name, context, core: Mutex::new(core), news: Condvar::new() }
    }

    /// Posts a descriptor.
    ///
    /// # Errors
    /// [`PostError`].
    pub(crate) fn post(&self, kind: WorkQueueKind, at: DescriptorAddress) -> Result<(), PostError> {
        let core = &mut *lock(&self.core);
        if kind == WorkQueueKind::Send && !matches!(core.state, ViState::Connected | ViState::Error)
        {
            return Err(PostError::State(core.state));
        }
        core.access(&self.card).descriptor(at, |_| ()).ok_or(PostError::Descriptor)?;
        core.queue(kind).work.post(at).map_err(|_| PostError::QueueFull)?;
        core.access(&self.card).descriptor(at, |descriptor| descriptor.clear_status());
        if core.state == ViState::Error {
            self.flush(core, kind);
        } else if kind == WorkQueueKind::Recv {
            self.feed_receives(core);
        } else {
            self.feed_sends(core);
            if core.wants() {
                self.arm(core);
            }
        }
        self.settle(core);
        Ok(())
    }

    /// Gives posted receives to the device.
    pub(crate) fn feed_receives(&self, core: &mut Core) {
        while core.link.is_some()
            && let Some(at) = core.recv.work.pending(core.recv.started.len() as u32)
        {
            let loaded = core.access(&self.card).load(at, true);
            let started = self.start_receive(core, loaded);
            core.recv.started.push_back(started);
        }
    }

    fn start_receive(&self, core: &mut Core, loaded: Result<Work, Status>) -> Started {
        let mut started = Started {
            operation: Status::OP_RECEIVE,
            length: 0,
            consumes: false,
            failed: None,
            copy: None,
        };
        // A receive that cannot be is one all the same, for the message that meets it to end in an error.
        let mut segments: Keyed =
            smallvec::smallvec![Segment { addr: 0, length: 1 << 20, lkey: NO_KEY }];
        match loaded {
            Err(status) => started.failed = Some(status),
            Ok(work) => match core.access(&self.card).keyed(&work.data) {
                Ok(keyed) if keyed.len() <= self.card.config.segments as usize => segments = keyed,
                Ok(_) => match self.copy_of(core, &work) {
                    Some((segment, copy)) => {
                        segments = smallvec::smallvec![segment];
                        started.copy = Some((copy, work.data));
                    }
                    None => started.failed = Some(Status::PROTECTION_ERROR),
                },
                Err(_) => {
                    // Which of the segments a message gets to is the device's to find out.
                    segments.clear();
                    for one in work.data.iter().filter(|segment| segment.length > 0) {
                        let segment =
                            Segment { addr: one.address, length: one.length, lkey: NO_KEY };
                        let mut access = core.access(&self.card);
                        let keyed = access.keyed(core::slice::from_ref(one));
                        segments.push(keyed.map_or(segment, |keyed| keyed[0]));
                    }
                    segments.truncate(self.card.config.segments as usize);
                }
            },
        }
        if let Some(link) = &core.link
            && link.pair.post_receive(RECEIVE, &segments).is_err()
        {
            started.failed = Some(Status::TRANSPORT_ERROR);
        }
        started
    }

    /// Memory of the device's for a descriptor with more segments than the device takes.
    fn copy_of(&self, core: &Core, work: &Work) -> Option<(Segment, RegisteredMemory)> {
        let memory = Memory::zeroed(work.length() as usize);
        let domain = self.card.domain(core.ptag).ok()?;
        let copy = RegisteredMemory::new(&domain, &memory, Rights::default()).ok()?;
        let segment =
            Segment { addr: memory.address(0), length: work.length(), lkey: copy.local_key() };
        Some((segment, copy))
    }

    /// Gives posted sends to the device, as far as they can be started.
    pub(crate) fn feed_sends(&self, core: &mut Core) {
        while core.state == ViState::Connected
            && core.link.is_some()
            && let Some(at) = core.send.work.pending(core.send.started.len() as u32)
        {
            // What follows an error is not started: the connection ends there.
            if core.send.started.back().is_some_and(|last| last.failed.is_some()) {
                break;
            }
            let started = match core.access(&self.card).load(at, false) {
                Err(status) => Started {
                    operation: Status::OP_SEND,
                    length: 0,
                    consumes: false,
                    failed: Some(status),
                    copy: None,
                },
                Ok(work) => match self.start_send(core, work) {
                    Some(started) => started,
                    None => break,
                },
            };
            core.send.started.push_back(started);
        }
        self.finish_sends(core);
    }

    /// Starts one; `None` if it has to wait.
    fn start_send(&self, core: &mut Core, work: Work) -> Option<Started> {
        let (operation, length) = (work.operation(), work.length());
        let consumes = operation == Status::OP_SEND
            || operation == Status::OP_RDMA_WRITE && work.immediate.is_some();
        let mut started = Started { operation, length, consumes, failed: None, copy: None };
        if length > core.attributes.max_transfer_size {
            started.failed = Some(Status::LENGTH_ERROR);
            return Some(started);
        }
        if operation == Status::OP_RDMA_READ && !core.attributes.enable_rdma_read {
            // Both ends must want it.
            started.failed = Some(Status::RDMA_PROT_ERROR);
            return Some(started);
        }
        let keyed = match core.access(&self.card).keyed(&work.data) {
            Ok(keyed) => keyed,
            Err(status) => {
                started.failed = Some(status);
                return Some(started);
            }
        };
        let request = match work.remote {
            None => Request::Send,
            Some(remote) => {
                let write = operation == Status::OP_RDMA_WRITE;
                let key = if length == 0 { NO_KEY } else { self.remote_key(core, &work, write)? };
                let remote = Remote { address: remote.address, key };
                if write { Request::Write(remote) } else { Request::Read(remote) }
            }
        };
        let fenced = work.control.contains(Control::QFENCE);
        let is_read = operation == Status::OP_RDMA_READ;
        let inline_max = core.link.as_ref()?.pair.inline_max();
        let posted = if !is_read && length <= inline_max {
            let mut bytes = [0; 256];
            let bytes = &mut bytes[..length as usize];
            if let Err(status) = core.access(&self.card).gather(&work.data, bytes) {
                started.failed = Some(status);
                return Some(started);
            }
            core.link.as_ref()?.pair.post_inline(SEND, request, bytes, work.immediate, fenced)
        } else if keyed.len() <= self.card.config.segments as usize {
            let pair = &core.link.as_ref()?.pair;
            pair.post_send(SEND, request, &keyed, work.immediate, fenced, false)
        } else {
            let Some((segment, copy)) = self.copy_of(core, &work) else {
                started.failed = Some(Status::PROTECTION_ERROR);
                return Some(started);
            };
            if !is_read {
                let mut bytes = vec![0; length as usize];
                if let Err(status) = core.access(&self.card).gather(&work.data, &mut bytes) {
                    started.failed = Some(status);
                    return Some(started);
                }
                copy.memory().write(0, &bytes);
            }
            started.copy = Some((copy, work.data));
            let pair = &core.link.as_ref()?.pair;
            pair.post_send(SEND, request, &[segment], work.immediate, fenced, false)
        };
        if posted.is_err() {
            started.failed = Some(Status::TRANSPORT_ERROR);
        }
        Some(started)
    }

    /// The key of the far side's region; `None` while it is not known.
    fn remote_key(&self, core: &mut Core, work: &Work, write: bool) -> Option<u32> {
        let remote = work.remote?;
        let is_first = core.send.started.is_empty();
        let link = core.link.as_mut()?;
        if let Some(key) = link.keys.get(&(remote.handle, write)) {
            return Some(*key);
        }
        // Asked when all before it is done: a refusal ends the connection.
        if is_first && !link.asking {
            link.asking = true;
            let question = Question::Key {
                token: link.token,
                handle: remote.handle,
                address: remote.address,
                length: work.length(),
                write,
                immediate: write && work.immediate.is_some(),
            };
            self.card.job(Job::Ask { to: link.peer, question, vi: self.name, name: link.name });
        }
        None
    }

    /// The far side has said under which key a region is used: what waits goes on.
    pub(crate) fn key(&self, name: u64, handle: u32, write: bool, key: Option<u32>) {
        let core = &mut *lock(&self.core);
        let Some(link) = core.link.as_mut().filter(|link| link.name == name) else { return };
        link.asking = false;
        match key {
            Some(key) => {
                link.keys.insert((handle, write), key);
                self.feed_sends(core);
            }
            None => {
                let status = Status::RDMA_PROT_ERROR;
                let closing = if write { Closing::WriteDenied } else { Closing::ReadDenied };
                self.broken(
                    core,
                    Cause::Descriptor(status),
                    Some(closing),
                    First::In(status),
                    true,
                );
            }
        }
        self.settle(core);
        self.news.notify_all();
        if core.wants() {
            self.arm(core);
        }
    }

    /// Takes what the device has done.
    pub(crate) fn poll(&self, core: &mut Core) {
        while let Some(link) = &core.link
            && let Some(ended) = link.pair.cq().poll()
        {
            if ended.name == RECEIVE {
                self.received(core, &ended);
            } else {
                self.sent(core, &ended);
            }
        }
        self.feed_sends(core);
        self.settle(core);
    }

    fn received(&self, core: &mut Core, ended: &Ended) {
        if ended.status.0 == value::IBV_WC_WR_FLUSH_ERR {
            // The pair has failed; why the far side says.
            return;
        }
        let (Some(started), Some(at)) = (core.recv.started.pop_front(), core.recv.work.front())
        else {
            return;
        };
        let mut operation = Status::OP_RECEIVE;
        if ended.is_remote_write {
            operation |= Status::OP_RDMA_WRITE;
        }
        let mut error = match ended.status.0 {
            value::IBV_WC_SUCCESS => started.failed,
            value::IBV_WC_LOC_LEN_ERR | value::IBV_WC_REM_INV_REQ_ERR => Some(Status::LENGTH_ERROR),
            _ => Some(started.failed.unwrap_or(Status::PROTECTION_ERROR)),
        };
        if error.is_none() && core.access(&self.card).descriptor(at, |_| ()).is_none() {
            error = Some(Status::PROTECTION_ERROR);
        }
        if let (None, Some((copy, data)), false) = (error, &started.copy, ended.is_remote_write) {
            let mut bytes = vec![0; ended.length as usize];
            copy.memory().read(0, &mut bytes);
            error = core.access(&self.card).scatter(data, &bytes).err();
        }
        match error {
            None => {
                if let Some(link) = &mut core.link {
                    link.received = link.received.wrapping_add(1);
                }
                let Ended { length, immediate, .. } = *ended;
                self.complete(
                    core,
                    WorkQueueKind::Recv,
                    Outcome { status: operation, length, immediate },
                );
            }
            Some(status) => {
                self.complete(core, WorkQueueKind::Recv, Outcome::error(operation | status));
                self.broken(
                    core,
                    Cause::Descriptor(status),
                    Some(Closing::Broke),
                    First::Flushed,
                    true,
                );
            }
        }
    }

    fn sent(&self, core: &mut Core, ended: &Ended) {
        if ended.status.0 == value::IBV_WC_WR_FLUSH_ERR {
            return;
        }
        if ended.status.0 == value::IBV_WC_SUCCESS {
            self.sent_well(core);
            return;
        }
        let is_read =
            core.send.started.front().is_some_and(|it| it.operation == Status::OP_RDMA_READ);
        let immediate = core.send.started.front().is_some_and(|it| it.consumes);
        let denied = match (is_read, immediate) {
            (true, _) => Closing::ReadDenied,
            (false, true) => Closing::WriteWithImmediateDenied,
            (false, false) => Closing::WriteDenied,
        };
        let (status, cause, closing) = match ended.status.0 {
            value::IBV_WC_RNR_RETRY_EXC_ERR => {
                (Status::TRANSPORT_ERROR, Cause::ReceiveQueueEmpty, Closing::NoReceive)
            }
            value::IBV_WC_REM_ACCESS_ERR => {
                let status = Status::RDMA_PROT_ERROR;
                (status, Cause::Descriptor(status), denied)
            }
            value::IBV_WC_REM_INV_REQ_ERR | value::IBV_WC_REM_OP_ERR => {
                (Status::TRANSPORT_ERROR, Cause::PeerBroke, Closing::Broke)
            }
            value::IBV_WC_RETRY_EXC_ERR => {
                (Status::TRANSPORT_ERROR, Cause::PeerDied, Closing::Broke)
            }
            value::IBV_WC_LOC_LEN_ERR => {
                let status = Status::LENGTH_ERROR;
                (status, Cause::Descriptor(status), Closing::Broke)
            }
            value::IBV_WC_LOC_PROT_ERR | value::IBV_WC_LOC_ACCESS_ERR => {
                let status = Status::PROTECTION_ERROR;
                (status, Cause::Descriptor(status), Closing::Broke)
            }
            // The device cannot send: its link is down, above all.
            _ => {
                let status = Status::TRANSPORT_ERROR;
                (status, Cause::Descriptor(status), Closing::Broke)
            }
        };
        self.broken(core, cause, Some(closing), First::In(status), true);
    }

    /// The oldest send that the device has is done.
    fn sent_well(&self, core: &mut Core) {
        let Some(started) = core.send.started.pop_front() else { return };
        let Started { operation, length, consumes, .. } = started;
        if let (true, Some(link)) = (consumes, &mut core.link) {
            link.sent = link.sent.wrapping_add(1);
        }
        let mut outcome = Outcome { status: operation, length, immediate: None };
        if let (Status::OP_RDMA_READ, Some((copy, data))) = (operation, &started.copy) {
            let mut bytes = vec![0; length as usize];
            copy.memory().read(0, &mut bytes);
            if let Err(status) = core.access(&self.card).scatter(data, &bytes) {
                outcome = Outcome::error(operation | status);
            }
        }
        self.complete(core, WorkQueueKind::Send, outcome);
        self.finish_sends(core);
    }

    /// A send that failed before the device had it ends in its turn.
    fn finish_sends(&self, core: &mut Core) {
        if let Some(status) = core.send.started.front().and_then(|first| first.failed) {
            self.broken(
                core,
                Cause::Descriptor(status),
                Some(Closing::Broke),
                First::In(status),
                true,
            );
        }
    }

    /// The oldest descriptor of a queue is done.
    fn complete(&self, core: &mut Core, kind: WorkQueueKind, outcome: Outcome) {
        let Some(at) = core.queue(kind).work.front() else { return };
        core.access(&self.card).complete(at, &outcome);
        let queue = core.queue(kind);
        queue.work.complete(outcome);
        self.hand_out(core, kind);
        if let Some(cq) = core.queue(kind).cq.clone()
            && !cq.enter(CqEntry { context: self.context, queue: kind })
        {
            if !core::mem::replace(&mut core.overrun, true) {
                let error = AsyncError::of_vi(self.context, Cause::CqOverrun.code());
                let resource = via::Resource::Cq;
                self.card.report(AsyncError { cq: Some(cq.context), resource, ..error });
            }
            core.has_overrun = true;
        }
    }

    /// Gives descriptors that are done to callbacks that want them.
    pub(crate) fn hand_out(&self, core: &mut Core, kind: WorkQueueKind) {
        let queue = core.queue(kind);
        while !queue.notify.is_empty() {
            let Done::Completion(completion) = queue.work.take() else { return };
            if let Some(callback) = queue.notify.pop_front() {
                self.card.dispatcher.run(Box::new(move || callback(completion)));
            }
        }
    }

    /// Breaks the connection of a VI whose completion queue has run over.
    fn settle(&self, core: &mut Core) {
        if core::mem::take(&mut core.has_overrun) && core.state == ViState::Connected {
            self.broken(core, Cause::CqOverrun, Some(Closing::Broke), First::Flushed, false);
        }
    }

    /// The connection is broken: the VI is in state ERROR from now on, and the far side is told if `closing` says so.
    pub(crate) fn broken(
        &self,
        core: &mut Core,
        cause: Cause,
        closing: Option<Closing>,
        first: First,
        report: bool,
    ) {
        if core.state != ViState::Connected {
            return;
        }
        if report {
            // A message that met no receive is told of as such where it should have been received.
            let told = matches!(closing, Some(Closing::NoReceive));
            let code = if told { ErrorCode::ConnLost } else { cause.code() };
            self.card.report(AsyncError::of_vi(self.context, code));
        }
        core.state = ViState::Error;
        core.cause = Some(cause);
        self.unlink(core, closing);
        self.flush_sends(core, first);
        self.flush(core, WorkQueueKind::Recv);
        self.news.notify_all();
    }

    /// Ends the queue pair: when this returns the device uses none of the VI's memory.
    pub(crate) fn unlink(&self, core: &mut Core, closing: Option<Closing>) {
        let Some(link) = core.link.take() else { return };
        let Link { pair, name, peer, token, received, .. } = link;
        drop(pair);
        let tell = closing.map(|closing| (peer, Question::Close { token, closing, received }));
        self.card.job(Job::Close { name, tell });
    }

    /// The far side says that the connection of that token ends.
    pub(crate) fn told(&self, token: u64, closing: Closing, received: u32) {
        let core = &mut *lock(&self.core);
        if !core.has(token) || core.state != ViState::Connected {
            return;
        }
        self.poll(core);
        // What it has received was sent well, though it went before it could say so.
        while let Some(link) = &core.link
            && link.sent != received
            && received.wrapping_sub(link.sent) < 1 << 31
            && core.send.started.front().is_some_and(|it| it.operation != Status::OP_RDMA_READ)
        {
            self.sent_well(core);
        }
        if closing == Closing::WriteWithImmediateDenied && core.recv.work.front().is_some() {
            core.recv.started.pop_front();
            let status = Status::OP_REMOTE_RDMA_WRITE | Status::RDMA_PROT_ERROR;
            self.complete(core, WorkQueueKind::Recv, Outcome::error(status));
        }
        let cause = match closing {
            Closing::Disconnected => Cause::PeerDisconnected,
            Closing::Broke => Cause::PeerBroke,
            Closing::NoReceive => Cause::ReceiveQueueEmpty,
            Closing::WriteDenied | Closing::WriteWithImmediateDenied => {
                Cause::Rdma(ErrorCode::RdmawProt)
            }
            Closing::ReadDenied => Cause::Rdma(ErrorCode::RdmarProt),
        };
        self.broken(core, cause, None, First::Flushed, true);
    }

    /// The connection has ended without a word.
    pub(crate) fn lost(&self, name: u64) {
        let core = &mut *lock(&self.core);
        if core.link.as_ref().is_some_and(|link| link.name == name) {
            self.poll(core);
            self.broken(core, Cause::PeerDied, None, First::In(Status::TRANSPORT_ERROR), true);
        }
    }

    /// The peer of the connection of that token asks for a key. One that it may not have ends the connection.
    pub(crate) fn asked(
        &self,
        token: u64,
        handle: u32,
        range: (u64, u32),
        write: bool,
        immediate: bool,
    ) -> Answer {
        let (ptag, allowed, sent) = {
            let core = lock(&self.core);
            let (ViState::Connected, true, Some(link)) = (core.state, core.has(token), &core.link)
            else {
                // It is being told why.
                return Answer::Heard;
            };
            let attributes = &core.attributes;
            let allowed =
                if write { attributes.enable_rdma_write } else { attributes.enable_rdma_read };
            (core.ptag, allowed, link.sent)
        };
        if let (true, Some(key)) = (allowed, self.card.remote(ptag, handle, range, write)) {
            return Answer::Key(key);
        }
        let closing = match (write, immediate) {
            (false, _) => Closing::ReadDenied,
            (true, false) => Closing::WriteDenied,
            (true, true) => Closing::WriteWithImmediateDenied,
        };
        self.told(token, closing, sent);
        Answer::Denied
    }

    /// Ends all sends: the first that is not done as `first` says, the rest are flushed.
    fn flush_sends(&self, core: &mut Core, first: First) {
        let mut first = match first {
            First::In(status) => Some(status),
            First::Flushed => None,
        };
        while let Some(at) = core.send.work.front() {
            let operation = match core.send.started.pop_front() {
                Some(started) => started.operation,
                None => core
                    .access(&self.card)
                    .load(at, false)
                    .map_or(Status::OP_SEND, |it| it.operation()),
            };
            let status = first.take().unwrap_or(Status::DESC_FLUSHED_ERROR);
            self.complete(core, WorkQueueKind::Send, Outcome::error(operation | status));
        }
        core.send.started.clear();
    }

    /// Whatever of a queue is not done is done with.
    pub(crate) fn flush(&self, core: &mut Core, kind: WorkQueueKind) {
        if kind == WorkQueueKind::Send {
            return self.flush_sends(core, First::Flushed);
        }
        core.recv.started.clear();
        while core.recv.work.front().is_some() {
            let outcome = Outcome::error(Status::OP_RECEIVE | Status::DESC_FLUSHED_ERROR);
            self.complete(core, WorkQueueKind::Recv, outcome);
        }
    }

    /// The program disconnects, and has sent all that could be sent.
    pub(crate) fn end(&self, core: &mut Core) {
        core.state = ViState::Idle;
        core.cause = None;
        core.overrun = false;
        core.has_overrun = false;
        self.unlink(core, Some(Closing::Disconnected));
        self.flush_sends(core, First::Flushed);
        self.flush(core, WorkQueueKind::Recv);
        core.has_overrun = false;
        self.news.notify_all();
    }

    /// A request for a connection has failed: posted receives stay.
    pub(crate) fn unmade(&self, core: &mut Core) {
        core.link = None;
        core.recv.started.clear();
        core.state = ViState::Idle;
        core.attempt = None;
    }

    /// Has the thread told of the next completion, and takes what was there before.
    pub(crate) fn arm(&self, core: &mut Core) {
        if let Some(link) = &core.link {
            let cq: Arc<Cq> = link.pair.cq().clone();
            let _ = cq.arm();
            self.poll(core);
        }
    }

    /// For the thread: there is news of this VI. Returns whether the program polls it, so that the thread need not.
    pub(crate) fn stirred(&self) -> bool {
        let core = &mut *lock(&self.core);
        self.poll(core);
        self.news.notify_all();
        let polls = core.looks != core.looked;
        core.looked = core.looks;
        if core.wants() || !polls {
            self.arm(core);
        }
        polls
    }

    /// For the thread, once in a while: whether the program still polls this VI. If not, the thread is told of what comes from now on, so
    /// that a descriptor is done though its program makes no call.
    pub(crate) fn is_polled(&self) -> bool {
        let core = &mut *lock(&self.core);
        let polls = core.looks != core.looked && core.link.is_some();
        core.looked = core.looks;
        if !polls {
            self.arm(core);
        }
        polls
    }

    /// The connection is there.
    pub(crate) fn connected(&self, core: &mut Core) {
        core.state = ViState::Connected;
        core.attempt = None;
        if core.wants() {
            self.arm(core);
        }
        self.news.notify_all();
    }
}
