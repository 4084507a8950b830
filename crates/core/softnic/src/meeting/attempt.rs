//! Attempts to connect a VI: their beginning and their end.

use crate::ids::ViId;
use crate::medium::{Deadline, Medium, Purpose, Timer};
use crate::meeting::told;
use crate::world::{Attempt, Outgoing, Role, World};
use sovia_link::wire::{Closing, Meeting, Request, Word};
use via::connection::Requester;
use via::error::ConnectError;
use via::state::Event;
use via::{NetAddress, ViAttributes, ViState};

impl<M: Medium> World<M> {
    /// Begins to connect an idle VI. The VI's `outcome` gets the result.
    ///
    /// # Errors
    /// [`ConnectError::State`], and [`ConnectError::NotReachable`] if the network has failed.
    pub(crate) fn begin(
        &mut self,
        id: ViId,
        node: M::Node,
        (local, remote): (&NetAddress, &NetAddress),
        role: Role,
        deadline: Deadline,
    ) -> Result<(), ConnectError> {
        self.is_there()?;
        let number = self.fresh();
        let Some(vi) = self.vis.get_mut(&id) else {
            return Err(ConnectError::InvalidParameter("no such VI"));
        };
        let state = vi.state.after(Event::Request)?;
        if vi.conn.is_some() {
            // The VI is accepting another request.
            return Err(ViState::Connected.after(Event::Request).map_or_else(Into::into, |_| {
                ConnectError::InvalidParameter("the VI is being connected")
            }));
        }
        vi.state = state;
        vi.outcome = None;
        let (local, remote) = (local.clone(), remote.clone());
        let pokes = (role == Role::Asked).then_some(0);
        let attempt = Attempt {
            number,
            node,
            local,
            remote,
            deadline,
            role,
            asked: Requester::new(role.model()),
            request: None,
            again: false,
            pokes,
        };
        if let Deadline::At(time) = deadline {
            self.net.set_timer(time, Timer(Purpose::Expire(id, number)));
        }
        if role != Role::Client {
            self.peers.add(&attempt.local, &attempt.remote, id);
            self.net.listen(&attempt.local, true);
        }
        vi.attempt = Some(attempt);
        match role {
            Role::Client | Role::Asking => self.request(id),
            Role::Asked => self.poke_again(id, number),
        }
        Ok(())
    }

    /// Sends a new request.
    pub(crate) fn request(&mut self, id: ViId) {
        let request = self.net.name();
        let Some(vi) = self.vis.get_mut(&id) else { return };
        let Some(attempt) = &mut vi.attempt else { return };
        attempt.request = Some(request);
        attempt.again = false;
        let Some(to) = self.net.find(&attempt.remote.host) else {
            return self.finish(id, Err(ConnectError::NoMatch));
        };
        let request = Request {
            id: request,
            local: attempt.local.clone(),
            remote: attempt.remote.clone(),
            attributes: told(vi.attributes),
            peer: attempt.role == Role::Asking,
        };
        let outgoing =
            Outgoing { vi: id, node: attempt.node, to, pending: false, tries: 0, request };
        let request = outgoing.request.id;
        self.outgoing.insert(request, outgoing);
        self.request_again(request);
    }

    /// Ends an attempt with a result.
    pub(crate) fn finish(&mut self, id: ViId, result: Result<ViAttributes, ConnectError>) {
        let Some(vi) = self.vis.get_mut(&id) else { return };
        let Some(mut attempt) = vi.attempt.take() else { return };
        let event = attempt.asked.end(result.as_ref().map(|_| ()));
        let state = event.ok().and_then(|event| vi.state.after(event).ok());
        debug_assert!(state.is_some(), "an attempt ends once, and its VI is pending until then");
        vi.state = state.unwrap_or(ViState::Idle);
        vi.outcome = Some(result);
        self.news = true;
        if attempt.role != Role::Client {
            self.peers.remove(&attempt.local, &attempt.remote, id);
            self.net.listen(&attempt.local, false);
        }
        if let Some(Outgoing { node, to, .. }) =
            attempt.request.and_then(|request| self.outgoing.remove(&request))
            && let Some(request) = attempt.request
        {
            // If this frame is lost, the peer's answer finds no request, and the requester reports that.
            self.send(node, to, Word::Meeting(Meeting::Cancel { request }));
        }
    }

    /// Ends attempt `number` because its time is over, if it is still the current attempt.
    pub(crate) fn expire_attempt(&mut self, id: ViId, number: u64) {
        let vi = self.vis.get(&id);
        if vi.and_then(|vi| vi.attempt.as_ref()).is_some_and(|a| a.number == number) {
            self.time_out(id);
        }
    }

    /// Ends the VI's attempt if its time is over.
    pub(crate) fn expire(&mut self, id: ViId) {
        let deadline = self.vis.get(&id).and_then(|vi| vi.attempt.as_ref()).map(|a| a.deadline);
        if deadline.is_some_and(|deadline| self.is_past(deadline)) {
            self.time_out(id);
        }
    }

    fn time_out(&mut self, id: ViId) {
        let Some(vi) = self.vis.get_mut(&id) else { return };
        // The VI may have accepted a peer's request that the peer has not confirmed. Such a connection is not
        // established in time.
        if let Some(conn) = vi.conn.take() {
            self.close(conn, Closing::Disconnected);
        }
        self.finish(id, Err(ConnectError::Timeout));
    }
}
