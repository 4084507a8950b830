//! Requested VIs: joined when both ends have requested them, and forgotten when nothing is left to do.

use super::Nic;
use crate::connection::Connection;
use crate::numbers::Numbers;
use crate::wire::{Id, Message};

/// Maximum number of answers to offers of an end that is already joined. Without a limit, two NICs whose offers cross
/// would answer each other for ever.
const REPEATS: u8 = 8;

impl Nic {
    /// Returns true if a remote socket with these sequence numbers is the other end of connection `id`. Addresses
    /// alone prove nothing, because another network may use the same addresses.
    pub(super) fn is_other_end(&self, id: Id, numbers: Numbers) -> bool {
        let fits = |connection: &Connection| connection.fits(numbers);
        self.reader.is_none() || self.connections.get(&id).is_some_and(fits)
    }

    /// Like [`Nic::is_other_end`]. If the sequence numbers do not fit, reads those of the program's socket anew: the kernel
    /// may have changed the socket while they were read.
    pub(super) fn is_other_end_now(&mut self, id: Id, numbers: Numbers) -> bool {
        self.is_other_end(id, numbers)
            || self.learn_numbers_anew(id) && self.is_other_end(id, numbers)
    }

    /// Offers the program's end again, because the program still waits. The sequence numbers may have been wrong at either
    /// end. Then the two NICs did not recognize the two ends as one connection.
    pub(super) fn offer_again(&mut self, id: Id) {
        if self.learn_numbers_anew(id) {
            self.say_offer(id);
        }
    }

    /// Reads the sequence numbers of a connection's socket anew. Returns false if this failed.
    fn learn_numbers_anew(&mut self, id: Id) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        let Some(program) = self.programs.get(&connection.program) else { return false };
        let Some(reader) = &self.reader else { return true };
        connection.learn_numbers(reader, program.uid)
    }

    /// Answers an offer of the end that connection `id` is already joined to. The remote NIC has not joined the two ends.
    pub(super) fn answer_offer_of_joined(&mut self, id: Id) {
        if let Some(connection) = self.connections.get_mut(&id)
            && !connection.is_alone
            && connection.repeats < REPEATS
        {
            connection.repeats += 1;
            self.say_offer(id);
        }
    }

    /// Offers the program's end to the remote NIC. Does nothing while other messages wait: a withdrawal removes only one
    /// offer that waits.
    fn say_offer(&mut self, id: Id) {
        let Some(connection) = self.connections.get(&id) else { return };
        let peer = &mut self.peers[connection.peer];
        if peer.unsaid.is_empty() {
            peer.say(connection.offer(id));
        }
    }

    /// Joins the two ends after both have requested the connection.
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

    /// Removes a request that the program has withdrawn. The program may have since requested the VI for another
    /// connection.
    pub(super) fn withdraw(&mut self, id: Id) {
        if let Some(connection) = self.forget(id) {
            let peer = &mut self.peers[connection.peer];
            // Another request with the same addresses belongs to another connection. Keep it.
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

    /// Removes a connection for which nothing is left to do.
    pub(super) fn forget(&mut self, id: Id) -> Option<Connection> {
        self.count_answered(id);
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
