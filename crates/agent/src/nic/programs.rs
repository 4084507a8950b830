//! Programs of this host: how they connect, which VIs they mark, and how they die.

use super::{ASK_NS, CLOSED_NS, NEWCOMERS, NOTICE, Nic, STRANGER, STRANGERS};
use crate::connection::Connection;
use crate::program::{Heard, Life, Refused};
use crate::wire::Id;
use sovia_sys::call;

impl Nic {
    /// Accepts a bounded number of new programs.
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
        // Drop the oldest program that has not introduced itself, to make room for others.
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

    /// Handles all VIs that programs have marked in their ready lists. Returns false if there were none.
    pub(super) fn visit_programs(&mut self) -> bool {
        let mut marked = Vec::new();
        for (&id, program) in &self.programs {
            program.ready_list().drain(|vi| marked.push((id, vi)));
        }
        for &(id, vi) in &marked {
            // An earlier mark may have ended the last connection of a dead program, and so the program.
            let Some(program) = self.programs.get(&id) else { continue };
            match program.vis.get(&vi) {
                Some(&connection) => self.visit(connection),
                None => self.look_for_request(id, vi),
            }
        }
        !marked.is_empty()
    }

    /// Handles a marked VI that has a connection.
    pub(super) fn visit(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(program) = self.programs.get(&connection.program) else { return };
        if connection.joined.is_none() {
            match connection.is_wanted(program) {
                true => self.offer_again(id),
                false => self.withdraw(id),
            }
            return;
        }
        self.tell(id);
    }

    /// Handles a marked VI without a connection: the program may have requested it.
    pub(super) fn look_for_request(&mut self, program_id: u64, vi: u32) {
        let Some(program) = self.programs.get_mut(&program_id) else { return };
        let Some(mut connection) = Connection::requested(program, program_id, vi) else { return };
        let far = connection.far_address().ip();
        // Refuse an address that is in no agent's networks: no agent may offer the other end.
        let peer = self.hosts.as_ref().map_or(Some(0), |it| it.peers().for_address(far));
        let is_known = |connection: &mut Connection| {
            connection.is_vouched_for(program.uid)
                && self.reader.as_ref().is_none_or(|it| connection.learn_numbers(it, program.uid))
        };
        let Some(peer) = peer.filter(|_| is_known(&mut connection)) else {
            // The program continues on TCP.
            return;
        };
        connection.peer = peer;
        let id = self.next;
        self.next += 1;
        program.vis.insert(vi, id);
        let (own, other) = (connection.own_end(), connection.other_end());
        self.peers[peer].say(connection.offer(id));
        self.connections.insert(id, connection);
        match self.peers[peer].offers.take(&other) {
            Some((far, numbers)) if self.is_other_end(id, numbers) => self.join(id, far),
            _ => {
                self.peers[peer].requests.insert(own, id);
            }
        }
    }

    /// Begins to check if a process holds the program's socket. The remote program's TCP has ended. A forked child
    /// may have been the last to hold the socket, and died.
    pub(super) fn ask(&mut self, id: Id, now: u64) {
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.asked_at.is_none()
        {
            connection.asked_at = Some(now);
            self.is_asking = true;
        }
    }

    /// Checks the sockets whose remote end has ended on TCP.
    ///
    /// A socket that is being closed stays open for a moment. A socket that a process holds is checked at intervals,
    /// until the process has died or has left the VI. After a half-close, the kernel no longer reports the end.
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
                // A program that closes a connection leaves the VI before the kernel closes the socket.
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

    /// Ends the program's part of a VI whose socket no process holds, unless the program has left the VI.
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

    /// Ends the connections of dead programs that no process holds any more.
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
