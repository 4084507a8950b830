//! A VI, for programs.

use crate::config;
use crate::open::Open;
use crate::slot::{SPIN, Slot, after, lock, sleep};
use crate::state::{Job, ViShared, Watching};
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;
use via::error::{Cause, ConnectError, CreateViError, PostError, SetViError, WaitError};
use via::event::ViCallback;
use via::state::{Event, IllegalTransition};
use via::{
    Bequest, Completion, DescriptorAddress, Done, NetAddress, Vi, ViAttributes, ViState,
    WorkQueueKind,
};

/// A VI of an RDMA NIC.
#[derive(Debug)]
pub struct VerbsVi {
    pub(crate) shared: Arc<ViShared>,
    /// Keeps the NIC's thread running.
    pub(crate) open: Arc<Open>,
}

/// An attempt to connect: its name, the slot for its outcome, and its time limit.
type Begun = (u64, Slot<Result<ViAttributes, ConnectError>>, Option<Instant>);

impl VerbsVi {
    fn done(&self, kind: WorkQueueKind) -> Done {
        let core = &mut *lock(&self.shared.core);
        self.shared.looks.count();
        if !core.queue(kind).work.has_done() {
            self.shared.poll(core);
        }
        core.queue(kind).work.take()
    }

    fn wait(
        &self,
        kind: WorkQueueKind,
        timeout: Option<Duration>,
    ) -> Result<Completion, WaitError> {
        let begin = Instant::now();
        let until = after(timeout);
        loop {
            match self.done(kind) {
                Done::Completion(completion) => return Ok(completion),
                Done::Empty => return Err(WaitError::Empty),
                Done::NotDone => {}
            }
            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return Err(WaitError::Timeout);
            }
            if now - begin > SPIN {
                break;
            }
            core::hint::spin_loop();
        }
        self.shared.card.turn(Watching::sleeper);
        let mut core = lock(&self.shared.core);
        core.sleepers += 1;
        let found = loop {
            self.shared.arm(&mut core);
            match core.queue(kind).work.take() {
                Done::Completion(completion) => break Ok(completion),
                Done::Empty => break Err(WaitError::Empty),
                Done::NotDone => {}
            }
            let woken;
            (core, woken) = sleep(&self.shared.news, core, until);
            if !woken {
                break Err(WaitError::Timeout);
            }
        };
        core.sleepers -= 1;
        drop(core);
        lock(&self.shared.card.watching).no_sleeper();
        found
    }

    /// Begins to connect.
    fn begin(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        timeout: Option<Duration>,
        is_peer: bool,
    ) -> Result<Begun, ConnectError> {
        self.shared.card.attributes.possible(local)?;
        self.shared.card.attributes.possible(remote)?;
        if timeout == Some(Duration::ZERO) {
            return Err(ConnectError::InvalidParameter("a timeout of zero"));
        }
        let to = config::place(&remote.host)
            .ok_or(ConnectError::NotReachable("this is not the address of an RDMA NIC"))?;
        let until = after(timeout);
        let card = &self.shared.card;
        let (name, slot) = (card.name(), Slot::new());
        {
            let mut core = lock(&self.shared.core);
            core.state = core.state.after(Event::Request)?;
            core.attempt = Some(name);
            core.result = Some(slot.clone());
        }
        let (local, remote) = (local.clone(), remote.clone());
        card.job(Job::Connect { vi: self.shared.clone(), name, local, remote, to, until, is_peer });
        Ok((name, slot, until))
    }

    /// Ends an attempt that has timed out. Returns false if it was over already.
    fn give_up(&self, name: u64) -> bool {
        let mut core = lock(&self.shared.core);
        let is_it = core.attempt == Some(name);
        if is_it {
            self.shared.unmade(&mut core);
            self.shared.card.job(Job::Forget { name });
        }
        is_it
    }
}

impl Vi for VerbsVi {
    fn attributes(&self) -> ViAttributes {
        lock(&self.shared.core).attributes
    }

    fn set_attributes(&self, attributes: ViAttributes) -> Result<(), SetViError> {
        let card = &self.shared.card;
        let mut core = lock(&self.shared.core);
        if core.state != ViState::Idle {
            return Err(SetViError::State(core.state));
        }
        card.attributes.offer(&attributes)?;
        let ptag = card
            .regions
            .table
            .hold_ptag(attributes.ptag)
            .map_err(|_| CreateViError::UnknownPtag)?;
        card.regions.table.release_ptag(core.ptag);
        core.ptag = ptag;
        core.attributes = ViAttributes { ptag: Some(ptag), ..attributes };
        Ok(())
    }

    fn context(&self) -> u64 {
        self.shared.context
    }

    fn state(&self) -> ViState {
        let mut core = lock(&self.shared.core);
        self.shared.poll(&mut core);
        core.state
    }

    fn cause(&self) -> Option<Cause> {
        let mut core = lock(&self.shared.core);
        self.shared.poll(&mut core);
        core.cause
    }

    fn queues_empty(&self) -> (bool, bool) {
        let core = lock(&self.shared.core);
        (core.send.work.is_empty(), core.recv.work.is_empty())
    }

    fn connect_request(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<ViAttributes, ConnectError> {
        let (name, slot, until) = self.begin(local, remote, timeout, false)?;
        if let Some(result) = slot.wait(until) {
            return result;
        }
        if self.give_up(name) {
            return Err(ConnectError::Timeout);
        }
        slot.take().unwrap_or(Err(ConnectError::Timeout))
    }

    fn connect_peer_request(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<(), ConnectError> {
        self.shared.card.attributes.own(local)?;
        self.begin(local, remote, timeout, true).map(drop)
    }

    fn connect_peer_done(&self) -> Option<Result<ViAttributes, ConnectError>> {
        let mut core = lock(&self.shared.core);
        let Some(slot) = &core.result else {
            let error = IllegalTransition { state: core.state, event: Event::Accepted };
            return Some(Err(ConnectError::State(error)));
        };
        let result = slot.take()?;
        core.result = None;
        Some(result)
    }

    fn connect_peer_wait(&self) -> Result<ViAttributes, ConnectError> {
        let (slot, state) = {
            let core = lock(&self.shared.core);
            (core.result.clone(), core.state)
        };
        let error = ConnectError::State(IllegalTransition { state, event: Event::Accepted });
        let Some(slot) = slot else { return Err(error) };
        let result = slot.wait(None).unwrap_or(Err(error));
        lock(&self.shared.core).result = None;
        result
    }

    fn disconnect(&self) {
        let shared = &self.shared;
        let mut core = lock(&shared.core);
        if let Some(name) = core.attempt {
            let error = IllegalTransition { state: ViState::Idle, event: Event::Accepted };
            shared.unmade(&mut core);
            shared.card.job(Job::Forget { name });
            if let Some(slot) = &core.result {
                slot.put(Err(ConnectError::State(error)));
            }
        }
        // Waits until the device has ended all sends, so that the peer receives them.
        core.sleepers += 1;
        while core.state == ViState::Connected {
            shared.arm(&mut core);
            if core.state != ViState::Connected || core.send.work.outstanding() == 0 {
                break;
            }
            shared.card.turn(Watching::sleeper);
            (core, _) = sleep(&shared.news, core, None);
            lock(&shared.card.watching).no_sleeper();
        }
        core.sleepers -= 1;
        shared.end(&mut core);
    }

    fn destroy(self) -> Result<(), (Self, IllegalTransition)> {
        let state = self.state();
        match state.after(Event::Destroy) {
            Ok(_) => Ok(()),
            Err(error) => Err((self, error)),
        }
    }

    fn post_send(&self, descriptor: DescriptorAddress) -> Result<(), PostError> {
        self.shared.post_send(descriptor)
    }

    fn post_recv(&self, descriptor: DescriptorAddress) -> Result<(), PostError> {
        self.shared.post_receive(descriptor)
    }

    fn send_done(&self) -> Done {
        self.done(WorkQueueKind::Send)
    }

    fn recv_done(&self) -> Done {
        self.done(WorkQueueKind::Recv)
    }

    fn send_wait(&self, timeout: Option<Duration>) -> Result<Completion, WaitError> {
        self.wait(WorkQueueKind::Send, timeout)
    }

    fn recv_wait(&self, timeout: Option<Duration>) -> Result<Completion, WaitError> {
        self.wait(WorkQueueKind::Recv, timeout)
    }

    fn send_notify(&self, callback: ViCallback) {
        self.notify(WorkQueueKind::Send, callback);
    }

    fn recv_notify(&self, callback: ViCallback) {
        self.notify(WorkQueueKind::Recv, callback);
    }

    fn push_sends(&self) -> bool {
        let mut core = lock(&self.shared.core);
        self.shared.poll(&mut core);
        core.send.work.outstanding() > 0
    }

    fn bequest(&self) -> Option<Box<dyn Bequest>> {
        None
    }
}

impl VerbsVi {
    fn notify(&self, kind: WorkQueueKind, callback: ViCallback) {
        let core = &mut *lock(&self.shared.core);
        core.queue(kind).notify.push_back(callback);
        self.shared.hand_out(core, kind);
        self.shared.arm(core);
    }
}

impl Drop for VerbsVi {
    fn drop(&mut self) {
        self.disconnect();
        let card = &self.shared.card;
        lock(&card.vis).remove(&self.shared.name);
        let core = &mut *lock(&self.shared.core);
        card.regions.table.release_ptag(core.ptag);
        for kind in [WorkQueueKind::Send, WorkQueueKind::Recv] {
            let queue = core.queue(kind);
            if let Some(cq) = queue.cq.take() {
                cq.attached.fetch_sub(1, Ordering::Relaxed);
            }
            let callbacks = core::mem::take(&mut queue.notify);
            if !callbacks.is_empty() {
                card.dispatcher.run(Box::new(move || drop(callbacks)));
            }
        }
        card.vi_count.fetch_sub(1, Ordering::Relaxed);
        let _ = &self.open;
    }
}
