//! Frames, and what the far NIC says by them.

use super::{FRAMES, Nic, channel};
use crate::connection::Connection;
use crate::port::{MTU, Sent, Unheard};
use crate::wire::{Id, Message};
use sovia_link::{Event, Time};
use sovia_reflect::Told;
use sovia_sys::clock;
use std::collections::HashMap;

impl Nic {
    /// The far NIC has died, or is another one than before, which knows nothing of what this one has sent.
    pub(super) fn begin_anew(&mut self) {
        eprintln!("sovia-agent: the far NIC has gone, or begun anew: its connections end");
        match channel() {
            Ok(channel) => self.channel = channel,
            // It has worked before.
            Err(error) => return eprintln!("sovia-agent: {error}"),
        }
        self.unsaid.clear();
        self.offers.clear();
        let mut offered = Vec::new();
        for (&id, connection) in &mut self.connections {
            let Some(program) = self.programs.get(&connection.program) else { continue };
            if connection.joined.is_some() {
                connection.break_off(program);
            } else {
                offered.push((id, connection.link, connection.is_connector));
            }
        }
        for (id, link, is_connector) in offered {
            self.say(&Message::Offer(id, link, is_connector));
        }
    }

    /// Takes frames from the port, and does what the far NIC says. False if there are none.
    pub(super) fn receive(&mut self) -> bool {
        let mut frame = [0; MTU];
        let mut busy = false;
        for _ in 0..FRAMES {
            let Some(len) = self.port.receive(&mut frame) else { break };
            busy = true;
            // A frame that is none is lost.
            let _ = self.channel.handle_frame(Time::from_nanos(clock::now_ns()), &frame[..len]);
        }
        while let Some(event) = self.channel.poll_event() {
            if matches!(event, Event::Broken(_)) {
                self.begin_anew();
            }
        }
        let mut told: HashMap<Id, Told> = HashMap::new();
        let mut message = Vec::new();
        while self.channel.poll_message(&mut message) {
            busy = true;
            match Message::decode(&message) {
                Ok(message) => self.hear(&message, &mut told),
                Err(malformed) => eprintln!("sovia-agent: {malformed}"),
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
            Message::Offer(far, link, is_connector) => {
                let key = (link.connector, link.acceptor, is_connector);
                let ours = (link.connector, link.acceptor, !is_connector);
                match self.requests.remove(&ours) {
                    Some(id) => self.join(id, far),
                    None => {
                        self.offers.insert(key, far);
                    }
                }
            }
            Message::Withdraw(far) => {
                self.offers.retain(|_, offered| *offered != far);
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
                self.say(&Message::Broken(far));
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
        let mut busy = false;
        for _ in 0..FRAMES {
            let frame = match self.waiting.take() {
                Some(frame) => frame,
                None => {
                    let now = Time::from_nanos(clock::now_ns());
                    if !self.channel.poll_transmit(now, &mut self.frame) {
                        break;
                    }
                    core::mem::take(&mut self.frame)
                }
            };
            match self.port.send(&frame) {
                Ok(Sent::Gone) => busy = true,
                Ok(Sent::Full) => {
                    self.waiting = Some(frame);
                    break;
                }
                Err(Unheard) => {
                    if self.has_connected() {
                        self.begin_anew();
                    }
                    break;
                }
            }
            self.frame = frame;
        }
        busy
    }
}
