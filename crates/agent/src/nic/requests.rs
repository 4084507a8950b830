//! VIs that programs have requested: joined when both ends have asked, and forgotten when nothing is left to be done.

use super::Nic;
use crate::connection::Connection;
use crate::numbers::Numbers;
use crate::wire::{Id, Message};

impl Nic {
    /// Whether a far program's socket with these sequence numbers is the other end of a connection. Addresses alone prove nothing:
    /// another network may have the same.
    pub(super) fn is_other_end(&self, id: Id, numbers: Numbers) -> bool {
        let fits = |connection: &Connection| connection.fits(numbers);
        self.reader.is_none() || self.connections.get(&id).is_some_and(fits)
    }

    /// Both ends of a connection have asked for it.
    pub(super) fn join(&mut self, id: Id, far: Id) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let program = &self.programs[&connection.program];
        if connection.join(program, far) {
            self.peers[connection.peer].joined.insert(far, id);
            self.tell(id);
        } else {
            self.withdraw(id);
        }
    }

    /// A request is none any more. Its VI may have been requested for another connection since.
    pub(super) fn withdraw(&mut self, id: Id) {
        if let Some(connection) = self.forget(id) {
            let peer = &mut self.peers[connection.peer];
            // Another request for the same addresses is another connection's.
            if peer.requests.get(&connection.own_end()) == Some(&id) {
                peer.requests.remove(&connection.own_end());
            }
            peer.say(Message::Withdraw(id));
            if let Some(program) = self.programs.get(&connection.program)
                && connection.is_replaced(program)
            {
                self.look_for_request(connection.program, connection.vi());
            }
        }
    }

    /// Nothing is left to be done about a connection.
    pub(super) fn forget(&mut self, id: Id) -> Option<Connection> {
        let connection = self.connections.remove(&id)?;
        let peer = &mut self.peers[connection.peer];
        peer.untold.remove(&id);
        if let Some((far, _)) = &connection.joined
            && peer.joined.get(far) == Some(&id)
        {
            peer.joined.remove(far);
        }
        if let Some(program) = self.programs.get_mut(&connection.program) {
            program.vis.remove(&connection.vi());
            connection.give_back(program);
            if program.died_at.is_some() && program.vis.is_empty() {
                self.programs.remove(&connection.program);
            }
        }
        Some(connection)
    }
}
