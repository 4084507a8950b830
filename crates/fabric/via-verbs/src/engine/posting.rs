//! What is posted goes to the device.

use crate::access::Keyed;
use crate::engine::{First, RECEIVE, SEND};
use crate::slot::lock;
use crate::state::{Core, Job, Started, ViShared};
use crate::wire::{Closing, Question};
use sovia_verbs::pair::Work as Request;
use sovia_verbs::{RegisteredMemory, Remote, Rights, Segment};
use via::descriptor::Work;
use via::error::{Cause, PostError};
use via::{Control, DescriptorAddress, Memory, Status, ViState, WorkQueueKind};

/// A key that no region has.
const NO_KEY: u32 = 0;

impl ViShared {
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
            let loaded = core.access(&self.card).load(at, WorkQueueKind::Recv);
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
        let domain = self.card.regions.domain(core.ptag).ok()?;
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
            let started = match core.access(&self.card).load(at, WorkQueueKind::Send) {
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
}
