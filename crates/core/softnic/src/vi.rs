//! The VI type of a program.

use crate::card::Card;
use crate::driver::Driver;
use crate::ids::ViId;
use crate::medium::{Deadline, Medium};
use crate::world::{Role, World};
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;
use via::error::{Cause, ConnectError, CreateViError, PostError, SetViError, WaitError};
use via::event::ViCallback;
use via::state::{Event, IllegalTransition};
use via::{
    Bequest, Completion, DescriptorAddress, Done, NetAddress, Vi, ViAttributes, ViState,
    WorkQueueKind,
};

/// A VI of a NIC in software.
#[derive(Debug)]
pub struct SoftVi<D: Driver> {
    driver: D,
    nic: Arc<Card<<D::Medium as Medium>::Node>>,
    pub(crate) id: ViId,
}

/// Result of an attempt to connect, once there is one.
type Outcome = Option<Result<ViAttributes, ConnectError>>;

impl<D: Driver> SoftVi<D> {
    pub(crate) fn new(
        driver: D,
        nic: Arc<Card<<D::Medium as Medium>::Node>>,
        id: ViId,
    ) -> SoftVi<D> {
        SoftVi { driver, nic, id }
    }

    /// Begins to request a connection. Corresponds to [`Vi::connect_request`], for a program that polls.
    /// [`SoftVi::request_done`] returns the result.
    ///
    /// # Errors
    /// [`ConnectError::InvalidParameter`], [`ConnectError::State`], like [`Vi::connect_request`].
    pub fn request(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<(), ConnectError> {
        self.begin(local, remote, Role::Client, timeout)
    }

    /// Returns the result of the request, once; `None` while the request is pending.
    pub fn request_done(&self) -> Option<Result<ViAttributes, ConnectError>> {
        self.driver.look(|world| outcome(world, self.id))
    }

    fn begin(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        role: Role,
        timeout: Option<Duration>,
    ) -> Result<(), ConnectError> {
        self.nic.possible(local)?;
        self.nic.possible(remote)?;
        if timeout == Some(Duration::ZERO) {
            return Err(ConnectError::InvalidParameter("a timeout of zero"));
        }
        let deadline = self.driver.deadline(timeout);
        let (id, node) = (self.id, self.nic.node);
        self.driver.with(|world| {
            world.expire(id);
            world.begin(id, node, (local, remote), role, deadline)
        })
    }

    /// Waits for the end of the current attempt.
    fn await_outcome(&self) -> Result<ViAttributes, ConnectError> {
        let deadline = self.driver.with(|world| {
            let attempt = world.vis.get(&self.id).and_then(|vi| vi.attempt.as_ref());
            attempt.map(|attempt| attempt.deadline)
        });
        let deadline = deadline.unwrap_or(Deadline::Never);
        let ended = self.driver.wait(deadline, |world| outcome(world, self.id));
        // The time is over; take a result that has arrived at the last moment.
        ended.or_else(|| self.request_done()).unwrap_or(Err(ConnectError::Timeout))
    }

    /// Disconnects. Waits until the medium has finished moving bytes from and to the program's memory, so that the
    /// program may use the memory again.
    fn end(&self) {
        let moves = self.driver.with(|world| {
            world.disconnect(self.id);
            world.moves_for(self.id)
        });
        if moves {
            let ended = |world: &mut World<D::Medium>| (!world.moves_for(self.id)).then_some(());
            self.driver.wait(Deadline::Never, ended);
        }
    }

    fn post(&self, kind: WorkQueueKind, at: DescriptorAddress) -> Result<(), PostError> {
        self.driver.with(|world| world.post(self.id, kind, at))
    }

    fn done(&self, kind: WorkQueueKind) -> Done {
        let found = self.driver.look(|world| match take(world, self.id, kind) {
            Done::NotDone => None,
            found => Some(found),
        });
        found.unwrap_or(Done::NotDone)
    }

    fn wait(
        &self,
        kind: WorkQueueKind,
        timeout: Option<Duration>,
    ) -> Result<Completion, WaitError> {
        let deadline = self.driver.deadline(timeout);
        let seen = self.driver.wait(deadline, |world| match take(world, self.id, kind) {
            Done::Completion(completion) => Some(Ok(completion)),
            Done::Empty => Some(Err(WaitError::Empty)),
            Done::NotDone => None,
        });
        seen.unwrap_or(Err(WaitError::Timeout))
    }

    fn notify(&self, kind: WorkQueueKind, callback: ViCallback) {
        self.driver.with(|world| {
            let callback = world.registrations.add(callback);
            if let Some(vi) = world.vis.get_mut(&self.id) {
                vi.queue(kind).notify.0.push_back(callback);
                world.hand_out(self.id, kind);
            }
        });
    }
}

fn outcome<M: Medium>(world: &mut World<M>, id: ViId) -> Outcome {
    world.expire(id);
    world.vis.get_mut(&id)?.outcome.take()
}

fn take<M: Medium>(world: &mut World<M>, id: ViId, kind: WorkQueueKind) -> Done {
    world.vis.get_mut(&id).map_or(Done::Empty, |vi| vi.queue(kind).work.take())
}

impl<D: Driver> Vi for SoftVi<D> {
    fn attributes(&self) -> ViAttributes {
        self.driver.with(|world| world.vis[&self.id].attributes)
    }

    fn set_attributes(&self, attributes: ViAttributes) -> Result<(), SetViError> {
        self.driver.with(|world| {
            world.expire(self.id);
            let Some(vi) = world.vis.get_mut(&self.id) else { return Ok(()) };
            if vi.state != ViState::Idle || vi.conn.is_some() {
                return Err(SetViError::State(vi.state));
            }
            self.nic.attributes.offer(&attributes)?;
            let ptag = self.nic.table.hold_ptag(attributes.ptag);
            let ptag = ptag.map_err(|_| CreateViError::UnknownPtag)?;
            self.nic.table.release_ptag(vi.ptag);
            vi.ptag = ptag;
            vi.attributes = ViAttributes { ptag: Some(ptag), ..attributes };
            Ok(())
        })
    }

    fn context(&self) -> u64 {
        self.driver.with(|world| world.vis[&self.id].context)
    }

    fn state(&self) -> ViState {
        self.driver.with(|world| {
            world.expire(self.id);
            world.vis[&self.id].state
        })
    }

    fn cause(&self) -> Option<Cause> {
        self.driver.with(|world| world.vis[&self.id].cause)
    }

    fn queues_empty(&self) -> (bool, bool) {
        self.driver.with(|world| {
            let vi = &world.vis[&self.id];
            (vi.send.work.is_empty(), vi.recv.work.is_empty())
        })
    }

    /// Implements [`Vi::connect_request`]. Also returns [`ConnectError::NotReachable`] if the peer's NIC does not
    /// answer.
    fn connect_request(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<ViAttributes, ConnectError> {
        self.begin(local, remote, Role::Client, timeout)?;
        self.await_outcome()
    }

    /// Implements [`Vi::connect_peer_request`]. The two addresses must differ.
    fn connect_peer_request(
        &self,
        local: &NetAddress,
        remote: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<(), ConnectError> {
        self.nic.attributes.own(local)?;
        let role = match local.cmp(remote) {
            core::cmp::Ordering::Less => Role::Asking,
            core::cmp::Ordering::Greater => Role::Asked,
            core::cmp::Ordering::Equal => {
                return Err(ConnectError::InvalidParameter(
                    "the peer's address is the same as the local address",
                ));
            }
        };
        self.begin(local, remote, role, timeout)
    }

    fn connect_peer_done(&self) -> Option<Result<ViAttributes, ConnectError>> {
        self.driver.look(|world| {
            if let Some(outcome) = outcome(world, self.id) {
                return Some(outcome);
            }
            let vi = world.vis.get(&self.id)?;
            let error = IllegalTransition { state: vi.state, event: Event::Accepted };
            vi.attempt.is_none().then_some(Err(ConnectError::State(error)))
        })
    }

    fn connect_peer_wait(&self) -> Result<ViAttributes, ConnectError> {
        match self.connect_peer_done() {
            Some(result) => result,
            None => self.await_outcome(),
        }
    }

    fn disconnect(&self) {
        self.end();
    }

    fn destroy(self) -> Result<(), (Self, IllegalTransition)> {
        match self.state().after(Event::Destroy) {
            Ok(_) => Ok(()),
            Err(error) => Err((self, error)),
        }
    }

    fn post_send(&self, descriptor: DescriptorAddress) -> Result<(), PostError> {
        self.post(WorkQueueKind::Send, descriptor)
    }

    fn post_recv(&self, descriptor: DescriptorAddress) -> Result<(), PostError> {
        self.post(WorkQueueKind::Recv, descriptor)
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
        self.driver.with(|world| {
            world.push_sends(self.id);
            world.vis.get(&self.id).is_some_and(|vi| !vi.waiting.is_empty())
        })
    }

    /// `None`, because the two ends share no memory.
    fn bequest(&self) -> Option<Box<dyn Bequest>> {
        None
    }
}

impl<D: Driver> Drop for SoftVi<D> {
    fn drop(&mut self) {
        self.end();
        self.driver.with(|world| {
            let Some(mut vi) = world.vis.remove(&self.id) else { return };
            for cq in [vi.send.cq, vi.recv.cq].into_iter().flatten() {
                world.detach(cq);
            }
            self.nic.table.release_ptag(vi.ptag);
            self.nic.vis.fetch_sub(1, Ordering::Relaxed);
            // Drop the callbacks later, without the lock: their destructors may take it.
            let callbacks =
                [core::mem::take(&mut vi.send.notify), core::mem::take(&mut vi.recv.notify)];
            world.run_later(&self.nic, Box::new(move || drop(callbacks)));
        });
    }
}
