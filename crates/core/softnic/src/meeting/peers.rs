//! The rendezvous of VIs that look for each other.

use crate::ids::ViId;
use crate::medium::{Medium, Purpose, Timer};
use crate::world::{Incoming, Role, World};
use sovia_link::wire::{EndId, Meeting, Request, Word};
use via::error::ConnectError;
use via::state::Event;
use via::{NetAddress, ViState};

impl<M: Medium> World<M> {
    /// Returns the VI for which a peer's request is meant.
    pub(crate) fn peer_for(&mut self, request: &Request) -> Option<ViId> {
        let vis = self.peers.between(&request.remote, &request.local);
        vis.iter().for_each(|&vi| self.expire(vi));
        let free = |vi: &ViId| {
            self.vis.get(vi).is_some_and(|vi| vi.conn.is_none() && vi.attempt.is_some())
        };
        vis.into_iter().find(free)
    }

    /// Accepts a peer's request without a call of the program.
    pub(crate) fn accept_peer(&mut self, request: EndId, vi: ViId) {
        if let Err(error) = self.accept(request, vi) {
            self.finish(vi, Err(error));
        }
    }

    /// Ends an acceptance by a VI: the VI is connected, or returns to its earlier state.
    pub(crate) fn accepted(&mut self, id: ViId, connected: bool, request: Option<Request>) {
        let Some(vi) = self.vis.get_mut(&id) else { return };
        if !connected {
            vi.conn = None;
        } else if vi.attempt.is_some() {
            let result = request
                .map(|request| request.attributes)
                .ok_or(ConnectError::NotReachable("the connection request no longer exists"));
            self.finish(id, result);
        } else if let Ok(state) = vi.state.after(Event::Accept) {
            debug_assert_eq!(state, ViState::Connected);
            vi.state = state;
        }
    }

    /// Pokes the peer, so that it sends a request. Repeats the poke if the peer does not acknowledge it.
    pub(crate) fn poke_again(&mut self, id: ViId, number: u64) {
        let config = self.config;
        let Some(vi) = self.vis.get_mut(&id) else { return };
        let Some(attempt) = vi.attempt.as_mut().filter(|a| a.number == number) else { return };
        let Some(to) = self.net.find(&attempt.remote.host) else { return };
        let Some(pokes) = attempt.pokes.filter(|&pokes| !config.is_enough(pokes)) else { return };
        attempt.pokes = Some(pokes + 1);
        let (local, remote) = (attempt.local.clone(), attempt.remote.clone());
        let node = attempt.node;
        self.send(node, to, Word::Meeting(Meeting::Poke { local, remote }));
        let at = self.net.now().after(config.timing.pause(pokes));
        self.net.set_timer(at, Timer(Purpose::Poke(id, number)));
    }

    /// Processes a poke: the peer accepts requests now.
    pub(crate) fn poked(
        &mut self,
        at: M::Node,
        from: M::Node,
        local: NetAddress,
        remote: NetAddress,
    ) {
        for id in self.peers.between(&remote, &local) {
            self.expire(id);
            let Some(vi) = self.vis.get_mut(&id) else { continue };
            let Some(attempt) = &mut vi.attempt else { continue };
            if attempt.role != Role::Asking {
                continue;
            }
            // The pending request may have come too early.
            attempt.again = true;
            if attempt.request.is_none() {
                self.request(id);
            }
        }
        self.send(at, from, Word::Meeting(Meeting::Poked { local, remote }));
    }

    /// Processes the acknowledgement of a poke.
    pub(crate) fn poke_noticed(&mut self, local: &NetAddress, remote: &NetAddress) {
        for id in self.peers.between(local, remote) {
            if let Some(attempt) = self.vis.get_mut(&id).and_then(|vi| vi.attempt.as_mut()) {
                attempt.pokes = None;
            }
        }
    }

    /// Returns the result of an acceptance; `None` while it is open.
    pub(crate) fn acceptance(&self, request: EndId) -> Option<bool> {
        self.incoming.get(&request).map_or(Some(false), Incoming::acceptance)
    }
}
