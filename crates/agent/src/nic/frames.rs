//! Frames from far NICs and to them, and far NICs that begin anew. Each has its turn.

use super::route::{Carrier, Route};
use super::{Nic, channel};
use crate::bundle::Messages;
use crate::hosts::PeerId;
use crate::port::{Sent, Unheard};
use crate::wire::{Id, Message};
use sovia_link::channel::Counters;
use sovia_link::{Channel, Event, Time};
use sovia_proto::word;
use sovia_reflect::Told;
use sovia_sys::clock;
use std::collections::HashMap;

impl Nic {
    /// The far NIC of this host has died, or is another one than before.
    fn begin_anew(&mut self, peer: PeerId) {
        match channel(self.port.frame_max(), self.control) {
            Ok(channel) => self.begin_with(peer, Some(channel)),
            // It has worked before.
            Err(error) => eprintln!("sovia-agent: {error}"),
        }
    }

    /// A far NIC has gone, or is another one, which knows nothing of what this one has sent: it will hear this channel, if any.
    /// Its connections are given up.
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
                offered.push((id, connection.link, connection.is_connector, connection.numbers));
            }
        }
        if broken > 0 {
            eprintln!(
                "sovia-agent: {} has ended or restarted: {broken} connections are given up",
                self.name_of(peer)
            );
        }
        // Those that their programs have left before are over: no program says anything of them any more.
        ended.into_iter().for_each(|id| self.end_if_over(id));
        for (id, link, is_connector, numbers) in offered {
            self.peers[peer].say(Message::Offer(id, link, is_connector, numbers));
        }
    }

    /// A far NIC, for people.
    pub(super) fn name_of(&self, peer: PeerId) -> String {
        match &self.hosts {
            Some(hosts) => format!("the agent at {}", hosts.peers().all()[peer].address),
            None => "the other NIC".to_owned(),
        }
    }

    /// Takes frames from the port, and does what far NICs say by them. False if nothing has come.
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

    /// Does what a far NIC has said by frames that have come. False if that is nothing.
    fn receive_from(&mut self, peer: PeerId) -> bool {
        while let Some(event) = self.peers[peer].channel.as_mut().and_then(|it| it.poll_event()) {
            match event {
                // Agents of two hosts learn it from their conversation.
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

    /// Tells the owner what has become of frames.
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

    /// Tells once that a far NIC says what no NIC says.
    fn nonsense(&mut self, peer: PeerId, what: &str) {
        if !core::mem::replace(&mut self.peers[peer].has_said_nonsense, true) {
            eprintln!("sovia-agent: {} sent {what}", self.name_of(peer));
        }
    }

    /// Sends what channels have to send, as far as there is room. False if that is nothing.
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
            // Without room it has its turn again when there is some.
            self.peers[peer].is_due |= sent.any || !sent.has_room;
            if !sent.has_room && way == Carrier::Port {
                // All peers share the port: the next one begins then.
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
        // Where there is no room it goes when there is some.
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
