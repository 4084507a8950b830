//! Sends messages to the far NIC, as far as the channel has room.

use super::Nic;
use crate::connection::Connection;
use crate::wire::{Id, Message};
use sovia_link::Channel;
use sovia_reflect::Sink;

/// Wraps a message about a VI, and hands it to the channel.
struct About<'a> {
    channel: &'a mut Channel,
    /// Something else goes first.
    waits: bool,
    far: Id,
    bytes: Vec<u8>,
    message: Vec<u8>,
}

impl Sink for About<'_> {
    fn has_room(&mut self) -> bool {
        !self.waits && self.channel.can_send()
    }

    fn put(&mut self, message: &sovia_reflect::message::Message<'_>) {
        self.bytes.clear();
        message.encode(&mut self.bytes);
        Message::About(self.far, &self.bytes).encode(&mut self.message);
        let sent = self.channel.send(&self.message);
        debug_assert!(sent.is_ok(), "there was room");
    }
}

impl Nic {
    /// Tells the far NIC what a program has published on a VI.
    pub(super) fn tell(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(program) = self.programs.get(&connection.program) else { return };
        // First: then what the program published before it left is among what is sent.
        connection.look_for_leaving(program);
        let Some((far, reflection)) = &mut connection.joined else { return };
        let mut about = About {
            channel: &mut self.channel,
            waits: !self.unsaid.is_empty(),
            far: *far,
            bytes: core::mem::take(&mut self.frame),
            message: core::mem::take(&mut self.message),
        };
        let told = match connection.is_alone {
            true => Ok(true),
            false => reflection.collect(&mut about),
        };
        (self.frame, self.message) = (about.bytes, about.message);
        let far = *far;
        match told {
            Ok(true) => {
                self.untold.remove(&id);
            }
            Ok(false) => {
                self.untold.insert(id);
            }
            Err(damaged) => {
                eprintln!("sovia-agent: a connection is given up: {damaged}");
                self.untold.remove(&id);
                connection.break_off(program);
                self.say(&Message::Broken(far));
            }
        }
        self.end_if_over(id);
    }

    pub(super) fn end_if_over(&mut self, id: Id) {
        if self.connections.get(&id).is_some_and(Connection::is_over) {
            self.forget(id);
        }
    }

    /// Goes on where there was no room in the channel.
    pub(super) fn tell_rest(&mut self) {
        while let Some(message) = self.unsaid.front() {
            if self.channel.send(message).is_err() {
                return;
            }
            self.unsaid.pop_front();
        }
        let mut from = 0;
        while self.channel.can_send()
            && let Some(&id) = self.untold.range(from..).next()
        {
            from = id + 1;
            self.tell(id);
        }
    }

    /// Says something to the far NIC, as soon as there is room.
    pub(super) fn say(&mut self, message: &Message<'_>) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        if !self.unsaid.is_empty() || self.channel.send(&bytes).is_err() {
            self.unsaid.push_back(bytes);
        }
    }
}
