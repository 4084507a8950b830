//! Sends and receives frames, gives each peer its turn, and handles remote NICs that restart.

use super::route::{Carrier, Route};
use super::{Nic, channel};
use crate::bundle::Messages;
use crate::hosts::PeerId;
use crate::port::{Sent, Unheard};
use crate::wire::Id;
use sovia_link::channel::Counters;
use sovia_link::{Channel, Event, Time};
use sovia_proto::word;
use sovia_reflect::Told;
use sovia_sys::clock;
use std::collections::HashMap;

impl Nic {
    /// Begins a new channel to the remote NIC on this host, which has died or restarted.
    fn begin_anew(&mut self, peer: PeerId) {
        match channel(self.port.frame_max(), self.control) {
            Ok(channel) => self.begin_with(peer, Some(channel)),
            // Not expected: the same call succeeded at the start.
            Err(error) => eprintln!("sovia-agent: {error}"),
        }
    }

    /// Replaces the channel to a remote NIC that has ended or restarted. Breaks the connections with its programs.
    pub(super) fn begin_with(&mut self, peer: PeerId, channel: Option<Channel>) {
        self.forget_trunk(peer);
        self.peers[peer].begin(channel);
        let (mut offered, mut ended, mut broken) = (Vec::new(), Vec::new(), 0);
        for (&id, connection) in &mut self.connections {
            if connection.peer != peer {
                continue;
            }
            let Some(program) = self.programs.get(&connection.program) else { continue };
            if connection.joined.is_some() {
                broken += usize::from(!connection.is_alone);
                connection.break_off(program, word::BROKEN);
                ended.push(id);
            } else {
                offered.push(connection.offer(id));
            }
        }
        if broken > 0 {
            eprintln!(
                "sovia-agent: {} has ended or restarted: {broken} connections are given up",
                self.name_of(peer)
            );
        }
        // These connections are over if their programs have already left them. No further event would end them.
        ended.into_iter().for_each(|id| self.end_if_over(id));
        offered.into_iter().for_each(|offer| self.peers[peer].say(offer));
    }

    /// Returns a text that names a remote NIC, for users.
    pub(super) fn name_of(&self, peer: PeerId) -> String {
        match &self.hosts {
            Some(hosts) => format!("the agent at {}", hosts.peers().all()[peer].address),
            None => "the other NIC".to_owned(),
        }
    }

    /// Receives frames from the port and the trunks, and handles their messages. Returns false if nothing arrived.
    pub(super) fn receive(&mut self) -> bool {
        let peers = &mut self.peers;
        let now = Time::from_nanos(clock::now_ns());
        let mut busy = self.port.receive(&mut |peer, bytes, segment| {
            peers[peer].handle_frames(now, Carrier::Port, bytes, segment);
            peers[peer].came_by_another_way |= peers[peer].route == Route::Trunk;
        });
        busy |= self.receive_by_trunks(now);
        for peer in 0..self.peers.len() {
            if !self.peers[peer].is_due {
                continue;
            }
            if core::mem::take(&mut self.peers[peer].came_by_another_way) {
                self.doubt_trunk(peer, Route::Port);
            }
            busy |= self.receive_from(peer);
        }
        busy
    }

    /// Handles the messages from one remote NIC. Returns false if there were none.
    fn receive_from(&mut self, peer: PeerId) -> bool {
        while let Some(event) = self.peers[peer].channel.as_mut().and_then(|it| it.poll_event()) {
            match event {
                // Agents of two hosts learn of a restart from their TCP connection.
                Event::Broken(_) if self.hosts.is_none() => self.begin_anew(peer),
                Event::Passed(_) => self.peers[peer].port_passes(),
                _ => {}
            }
        }
        let mut told: HashMap<Id, Told> = HashMap::new();
        let (mut message, mut any) = (Vec::new(), false);
        while self.peers[peer].channel.as_mut().is_some_and(|it| it.poll_message(&mut message)) {
            any = true;
            for message in Messages(&message) {
                match message {
                    Ok(message) => self.hear(peer, &message, &mut told),
                    Err(malformed) => self.nonsense(peer, malformed.0),
                }
            }
        }
        for (id, told) in told {
            if told.asks {
                self.ask(id, clock::now_ns());
            }
            self.wake(id, told);
            self.end_if_over(id);
        }
        any
    }

    /// Reports the frame counters to the owner.
    pub(super) fn tell_owner(&mut self) {
        if let Some(told) = self.port.told() {
            eprintln!("sovia-agent: {told}");
        }
        for peer in 0..self.peers.len() {
            if let Some(channel) = &self.peers[peer].channel {
                let Counters { frames, malformed, stale, refused, .. } = channel.counters();
                eprintln!(
                    "sovia-agent: {}: {frames} frames received, {malformed} malformed, {stale} of another channel, \
                     {refused} refused",
                    self.name_of(peer)
                );
            }
        }
    }

    /// Reports once that a remote NIC sends invalid messages.
    fn nonsense(&mut self, peer: PeerId, what: &str) {
        if !core::mem::replace(&mut self.peers[peer].has_said_nonsense, true) {
            eprintln!("sovia-agent: {} sent {what}", self.name_of(peer));
        }
    }

    /// Sends the frames of all channels, as far as there is room. Returns false if there were none.
    pub(super) fn transmit(&mut self) -> bool {
        let (count, mut any) = (self.peers.len(), false);
        for turn in 0..count {
            let peer = (self.first + turn) % count;
            if !self.peers[peer].is_due {
                continue;
            }
            self.peers[peer].is_due = false;
            let way = self.peers[peer].way();
            let sent = self.transmit_to(peer, way);
            any |= sent.any;
            // If there was no room, the peer gets its next turn when there is.
            self.peers[peer].is_due |= sent.any || !sent.has_room;
            if !sent.has_room && way == Carrier::Port {
                // All peers share the port. Next time, the following peer begins.
                self.first = (peer + 1) % count;
                self.watch_for_room(true);
                return any;
            }
        }
        self.watch_for_room(false);
        any
    }

    fn transmit_to(&mut self, peer: PeerId, way: Carrier) -> Sent {
        let (state, nothing) = (&mut self.peers[peer], Sent { any: false, has_room: true });
        let Some(channel) = state.channel.as_mut().filter(|_| state.is_met) else { return nothing };
        // If the channel has no room, the bundle is sent later.
        state.bundle.send(channel);
        match way {
            Carrier::Trunk => return self.transmit_by_trunk(peer),
            Carrier::Conversation => return self.transmit_in_conversation(peer),
            Carrier::Port => {}
        }
        let now = Time::from_nanos(clock::now_ns());
        match self.port.transmit(peer, &mut |room| channel.poll_transmit_into(now, room)) {
            Ok(sent) => sent,
            Err(Unheard) => {
                if self.has_connected() {
                    self.begin_anew(peer);
                }
                nothing
            }
        }
    }
}
