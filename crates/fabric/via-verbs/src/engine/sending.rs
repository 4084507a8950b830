//! Passes sends to the device.

use crate::access::{Access, Keyed};
use crate::engine::posting::NO_KEY;
use crate::engine::{First, SEND};
use crate::slot::lock;
use crate::state::{Core, Job, Started, ViShared};
use crate::wire::{Closing, Question};
use sovia_verbs::pair::NotPosted;
use sovia_verbs::pair::Work as Request;
use sovia_verbs::{Pair, Remote};
use via::descriptor::{One, Work};
use via::error::Cause;
use via::{Control, Status, ViState, WorkQueueKind};

impl ViShared {
    /// Passes posted sends to the device, until one has to wait.
    pub(crate) fn feed_sends(&self, core: &mut Core) {
        while let Some(at) = core.send.next() {
            let loaded = core.access(&self.card).load(at, WorkQueueKind::Send);
            if !self.start_next(core, loaded.as_ref().map_err(|status| *status)) {
                break;
            }
        }
        self.finish_sends(core);
    }

    /// Starts a send of one segment, if the device has all sends before it. Returns false, without an effect, if the
    /// send is not simple.
    #[inline]
    pub(super) fn send_one(&self, core: &mut Core, one: &One) -> bool {
        let Core { link: Some(link), send, recent, .. } = core else { return false };
        let length = one.data.length;
        if core.state != ViState::Connected
            || length > core.attributes.max_transfer_size
            || send.started.back().is_some_and(|last| last.failed.is_some())
        {
            return false;
        }
        let mut access = Access { regions: &self.card.regions, recent, ptag: core.ptag };
        let (pair, immediate, fenced) = (&link.pair, one.immediate, one.is_fenced);
        let given = if length <= pair.inline_max() {
            let Ok((memory, at)) = access.place(&one.data) else { return false };
            pair.post_inline_from(SEND, Request::Send, (memory, at, length), immediate, fenced)
        } else {
            let Ok(segment) = access.key(&one.data) else { return false };
            let segments = core::slice::from_ref(&segment);
            pair.post_send(SEND, Request::Send, segments, immediate, fenced)
        };
        let mut started = Started::new(Status::OP_SEND, length);
        started.consumes = true;
        started.failed = given.err().map(|_| Status::TRANSPORT_ERROR);
        let has_failed = started.failed.is_some();
        send.started.push_back(started);
        if has_failed {
            self.finish_sends(core);
        }
        true
    }

    /// Starts the next send, whose work is `loaded`. Returns false if it has to wait.
    fn start_next(&self, core: &mut Core, loaded: Result<&Work, Status>) -> bool {
        // A send after a failed send is not started, because the connection ends with the failure.
        let follows = core.send.started.back().is_some_and(|last| last.failed.is_some());
        if core.state != ViState::Connected || core.link.is_none() || follows {
            return false;
        }
        let mut started = match loaded {
            Ok(work) => Started::new(work.operation(), work.length()),
            Err(_) => Started::new(Status::OP_SEND, 0),
        };
        match loaded.and_then(|work| self.start_send(core, work, &mut started)) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(status) => started.failed = Some(status),
        }
        core.send.started.push_back(started);
        true
    }

    /// Starts a send. Returns false if it has to wait.
    ///
    /// # Errors
    /// The status with which the send ends.
    fn start_send(
        &self,
        core: &mut Core,
        work: &Work,
        started: &mut Started,
    ) -> Result<bool, Status> {
        let Started { operation, length, .. } = *started;
        started.consumes = operation == Status::OP_SEND
            || operation == Status::OP_RDMA_WRITE && work.immediate.is_some();
        if length > core.attributes.max_transfer_size {
            return Err(Status::LENGTH_ERROR);
        }
        if operation == Status::OP_RDMA_READ && !core.attributes.enable_rdma_read {
            // Both ends must have RDMA enabled.
            return Err(Status::RDMA_PROT_ERROR);
        }
        let is_read = operation == Status::OP_RDMA_READ;
        let request = match work.remote {
            None => Request::Send,
            Some(remote) => {
                // Local errors come before a question to the peer.
                core.access(&self.card).keyed(&work.data, &mut Keyed::new())?;
                let key = match length {
                    0 => Some(NO_KEY),
                    _ => self.remote_key(core, work, !is_read),
                };
                let Some(key) = key else { return Ok(false) };
                let remote = Remote { address: remote.address, key };
                if is_read { Request::Read(remote) } else { Request::Write(remote) }
            }
        };
        let pair = &core.link.as_ref().ok_or(Status::TRANSPORT_ERROR)?.pair;
        let posted = if !is_read && length <= pair.inline_max() {
            let recent = &mut core.recent;
            let access = Access { regions: &self.card.regions, recent, ptag: core.ptag };
            carry(pair, access, work, request, length)?
        } else {
            self.hand_over(core, work, request, started)?
        };
        posted.map(|()| true).map_err(|_| Status::TRANSPORT_ERROR)
    }

    /// Passes a send to the device, in place, or as a copy if the send has too many segments.
    ///
    /// # Errors
    /// The status with which the send ends if its memory cannot be used.
    fn hand_over(
        &self,
        core: &mut Core,
        work: &Work,
        request: Request,
        started: &mut Started,
    ) -> Result<Result<(), NotPosted>, Status> {
        let mut keyed = Keyed::new();
        core.access(&self.card).keyed(&work.data, &mut keyed)?;
        if keyed.len() > self.card.config.segments as usize {
            let (segment, copy) = self.copy_of(core, work).ok_or(Status::PROTECTION_ERROR)?;
            if started.operation != Status::OP_RDMA_READ {
                let mut bytes = vec![0; started.length as usize];
                core.access(&self.card).gather(&work.data, &mut bytes)?;
                copy.memory().write(0, &bytes);
            }
            started.copy = Some(Box::new((copy, work.data.clone())));
            keyed = Keyed::from_slice(&[segment]);
        }
        let pair = &core.link.as_ref().ok_or(Status::TRANSPORT_ERROR)?.pair;
        Ok(pair.post_send(SEND, request, &keyed, work.immediate, is_fenced(work)))
    }

    /// Returns the key of the peer's region; `None` while this side does not know the key.
    fn remote_key(&self, core: &mut Core, work: &Work, write: bool) -> Option<u32> {
        let remote = work.remote?;
        let is_first = core.send.started.is_empty();
        let link = core.link.as_mut()?;
        if let Some(key) = link.keys.get(&(remote.handle, write)) {
            return Some(*key);
        }
        // Asks only after all earlier sends have completed, because a refusal ends the connection.
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

    /// Handles the peer's answer with the key of a region, and starts the sends that wait for the key.
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

fn is_fenced(work: &Work) -> bool {
    work.control.contains(Control::QFENCE)
}

/// Posts a send that carries its few bytes itself.
///
/// # Errors
/// The status with which the send ends if its memory cannot be used.
#[inline]
fn carry(
    pair: &Pair,
    mut access: Access<'_>,
    work: &Work,
    request: Request,
    length: u32,
) -> Result<Result<(), NotPosted>, Status> {
    let (immediate, fenced) = (work.immediate, is_fenced(work));
    if let [one] = &work.data[..]
        && length > 0
    {
        let (memory, at) = access.place(one)?;
        return Ok(pair.post_inline_from(SEND, request, (memory, at, length), immediate, fenced));
    }
    let mut bytes = [0; 256];
    let bytes = &mut bytes[..length as usize];
    access.gather(&work.data, bytes)?;
    Ok(pair.post_inline(SEND, request, bytes, immediate, fenced))
}
