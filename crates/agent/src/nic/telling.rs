//! Sends messages to the far NIC, as far as the channel has room.

use super::Nic;
use crate::bundle::Bundle;
use crate::connection::Connection;
use crate::wire::{Id, Message, begin_about};
use sovia_link::Channel;
use sovia_reflect::Sink;

/// Wraps a message about a VI, and puts it to the others.
struct About<'a> {
    bundle: &'a mut Bundle,
    channel: &'a mut Channel,
    /// Something else goes first.
    waits: bool,
    far: Id,
}

impl Sink for About<'_> {
    fn has_room(&mut self) -> bool {
        !self.waits && self.bundle.has_room(self.channel)
    }

    fn append(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        self.bundle.put_by(|bytes| {
            begin_about(self.far, bytes);
            write(bytes);
        });
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
            bundle: &mut self.bundle,
            channel: &mut self.channel,
            waits: !self.unsaid.is_empty(),
            far: *far,
        };
        let told = match connection.is_alone {
            true => Ok(true),
            false => reflection.collect(&mut about),
        };
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
                self.say(Message::Broken(far));
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
            if !self.bundle.has_room(&mut self.channel) {
                return;
            }
            self.bundle.put(message);
            self.unsaid.pop_front();
        }
        let mut from = 0;
        while self.bundle.has_room(&mut self.channel)
            && let Some(&id) = self.untold.range(from..).next()
        {
            from = id + 1;
            self.tell(id);
        }
    }

    /// Says something to the far NIC, as soon as there is room.
    pub(super) fn say(&mut self, message: Message<'static>) {
        if !self.is_met {
            // What it is to know it is told when it is there.
            return;
        }
        if self.unsaid.is_empty() && self.bundle.has_room(&mut self.channel) {
            self.bundle.put(&message);
        } else {
            self.unsaid.push_back(message);
        }
    }
}
