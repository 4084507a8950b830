//! Programs of this host: how they come, what they mark in their segments, and how they die.

use super::{ASK_NS, CLOSED_NS, NEWCOMERS, NOTICE, Nic, STRANGER, STRANGERS};
use crate::connection::Connection;
use crate::program::{Heard, Life, Refused};
use crate::wire::{Id, Message};
use sovia_sys::call;

impl Nic {
    /// Programs that come, so many before others have their turn.
    pub(super) fn greet(&mut self) {
        for come in self.entrance.accept(NEWCOMERS) {
            match come {
                Ok(stranger) => {
                    if self.watch(stranger.raw(), STRANGER).is_ok() {
                        self.strangers.push_back(stranger);
                    }
                }
                Err(refused) => self.complain(&refused),
            }
        }
        // One that says nothing makes room for others.
        while self.strangers.len() > STRANGERS {
            self.strangers.pop_front();
        }
        self.hear_strangers();
    }

    fn complain(&mut self, refused: &Refused) {
        match refused {
            Refused::Gone => {}
            Refused::User(uid) => {
                self.complaints.say(*uid, "is not served: this agent serves only its own user")
            }
            refused => {
                let own = call::geteuid();
                self.complaints.say(own, format_args!("is not served: {refused}"));
            }
        }
    }

    pub(super) fn hear_strangers(&mut self) {
        let (mut taken_in, mut refusals) = (Vec::new(), Vec::new());
        let entrance = &self.entrance;
        self.strangers.retain_mut(|stranger| match entrance.hear(stranger) {
            Ok(Heard::More) => true,
            Ok(Heard::Program(program)) => {
                taken_in.push(*program);
                false
            }
            Err(refused) => {
                refusals.push(refused);
                false
            }
        });
        refusals.iter().for_each(|refused| self.complain(refused));
        for program in taken_in {
            let watched = program.notices.iter().all(|fd| self.watch(fd.raw(), NOTICE).is_ok());
            if watched {
                self.programs.insert(self.next, program);
                self.next += 1;
            }
        }
    }

    /// Looks where programs have marked VIs. False if nowhere.
    pub(super) fn visit_programs(&mut self) -> bool {
        let mut marked = Vec::new();
        for (&id, program) in &self.programs {
            program.ready_list().drain(|vi| marked.push((id, vi)));
        }
        for &(id, vi) in &marked {
            // A dead program goes with the last of its connections: with that of a mark before, perhaps.
            let Some(program) = self.programs.get(&id) else { continue };
            match program.vis.get(&vi) {
                Some(&connection) => self.visit(connection),
                None => self.look_for_request(id, vi),
            }
        }
        !marked.is_empty()
    }

    /// A VI of a program's that has news.
    pub(super) fn visit(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(program) = self.programs.get(&connection.program) else { return };
        if connection.joined.is_none() {
            if !connection.is_wanted(program) {
                self.withdraw(id);
            }
            return;
        }
        self.tell(id);
    }

    /// A program may have requested a VI.
    pub(super) fn look_for_request(&mut self, program_id: u64, vi: u32) {
        let Some(program) = self.programs.get_mut(&program_id) else { return };
        let Some(mut connection) = Connection::requested(program, program_id, vi) else { return };
        let far = connection.far_address().ip();
        // No agent may speak for what is nowhere in the networks of any.
        let peer = self.hosts.as_ref().map_or(Some(0), |it| it.peers().for_address(far));
        let is_known = |connection: &mut Connection| {
            connection.is_vouched_for(program.uid)
                && self.reader.as_ref().is_none_or(|it| connection.learn_numbers(it, program.uid))
        };
        let Some(peer) = peer.filter(|_| is_known(&mut connection)) else {
            // Its program goes on on TCP.
            return;
        };
        connection.peer = peer;
        let id = self.next;
        self.next += 1;
        program.vis.insert(vi, id);
        let (own, other) = (connection.own_end(), connection.other_end());
        let (link, is_connector) = (connection.link, connection.is_connector);
        self.peers[peer].say(Message::Offer(id, link, is_connector, connection.numbers));
        self.connections.insert(id, connection);
        match self.peers[peer].offers.take(&other) {
            Some((far, numbers)) if self.is_other_end(id, numbers) => self.join(id, far),
            _ => {
                self.peers[peer].requests.insert(own, id);
            }
        }
    }

    /// The far program's TCP has ended: a forked child may have held this program's socket last, and died.
    pub(super) fn ask(&mut self, id: Id, now: u64) {
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.asked_at.is_none()
        {
            connection.asked_at = Some(now);
            self.is_asking = true;
        }
    }

    /// Looks at the sockets that have been asked about. One that is closing is open for a moment still; one that is not is looked at from
    /// time to time, until its holder is gone or has left: the kernel tells of that no more, where the socket has been closed half.
    pub(super) fn look_for_closed(&mut self, now: u64) {
        self.is_asking = false;
        self.asks_again = None;
        let mut closed = Vec::new();
        for (&id, connection) in &self.connections {
            let Some(since) = connection.asked_at else { continue };
            if connection.is_left {
                continue;
            }
            if !connection.is_held() {
                // A program that closes leaves the VI before the kernel closes the socket.
                closed.push(id);
            } else {
                self.is_asking |= now.saturating_sub(since) < CLOSED_NS;
                self.asks_again = Some(now + ASK_NS);
            }
        }
        for id in closed {
            self.end_unless_left(id);
            self.tell(id);
        }
    }

    /// No process holds a program's socket any more: its part of the VI ends, if the program has not left that.
    fn end_unless_left(&mut self, id: Id) {
        if let Some(connection) = self.connections.get_mut(&id)
            && let Some(program) = self.programs.get(&connection.program)
        {
            connection.look_for_leaving(program);
            if !connection.is_left {
                connection.leave(true);
            }
        }
    }

    /// Some program has died: its connections that no process holds any more end.
    pub(super) fn look_for_deaths(&mut self, now: u64) {
        self.is_closing = false;
        let mut ended = Vec::new();
        for program in self.programs.values_mut() {
            let life = program.life();
            if life == Life::Alive {
                continue;
            }
            let all = life == Life::AllDied;
            let since = *program.died_at.get_or_insert(now);
            if !all {
                program.died_at = None;
            }
            let is_closed = all && now.saturating_sub(since) >= CLOSED_NS;
            for id in program.vis.values() {
                let Some(connection) = self.connections.get(id) else { continue };
                if connection.is_left {
                    continue;
                }
                if is_closed || !connection.is_held() {
                    ended.push(*id);
                } else {
                    self.is_closing |= all;
                }
            }
        }
        for id in ended {
            self.end_unless_left(id);
            if self.connections.get(&id).is_some_and(|connection| connection.joined.is_some()) {
                self.tell(id);
            } else {
                self.withdraw(id);
            }
        }
        self.programs.retain(|_, program| program.died_at.is_none() || !program.vis.is_empty());
    }
}
