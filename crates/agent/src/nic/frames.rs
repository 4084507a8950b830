//! Frames, and what the far NIC says by them.

use super::route::Route;
use super::{Nic, OFFERS, channel};
use crate::bundle::Messages;
use crate::connection::Connection;
use crate::port::Unheard;
use crate::wire::{Id, Message};
use sovia_link::{Channel, Event, Time};
use sovia_reflect::Told;
use sovia_sys::clock;
use std::collections::HashMap;

impl Nic {
    /// The far NIC of this host has died, or is another one than before.
    fn begin_anew(&mut self) {
        match channel(self.port.frame_max(), self.control) {
            Ok(channel) => self.begin_with(channel),
            // It has worked before.
            Err(error) => eprintln!("sovia-agent: {error}"),
        }
    }

    /// The far NIC has gone, or is another one, which knows nothing of what this one has sent: it will hear this channel.
    pub(super) fn begin_with(&mut self, channel: Channel) {
        if self.connections.values().any(|connection| connection.joined.is_some()) {
            eprintln!("sovia-agent: the far NIC has gone, or begun anew: its connections end");
        }
        self.channel = channel;
        self.unsaid.clear();
        self.bundle.clear();
        self.offers.clear();
        let mut offered = Vec::new();
        for (&id, connection) in &mut self.connections {
            let Some(program) = self.programs.get(&connection.program) else { continue };
            if connection.joined.is_some() {
                connection.break_off(program);
            } else {
                offered.push((id, connection.link, connection.is_connector, connection.numbers));
            }
        }
        for (id, link, is_connector, numbers) in offered {
            self.say(Message::Offer(id, link, is_connector, numbers));
        }
    }

    /// Takes frames from the port, and does what the far NIC says. False if there are none.
    pub(super) fn receive(&mut self) -> bool {
        let (channel, is_met) = (&mut self.channel, self.is_met);
        let now = Time::from_nanos(clock::now_ns());
        let mut busy = self.port.receive(&mut |frame| {
            if is_met {
                // A frame that is none is lost.
                let _ = channel.handle_frame(now, frame);
            }
        });
        while let Some(event) = self.channel.poll_event() {
            match event {
                // Agents of two hosts learn it from their conversation.
                Event::Broken(_) if self.hosts.is_none() => self.begin_anew(),
                Event::Passed(_) => self.passed(),
                _ => {}
            }
        }
        let mut told: HashMap<Id, Told> = HashMap::new();
        let mut message = Vec::new();
        while self.channel.poll_message(&mut message) {
            busy = true;
            for message in Messages(&message) {
                match message {
                    Ok(message) => self.hear(&message, &mut told),
                    Err(malformed) => eprintln!("sovia-agent: {malformed}"),
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
        busy
    }

    pub(super) fn hear(&mut self, message: &Message<'_>, told: &mut HashMap<Id, Told>) {
        match *message {
            Message::Offer(far, link, is_connector, numbers) => {
                let key = (link.connector, link.acceptor, is_connector);
                let ours = (link.connector, link.acceptor, !is_connector);
                match self.requests.get(&ours) {
                    Some(&id) if self.is_other_end(id, numbers) => {
                        self.requests.remove(&ours);
                        self.join(id, far);
                    }
                    None if self.offers.len() < OFFERS => {
                        self.offers.insert(key, (far, numbers));
                    }
                    // Another connection's with the same addresses, or more than can be believed.
                    _ => {}
                }
            }
            Message::Withdraw(far) => {
                self.offers.retain(|_, (offered, _)| *offered != far);
                let of_it = |c: &&mut Connection| matches!(&c.joined, Some((id, _)) if *id == far);
                if let Some(connection) = self.connections.values_mut().find(of_it) {
                    connection.is_alone = true;
                    if let Some((_, reflection)) = &mut connection.joined {
                        let gone = sovia_reflect::message::Message::Gone(sovia_proto::word::ENDED);
                        let news = reflection.apply(&gone).unwrap_or_default();
                        if let Some(program) = self.programs.get(&connection.program) {
                            connection.wake(program, news);
                        }
                    }
                }
            }
            Message::About(id, bytes) => self.hear_about(id, bytes, told),
            Message::Here => {}
            Message::Broken(id) => {
                if let Some(connection) = self.connections.get_mut(&id)
                    && let Some(program) = self.programs.get(&connection.program)
                {
                    connection.break_off(program);
                }
            }
        }
    }

    pub(super) fn hear_about(&mut self, id: Id, bytes: &[u8], told: &mut HashMap<Id, Told>) {
        // What comes to one that is no more had been sent before its end was known there.
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some((far, reflection)) = &mut connection.joined else { return };
        let far = *far;
        let applied = sovia_reflect::message::Message::decode(bytes)
            .and_then(|message| reflection.apply(&message));
        match applied {
            Ok(news) => *told.entry(id).or_default() |= news,
            Err(malformed) => {
                eprintln!("sovia-agent: a connection is given up: {malformed}");
                if let Some(program) = self.programs.get(&connection.program) {
                    connection.break_off(program);
                }
                self.say(Message::Broken(far));
            }
        }
        // An answer that it is owed, perhaps.
        self.untold.insert(id);
    }

    /// Wakes those of a program that are to look at a VI.
    pub(super) fn wake(&self, id: Id, told: Told) {
        if let Some(connection) = self.connections.get(&id)
            && let Some(program) = self.programs.get(&connection.program)
        {
            connection.wake(program, told);
        }
    }

    /// Sends what the channel has to send, as far as the far NIC has room. False if that is nothing.
    pub(super) fn transmit(&mut self) -> bool {
        if !self.is_met {
            return false;
        }
        // Where there is no room it goes when there is some.
        self.bundle.send(&mut self.channel);
        if self.route != Route::Port {
            return self.transmit_in_conversation().any;
        }
        let channel = &mut self.channel;
        let now = Time::from_nanos(clock::now_ns());
        match self.port.transmit(&mut |room| channel.poll_transmit_into(now, room)) {
            Ok(sent) => {
                self.watch_for_room(!sent.has_room);
                sent.any
            }
            Err(Unheard) => {
                if self.has_connected() {
                    self.begin_anew();
                }
                false
            }
        }
    }
}
