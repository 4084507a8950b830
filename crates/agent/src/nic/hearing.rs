//! Handles a remote NIC's messages about connections. A remote NIC can only affect connections that it shares with
//! this NIC.

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
                let requested = self.peers[peer].requests.get(&ours).copied();
                match requested {
                    Some(id) if self.is_other_end_now(id, numbers) => {
                        self.peers[peer].requests.remove(&ours);
                        self.join(id, far);
                    }
                    None => match self.peers[peer].joined.get(&far) {
                        Some(&id) => self.answer_offer_of_joined(id),
                        None => self.peers[peer].offers.add(key, far, numbers),
                    },
                    // The offer is for another connection with the same addresses.
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
                // The program may have left the VI before.
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
                    // The program may have left the VI before.
                    self.end_if_over(id);
                }
            }
        }
    }

    fn hear_about(&mut self, peer: PeerId, id: Id, bytes: &[u8], told: &mut HashMap<Id, Told>) {
        // The remote NIC sent this message before it learned of the connection's end.
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.peer != peer || connection.is_alone {
            return;
        }
        let Some((far, reflection)) = &mut connection.joined else { return };
        let far = *far;
        let applied = sovia_reflect::message::Message::decode(bytes)
            .and_then(|message| reflection.apply(&message));
        match applied {
            Ok(news) => {
                *told.entry(id).or_default() |= news;
                if news.reader {
                    self.count_answered(id);
                }
            }
            Err(malformed) => {
                eprintln!("sovia-agent: a connection is given up: {malformed}");
                if let Some(program) = self.programs.get(&connection.program) {
                    connection.break_off(program, word::BROKEN);
                }
                self.peers[peer].say(Message::Broken(far));
            }
        }
        // Send this connection's words in the next turn: the remote NIC may expect an answer.
        self.peers[peer].untold.insert(id);
    }

    /// Notifies the program's threads that `told` selects.
    pub(super) fn wake(&self, id: Id, told: Told) {
        if let Some(connection) = self.connections.get(&id)
            && let Some(program) = self.programs.get(&connection.program)
        {
            connection.wake(program, told);
        }
    }
}
