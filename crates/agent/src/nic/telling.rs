//! Sends messages about connections to remote NICs, as far as their channels have room.

use super::Nic;
use crate::bundle::Bundle;
use crate::connection::Connection;
use crate::hosts::PeerId;
use crate::wire::{Id, Message, begin_about};
use core::ops::Range;
use sovia_link::Channel;
use sovia_proto::word;
use sovia_reflect::Sink;

/// Bytes of messages that one connection may send in its turn, approximately.
const TURN: usize = 128 << 10;

/// Sink that wraps messages about one VI and appends them to the bundle.
struct About<'a> {
    bundle: &'a mut Bundle,
    channel: &'a mut Channel,
    /// Set if other messages must be sent first.
    waits: bool,
    /// Bytes that this connection may still send in its turn.
    left: usize,
    far: Id,
}

impl Sink for About<'_> {
    fn has_room(&mut self) -> bool {
        !self.waits && self.left > 0 && self.bundle.has_room(self.channel)
    }

    fn append(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let left = &mut self.left;
        self.bundle.put_by(|bytes| {
            let before = bytes.len();
            begin_about(self.far, bytes);
            write(bytes);
            *left = left.saturating_sub(bytes.len() - before);
        });
    }
}

impl Nic {
    /// Sends the remote NIC what a program has published on a VI.
    pub(super) fn tell(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(program) = self.programs.get(&connection.program) else { return };
        // Check this first: everything that the program published before it left the VI is then sent.
        connection.look_for_leaving(program);
        // Do this before the end is sent like an ordinary end. The remote program must see a broken connection,
        // because its TCP may never learn of the end.
        self.look_for_abandoned(id);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(program) = self.programs.get(&connection.program) else { return };
        let Some((far, reflection)) = &mut connection.joined else { return };
        let peer = &mut self.peers[connection.peer];
        // Without a channel, the connection is already broken off, and there is no NIC to notify.
        let Some(channel) = &mut peer.channel else { return self.end_if_over(id) };
        let waits = !peer.unsaid.is_empty();
        let before = reflection.sent();
        let mut about = About { bundle: &mut peer.bundle, channel, waits, left: TURN, far: *far };
        let told = match connection.is_alone {
            true => Ok(true),
            false => reflection.collect(&mut about),
        };
        let far = *far;
        let messages = reflection.sent().messages_since(before);
        let awaits_answer = messages != 0 || matches!(told, Ok(false));
        peer.is_due = true;
        match told {
            Ok(true) => {
                peer.untold.remove(&id);
            }
            Ok(false) => {
                peer.untold.insert(id);
            }
            Err(corrupt) => {
                eprintln!("sovia-agent: a connection is given up: {corrupt}");
                peer.untold.remove(&id);
                connection.break_off(program, word::BROKEN);
                peer.say(Message::Broken(far));
            }
        }
        if messages != 0 {
            self.count_sent(id, messages);
        }
        if awaits_answer {
            self.await_answer(id);
        }
        self.end_if_over(id);
    }

    pub(super) fn end_if_over(&mut self, id: Id) {
        if self.connections.get(&id).is_some_and(Connection::is_over) {
            self.forget(id);
        }
    }

    /// Continues where channels had no room.
    pub(super) fn tell_rest(&mut self) {
        for peer in 0..self.peers.len() {
            if self.peers[peer].is_due {
                self.tell_rest_to(peer);
            }
        }
    }

    fn tell_rest_to(&mut self, number: PeerId) {
        let peer = &mut self.peers[number];
        let Some(channel) = &mut peer.channel else { return };
        while !peer.unsaid.is_empty() {
            if !peer.bundle.has_room(channel) {
                return;
            }
            if let Some(message) = peer.unsaid.pop() {
                peer.bundle.put(&message);
            }
        }
        // Begin after the connection that last had room. Otherwise connections with small ids would use all the room.
        let first = self.peers[number].next_told;
        for mut ids in [first..Id::MAX, 0..first] {
            while let Some(id) = self.next_untold(number, &ids) {
                ids.start = id + 1;
                self.peers[number].next_told = ids.start;
                self.tell(id);
            }
        }
    }

    /// Returns the next connection in `ids` with something to send to a peer, if there is room.
    fn next_untold(&mut self, peer: PeerId, ids: &Range<Id>) -> Option<Id> {
        let peer = &mut self.peers[peer];
        let channel = peer.channel.as_deref_mut().filter(|_| !peer.untold.is_empty())?;
        let has_room = peer.bundle.has_room(channel);
        peer.untold.range(ids.clone()).next().copied().filter(|_| has_room)
    }
}
