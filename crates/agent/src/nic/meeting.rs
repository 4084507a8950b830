//! Agents of other hosts, as they come and go.

use super::route::{Carrier, Route};
use super::{Nic, channel_config};
use crate::connection::Connection;
use crate::hosts::{Event, Hosts, PeerId};
use crate::wire::{Id, Message};
use sovia_link::{Channel, Time};
use sovia_proto::word;

/// Turns in which frames are taken that may be of a NIC that ends.
const LAST_TURNS: u32 = 16;

impl Nic {
    /// Does what there is to do about other agents.
    pub(super) fn meet(&mut self, now: u64) {
        let Some(hosts) = &mut self.hosts else { return };
        let at = Time::from_nanos(now);
        for (peer, event) in hosts.step(now) {
            match event {
                Event::Met(agreed) if agreed.is_held => {
                    let route = self.best_route(peer);
                    self.peers[peer].go_on(route);
                }
                Event::Met(agreed) => {
                    let [own, other] = agreed.channel.epochs;
                    let checksums = self.port.checksums();
                    let config = channel_config(agreed.frame_max, self.control, checksums);
                    self.peers[peer].frame_max = agreed.frame_max;
                    let channel = Channel::between(config, agreed.channel.number, own, other);
                    self.begin_with(peer, Some(channel));
                }
                Event::Fabric(said) => self.meet_fabric(peer, &said),
                Event::Frame(frame) => {
                    self.peers[peer].handle_frames(at, Carrier::Conversation, &frame, frame.len());
                    self.doubt_trunk(peer, Route::conversation(now));
                }
                Event::Room => self.peers[peer].is_due = true,
                Event::Lost => self.lose(peer, now),
                Event::Parted => {
                    // What it has sent to programs that hear no more of it has come, or is lost.
                    let _ = (0..LAST_TURNS).all(|_| self.receive());
                    self.give_up(peer);
                }
            }
        }
    }

    /// This NIC ends. It has sent what it can, and far NICs are told, so that connections with programs of theirs go on on TCP at once;
    /// those of this host learn it from the end of the process.
    pub(super) fn part(&mut self) {
        self.visit_programs();
        self.tell_rest();
        self.transmit();
        self.hosts.iter_mut().for_each(Hosts::part);
    }

    /// The conversation with a peer is over. What is on its way to it stays until there is another one, or it has been silent
    /// for too long.
    fn lose(&mut self, peer: PeerId, now: u64) {
        self.peers[peer].lose(now);
        let of = |(&id, it): (&Id, &Connection)| (it.peer == peer).then_some(id);
        let all: Vec<Id> = self.connections.iter().filter_map(of).collect();
        all.into_iter().for_each(|id| self.look_for_abandoned(id));
    }

    /// A peer has ended, or has not been there for as long as TCP itself waits for an answer. Its programs' connections go on on TCP,
    /// whose way may be another one.
    pub(super) fn give_up(&mut self, peer: PeerId) {
        if let Some(hosts) = &mut self.hosts {
            hosts.give_up(peer);
        }
        self.begin_with(peer, None);
    }

    /// A connection ends when the kernel has ended its program's TCP: that would have ended it without a NIC, too. Where the peer
    /// cannot be spoken to a reset does so as well. One that the program itself has ended waits for the peer, which is to have what was
    /// sent.
    pub(super) fn look_for_abandoned(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some((far, reflection)) = &connection.joined else { return };
        let far = *far;
        let cannot_be_told = !self.peers[connection.peer].is_met && !connection.is_left;
        let is_ended = reflection.has_ended_here()
            || cannot_be_told && reflection.has_ended_on_tcp() && !connection.is_held();
        if connection.is_alone || !is_ended {
            return;
        }
        if let Some(program) = self.programs.get(&connection.program) {
            connection.break_off(program, word::BROKEN);
        }
        // The far program's TCP may know nothing of it. Should the network be there again, that one is told what TCP would have
        // told it as soon as it wrote; else it would wait for an end that no process has.
        self.peers[connection.peer].say(Message::Broken(far));
        self.end_if_over(id);
    }
}
