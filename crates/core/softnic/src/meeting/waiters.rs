//! Programs that wait for requests.

use crate::ids::WaiterId;
use crate::medium::Medium;
use crate::world::{Waiter, World};
use sovia_link::wire::EndId;
use via::NetAddress;

impl<M: Medium> World<M> {
    /// Adds a wait for a request to an address of a node.
    pub(crate) fn add_waiter(&mut self, node: M::Node, address: NetAddress) -> WaiterId {
        let id = WaiterId(self.fresh());
        self.net.listen(&address, true);
        self.waiters.insert(id, Waiter { node, address, request: None });
        id
    }

    /// Returns the longest waiting entry at an address that has no request yet.
    pub(crate) fn free_waiter(&mut self, node: M::Node, address: &NetAddress) -> Option<WaiterId> {
        let fits =
            |w: &Waiter<M::Node>| w.node == node && w.request.is_none() && w.address == *address;
        self.waiters.iter().find(|(_, waiter)| fits(waiter)).map(|(&id, _)| id)
    }

    /// Takes the request of a wait, and ends the wait.
    pub(crate) fn take_request(&mut self, id: WaiterId) -> Option<EndId> {
        let request = self.waiters.get(&id)?.request?;
        self.forget_waiter(id);
        Some(request)
    }

    /// Ends a wait. Rejects a request that the program has not taken.
    pub(crate) fn remove_waiter(&mut self, id: WaiterId) {
        if let Some(request) = self.forget_waiter(id) {
            self.turn_away(request);
        }
    }

    fn forget_waiter(&mut self, id: WaiterId) -> Option<EndId> {
        let waiter = self.waiters.remove(&id)?;
        self.net.listen(&waiter.address, false);
        waiter.request
    }
}
