//! Requests for connections, as the waiting side has them.

use crate::ids::WaiterId;
use crate::network::Shared;
use crate::vi::SimVi;
use crate::world::{Deadline, World};
use sovia_link::wire::EndId;
use std::sync::Arc;
use via::error::{ConnectError, NotAccepted};
use via::state::{Event, IllegalTransition};
use via::{Connection, NetAddress, ViAttributes, ViState};

/// Waits for one request. Dropping it ends the wait.
#[derive(Debug)]
pub struct Listener {
    shared: Arc<Shared>,
    waiter: WaiterId,
}

impl Listener {
    pub(crate) fn new(shared: Arc<Shared>, waiter: WaiterId) -> Listener {
        Listener { shared, waiter }
    }

    /// The request, if it has come. It comes once.
    pub fn poll(&self) -> Option<SimConnection> {
        let found = self.shared.with(|world| take(world, self.waiter));
        found.map(|found| self.connection(found))
    }

    pub(crate) fn wait(&self, deadline: Deadline) -> Option<SimConnection> {
        let found = self.shared.wait(deadline, |world| take(world, self.waiter));
        found.map(|found| self.connection(found))
    }

    fn connection(&self, (request, remote, attributes): Found) -> SimConnection {
        let shared = self.shared.clone();
        SimConnection { shared, request, remote, attributes }
    }
}

type Found = (EndId, NetAddress, ViAttributes);

fn take(world: &mut World, waiter: WaiterId) -> Option<Found> {
    let id = world.waiters.get(&waiter)?.request?;
    world.waiters.remove(&waiter);
    let request = world.incoming.get(&id)?.request.as_ref()?;
    Some((id, request.local.clone(), request.attributes))
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.with(|world| world.remove_waiter(self.waiter));
    }
}

/// A request for a connection to a simulated NIC.
#[derive(Debug)]
pub struct SimConnection {
    shared: Arc<Shared>,
    request: EndId,
    remote: NetAddress,
    attributes: ViAttributes,
}

impl Connection for SimConnection {
    type Vi = SimVi;

    fn remote_address(&self) -> &NetAddress {
        &self.remote
    }

    fn remote_attributes(&self) -> &ViAttributes {
        &self.attributes
    }

    /// As the trait says. It waits until the requester is known to have the answer, and steps the
    /// network meanwhile.
    fn accept(self, vi: &SimVi) -> Result<(), NotAccepted<SimConnection>> {
        let request = self.request;
        let begun = self.shared.with(|world| {
            let Some(core) = world.vis.get(&vi.id) else {
                return Err(ConnectError::InvalidParameter("no such VI"));
            };
            core.state.after(Event::Accept)?;
            if core.conn.is_some() {
                // Another acceptance of it is under way.
                let (state, event) = (ViState::Connected, Event::Accept);
                return Err(ConnectError::State(IllegalTransition { state, event }));
            }
            world.accept(request, vi.id)
        });
        match begun {
            Ok(()) => {}
            Err(ConnectError::Timeout) => return Err(NotAccepted::over()),
            Err(error) => return Err(NotAccepted::left(error, self)),
        }
        let settled = self.shared.wait(Deadline::Never, |world| world.acceptance(request));
        if settled == Some(true) { Ok(()) } else { Err(NotAccepted::over()) }
    }

    fn reject(self) {}
}

impl Drop for SimConnection {
    /// Refuses it, unless it has an answer.
    fn drop(&mut self) {
        self.shared.with(|world| world.turn_away(self.request));
    }
}
