//! Requests for connections, at the waiting side.

use crate::driver::Driver;
use crate::ids::WaiterId;
use crate::medium::{Deadline, Medium};
use crate::vi::SoftVi;
use crate::world::World;
use sovia_link::wire::EndId;
use via::error::{ConnectError, NotAccepted};
use via::state::{Event, IllegalTransition};
use via::{Connection, NetAddress, ViAttributes, ViState};

/// A wait for one request. Dropping it ends the wait.
#[derive(Debug)]
pub struct Listener<D: Driver> {
    driver: D,
    waiter: WaiterId,
}

impl<D: Driver> Listener<D> {
    pub(crate) fn new(driver: D, waiter: WaiterId) -> Listener<D> {
        Listener { driver, waiter }
    }

    /// Returns the request, once, if it has arrived.
    pub fn poll(&self) -> Option<SoftConnection<D>> {
        let found = self.driver.look(|world| take(world, self.waiter));
        found.map(|found| self.connection(found))
    }

    /// # Errors
    /// [`ConnectError::Timeout`]; [`ConnectError::NotReachable`] after the network has failed.
    pub(crate) fn wait(&self, deadline: Deadline) -> Result<SoftConnection<D>, ConnectError> {
        let found = self.driver.wait_for_request(deadline, |world| {
            let found = take(world, self.waiter).map(Ok);
            found.or_else(|| world.is_there().err().map(Err))
        });
        let found = found.unwrap_or_else(|| self.end_wait());
        found.map(|found| self.connection(found))
    }

    /// Ends the wait. Returns a request that has arrived since the program's last poll, if any. Both are one step, so
    /// no request goes to a wait that has timed out, and none is rejected for that reason.
    fn end_wait(&self) -> Result<Found, ConnectError> {
        self.driver.with(|world| {
            let found = take(world, self.waiter);
            world.remove_waiter(self.waiter);
            found.ok_or(ConnectError::Timeout)
        })
    }

    fn connection(&self, (request, remote, attributes): Found) -> SoftConnection<D> {
        let driver = self.driver.clone();
        SoftConnection { driver, request, remote, attributes }
    }
}

type Found = (EndId, NetAddress, ViAttributes);

fn take<M: Medium>(world: &mut World<M>, waiter: WaiterId) -> Option<Found> {
    let id = world.take_request(waiter)?;
    let request = world.incoming.get(&id)?.request.as_ref()?;
    Some((id, request.local.clone(), request.attributes))
}

impl<D: Driver> Drop for Listener<D> {
    fn drop(&mut self) {
        self.driver.with(|world| world.remove_waiter(self.waiter));
    }
}

/// An incoming request for a connection, at a NIC in software.
#[derive(Debug)]
pub struct SoftConnection<D: Driver> {
    driver: D,
    request: EndId,
    remote: NetAddress,
    attributes: ViAttributes,
}

impl<D: Driver> Connection for SoftConnection<D> {
    type Vi = SoftVi<D>;

    fn remote_address(&self) -> &NetAddress {
        &self.remote
    }

    fn remote_attributes(&self) -> &ViAttributes {
        &self.attributes
    }

    /// Waits until the requester has confirmed the answer; otherwise as in the trait.
    fn accept(self, vi: &SoftVi<D>) -> Result<(), NotAccepted<SoftConnection<D>>> {
        let request = self.request;
        let begun = self.driver.with(|world| {
            let Some(core) = world.vis.get(&vi.id) else {
                return Err(ConnectError::InvalidParameter("no such VI"));
            };
            core.state.after(Event::Accept)?;
            if core.conn.is_some() {
                // The VI is accepting another request.
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
        let settled = self.driver.wait(Deadline::Never, |world| world.acceptance(request));
        if settled == Some(true) { Ok(()) } else { Err(NotAccepted::over()) }
    }

    fn reject(self) {}
}

impl<D: Driver> Drop for SoftConnection<D> {
    /// Refuses the request, unless it has an answer.
    fn drop(&mut self) {
        self.driver.with(|world| world.turn_away(self.request));
    }
}
