//! Handles agents of other hosts that appear and disappear.

use super::route::{Carrier, Route};
use super::{Nic, channel_config};
use crate::connection::Connection;
use crate::hosts::{Event, Hosts, PeerId};
use crate::wire::{Id, Message};
use sovia_link::{Channel, Time};
use sovia_proto::word;

/// Number of turns in which the last frames of an ending NIC are received.
const LAST_TURNS: u32 = 16;

impl Nic {
    /// Handles the events of the TCP connections with other agents.
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
                    // Frames that the ending NIC sent to programs have arrived by now, or are lost.
                    let _ = (0..LAST_TURNS).all(|_| self.receive());
                    self.give_up(peer);
                }
            }
        }
    }

    /// Ends this NIC in an orderly way. Sends what the channels have room for and notifies the remote NICs. So
    /// connections with their programs continue on TCP at once. Programs of this host learn of the end from the end
    /// of the process.
    pub(super) fn part(&mut self) {
        self.visit_programs();
        self.tell_rest();
        self.transmit();
        self.hosts.iter_mut().for_each(Hosts::part);
    }

    /// Records that the TCP connection with a peer has ended. Unsent messages wait for the next TCP connection, until
    /// `Peer::is_given_up`.
    fn lose(&mut self, peer: PeerId, now: u64) {
        self.peers[peer].lose(now);
        let of = |(&id, it): (&Id, &Connection)| (it.peer == peer).then_some(id);
        let all: Vec<Id> = self.connections.iter().filter_map(of).collect();
        all.into_iter().for_each(|id| self.look_for_abandoned(id));
    }

    /// Gives up a peer that has ended, or that was silent as long as TCP waits for an answer. Its programs'
    /// connections continue on TCP, which may use another path.
    pub(super) fn give_up(&mut self, peer: PeerId) {
        if let Some(hosts) = &mut self.hosts {
            hosts.give_up(peer);
        }
        self.begin_with(peer, None);
    }

    /// Breaks a connection whose TCP connection the kernel has ended: without a NIC, the connection would have ended
    /// too.
    ///
    /// While the peer cannot be reached, a reset of the TCP connection also breaks the connection. If the program
    /// itself has ended the connection, the NIC keeps the VI. So the peer still gets the data.
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
        // The remote program's TCP may not know of the end. This message reports the end when the network is back, as
        // TCP would do by a reset. Otherwise the remote program would wait for ever.
        self.peers[connection.peer].say(Message::Broken(far));
        self.end_if_over(id);
    }
}
