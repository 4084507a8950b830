//! What a far NIC says about connections. It can say something about those alone that are between it and this one.

use super::Nic;
use crate::hosts::PeerId;
use crate::wire::{Id, Message};
use sovia_proto::word;
use sovia_reflect::Told;
use std::collections::HashMap;

impl Nic {
    pub(super) fn hear(
        &mut self,
        peer: PeerId,
        message: &Message<'_>,
        told: &mut HashMap<Id, Told>,
    ) {
        match *message {
            Message::Offer(far, link, is_connector, numbers) => {
                let key = (link.connector, link.acceptor, is_connector);
                let ours = (link.connector, link.acceptor, !is_connector);
                match self.peers[peer].requests.get(&ours) {
                    Some(&id) if self.is_other_end(id, numbers) => {
                        self.peers[peer].requests.remove(&ours);
                        self.join(id, far);
                    }
                    None => self.peers[peer].offers.add(key, far, numbers),
                    // Another connection's with the same addresses.
                    _ => {}
                }
            }
            Message::Withdraw(far) => {
                self.peers[peer].offers.withdraw(far);
                let Some(&id) = self.peers[peer].joined.get(&far) else { return };
                if let Some(connection) = self.connections.get_mut(&id)
                    && !connection.is_alone
                {
                    connection.is_alone = true;
                    if let Some((_, reflection)) = &mut connection.joined {
                        let gone = sovia_reflect::message::Message::Gone(word::ENDED);
                        let news = reflection.apply(&gone).unwrap_or_default();
                        if let Some(program) = self.programs.get(&connection.program) {
                            connection.wake(program, news);
                        }
                    }
                }
                // Its program may have left it before.
                self.end_if_over(id);
            }
            Message::About(id, bytes) => self.hear_about(peer, id, bytes, told),
            Message::Here => {}
            Message::Broken(id) => {
                if let Some(connection) = self.connections.get_mut(&id)
                    && connection.peer == peer
                    && !connection.is_alone
                    && let Some(program) = self.programs.get(&connection.program)
                {
                    connection.break_off(program, word::BROKEN);
                    // Its program may have left it before.
                    self.end_if_over(id);
                }
            }
        }
    }

    fn hear_about(&mut self, peer: PeerId, id: Id, bytes: &[u8], told: &mut HashMap<Id, Told>) {
        // What comes to one that is no more, or has been broken off, had been sent before its end was known there.
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.peer != peer || connection.is_alone {
            return;
        }
        let Some((far, reflection)) = &mut connection.joined else { return };
        let far = *far;
        let applied = sovia_reflect::message::Message::decode(bytes)
            .and_then(|message| reflection.apply(&message));
        match applied {
            Ok(news) => *told.entry(id).or_default() |= news,
            Err(malformed) => {
                eprintln!("sovia-agent: a connection is given up: {malformed}");
                if let Some(program) = self.programs.get(&connection.program) {
                    connection.break_off(program, word::BROKEN);
                }
                self.peers[peer].say(Message::Broken(far));
            }
        }
        // An answer that it is owed, perhaps.
        self.peers[peer].untold.insert(id);
    }

    /// Wakes those of a program that are to look at a VI.
    pub(super) fn wake(&self, id: Id, told: Told) {
        if let Some(connection) = self.connections.get(&id)
            && let Some(program) = self.programs.get(&connection.program)
        {
            connection.wake(program, told);
        }
    }
}
