//! Programs that wait for requests.

use crate::ids::WaiterId;
use crate::medium::Medium;
use crate::world::{Waiter, World};
use via::NetAddress;

impl<M: Medium> World<M> {
    /// Waits for a request to an address of a node.
    pub(crate) fn add_waiter(&mut self, node: M::Node, address: NetAddress) -> WaiterId {
        let id = WaiterId(self.fresh());
        self.waiters.insert(id, Waiter { node, address, request: None });
        id
    }

    /// The longest waiting one at an address that has nothing yet.
    pub(crate) fn free_waiter(&mut self, node: M::Node, address: &NetAddress) -> Option<WaiterId> {
        let fits =
            |w: &Waiter<M::Node>| w.node == node && w.request.is_none() && w.address == *address;
        self.waiters.iter().find(|(_, waiter)| fits(waiter)).map(|(&id, _)| id)
    }

    /// Does not wait any more. A request that the program has not looked at is rejected.
    pub(crate) fn remove_waiter(&mut self, id: WaiterId) {
        if let Some(request) = self.waiters.remove(&id).and_then(|waiter| waiter.request) {
            self.turn_away(request);
        }
    }
}
