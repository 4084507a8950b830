//! The programs that an agent serves: their acceptance, their messages, and the frames for them.

use super::program::{Ended, Lost, Program};
use super::table::{Table, Way, depends_on_listeners};
use crate::closer::{self, take_leave};
use crate::complaints::Complaints;
use sovia_link::wire::{Answer, Checksum, Meeting, Passing, Word};
use sovia_port::Address;
use sovia_port::agent::ring::Geometry;
use sovia_port::agent::said::{FromAgent, FromProgram, SAID_MAX, Why};
use sovia_sys::arrivals::Arrivals;
use sovia_sys::seqpacket::{Listener, Packets};
use sovia_sys::{Errno, Fd, call, poll, trace};
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of programs.
const PROGRAMS: usize = 512;
/// Maximum number of messages received from a program in one turn. `EVERYTHING` is used if all of them must be
/// received: a socket holds fewer.
const TURN: usize = 16;
const EVERYTHING: usize = 1 << 10;
/// Maximum number of programs accepted in one turn.
const NEWCOMERS: usize = 16;
/// Maximum number of the agent's own frames that wait for the port. Further ones are dropped, as any frame may be.
const SAID: usize = 1 << 15;

/// Tokens of the epoll instance. Smaller tokens are the numbers of programs.
pub(super) const PORT: u64 = 1 << 16;
pub(super) const NEWS: u64 = PORT + 1;
const ENTRANCE: u64 = PORT + 2;
pub(super) const ORDERS: u64 = PORT + 3;

/// The programs.
#[derive(Debug)]
pub(super) struct Members {
    listener: Listener,
    arrivals: Arrivals,
    pub(super) epoll: Fd,
    /// Users whose programs are served.
    users: Vec<u32>,
    pub(super) own: Address,
    pub(super) checksum: Checksum,
    geometry: Geometry,
    table: Table,
    programs: BTreeMap<u16, Program>,
    /// Dropped frames of programs that have ended, by user.
    lost: BTreeMap<u32, Lost>,
    /// Frames of the agent itself that wait to be sent.
    said: VecDeque<(Address, Word)>,
    /// Set when the port's state may have changed.
    pub(super) has_news: bool,
    /// Set when an order of the agent's owner waits.
    pub(super) is_ordered: bool,
    complaints: Complaints,
}

impl Members {
    /// Accepts programs of these users at a socket.
    ///
    /// # Errors
    /// The error of a system call.
    pub(super) fn open(
        listener: Listener,
        users: Vec<u32>,
        (own, checksum, geometry): (Address, Checksum, Geometry),
    ) -> sovia_sys::Result<Members> {
        let epoll = Fd::make(poll::epoll_create)?;
        let members = Members {
            listener,
            arrivals: Arrivals::default(),
            epoll,
            users,
            own,
            checksum,
            geometry,
            table: Table::new(own.host()),
            programs: BTreeMap::new(),
            lost: BTreeMap::new(),
            said: VecDeque::new(),
            has_news: false,
            is_ordered: false,
            complaints: Complaints::default(),
        };
        members.watch(members.listener.raw(), libc::EPOLLIN | libc::EPOLLET, ENTRANCE)?;
        Ok(members)
    }

    /// Adds a descriptor to the epoll set.
    ///
    /// # Errors
    /// The error of a system call.
    pub(super) fn watch(&self, fd: i32, events: i32, token: u64) -> sovia_sys::Result<()> {
        poll::epoll_ctl(self.epoll.raw(), libc::EPOLL_CTL_ADD, fd, events as u32, token)
    }

    /// Receives the waiting messages, or waits up to `pause` nanoseconds for some.
    ///
    /// # Errors
    /// The error of a system call.
    pub(super) fn hear(&mut self, pause: Option<u64>) -> sovia_sys::Result<()> {
        self.hear_of_each(pause, TURN)
    }

    fn hear_of_each(&mut self, pause: Option<u64>, most: usize) -> sovia_sys::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; PROGRAMS + 8];
        let pause = pause.into_iter().chain(self.arrivals.pause()).min();
        let n = match poll::epoll_wait(self.epoll.raw(), &mut events, pause, None) {
            Err(Errno::EINTR) => 0,
            n => n?,
        };
        if self.arrivals.pause() == Some(0) {
            self.greet();
        }
        for event in &events[..n] {
            match event.u64 {
                ENTRANCE => self.greet(),
                NEWS => self.has_news = true,
                ORDERS => self.is_ordered = true,
                PORT => {}
                program => self.hear_program(program as u16, most),
            }
        }
        Ok(())
    }

    /// Accepts new programs.
    fn greet(&mut self) {
        for packets in self.arrivals.take(NEWCOMERS, || self.listener.accept()) {
            let uid = packets.peer().map_or(u32::MAX, |(_, uid)| uid);
            let refused = if !self.users.contains(&uid) || trace::is_ambiguous(uid) {
                Some(Why::User)
            } else if !self.has_place_for(uid) {
                Some(Why::Full)
            } else {
                self.take_in(packets, uid);
                continue;
            };
            if let Some(why) = refused {
                // If this message is lost, the program sees the end of the connection.
                let _ = packets.send(&FromAgent::Refused(why).encode(), &[]);
                take_leave(&packets, uid);
            }
        }
    }

    /// Returns true if the agent can serve another program of a user. Each user has an equal share of the places.
    fn has_place_for(&self, uid: u32) -> bool {
        let share = (PROGRAMS / self.users.len().max(1)).max(1);
        let count = self.programs.values().filter(|program| program.uid == uid).count();
        self.programs.len() < PROGRAMS && count < share && !closer::is_busy(uid)
    }

    fn take_in(&mut self, packets: Packets, uid: u32) {
        let Some(number) = self.number(uid) else { return };
        let terms = (number, self.checksum == Checksum::Link, self.own);
        let served = Program::serve(packets, uid, terms, self.geometry).and_then(|program| {
            self.watch(program.raw(), libc::EPOLLIN, number.into())?;
            Ok(program)
        });
        match served {
            Ok(program) => drop(self.programs.insert(number, program)),
            Err(error) => {
                self.complaints.say(uid, format_args!("cannot be served: {error}"));
                self.table.remove(number);
            }
        }
    }

    /// Chooses a random number for a program. Names of ends begin with this number, and no other station may guess
    /// them.
    fn number(&mut self, uid: u32) -> Option<u16> {
        loop {
            let mut bytes = [0; 2];
            call::getrandom(&mut bytes).ok()?;
            let number = u16::from_ne_bytes(bytes);
            // The loop ends soon: there are many more numbers than programs.
            if self.table.add(number, uid) {
                return Some(number);
            }
        }
    }

    fn hear_program(&mut self, number: u16, most: usize) {
        let mut bytes = [0; SAID_MAX + 32];
        for _ in 0..most {
            let Some(program) = self.programs.get(&number) else { return };
            let heard = match program.hear(&mut bytes) {
                Ok(None) => return,
                Ok(Some(said)) => match FromProgram::decode(said) {
                    Some(FromProgram::Bell) => Ok(()),
                    Some(FromProgram::Listen(at)) => {
                        self.table.listen(number, at, true).map_err(|_| Ended::Discriminators)
                    }
                    Some(FromProgram::Pause(at)) => {
                        self.table.listen(number, at, false).map_err(|_| Ended::Discriminators)
                    }
                    Some(FromProgram::Leave(at)) => {
                        self.table.leave(number, at);
                        Ok(())
                    }
                    None => Err(Ended::Nonsense),
                },
                Err(ended) => Err(ended),
            };
            if let Err(ended) = heard {
                return self.end(number, ended);
            }
        }
    }

    /// Ends the service of a program and notifies its peers. If the program has disconnected and frames remain in its
    /// ring, the agent passes these frames on first.
    fn end(&mut self, number: u16, why: Ended) {
        if why == Ended::Gone
            && let Some(program) = self.programs.get_mut(&number)
            && program.has_last_words(self.geometry.count())
        {
            // Stop watching the socket: it would report the end again and again.
            let (epoll, socket) = (self.epoll.raw(), program.raw());
            let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, socket, 0, 0);
            return;
        }
        let Some(program) = self.programs.remove(&number) else { return };
        if why != Ended::Gone {
            self.complaints.say(program.uid, format_args!("is no longer served: {why}"));
        }
        *self.lost.entry(program.uid).or_default() += program.lost;
        for (to, word) in self.table.remove(number) {
            self.say(to, word);
        }
    }

    /// Returns for each user the number of programs, and the dropped frames of all the user's programs so far.
    pub(super) fn users(&self) -> BTreeMap<u32, (usize, Lost)> {
        let gone = self.lost.iter().map(|(&user, &lost)| (user, (0, lost)));
        let mut users: BTreeMap<_, _> = gone.collect();
        for program in self.programs.values() {
            let (count, lost) = users.entry(program.uid).or_default();
            *count += 1;
            *lost += program.lost;
        }
        users
    }

    /// Ends the service of all programs and notifies their peers.
    pub(super) fn end_all(&mut self) {
        for number in core::mem::take(&mut self.programs).into_keys() {
            for (to, word) in self.table.remove(number) {
                self.say(to, word);
            }
        }
    }

    /// Returns the first program with a number from `number` on, or else the first of all.
    pub(super) fn next_from(&self, number: u16) -> Option<u16> {
        let behind = self.programs.range(number..).next();
        behind.or_else(|| self.programs.iter().next()).map(|(number, _)| *number)
    }

    /// Returns the number of programs.
    pub(super) fn count(&self) -> usize {
        self.programs.len()
    }

    /// Applies `work` to a program. Ends the program's service if `work` fails.
    pub(super) fn with<R>(
        &mut self,
        number: u16,
        work: impl FnOnce(&mut Program) -> Result<R, Ended>,
    ) -> Option<R> {
        match work(self.programs.get_mut(&number)?) {
            Ok(result) => Some(result),
            Err(ended) => {
                self.end(number, ended);
                None
            }
        }
    }

    /// Checks that the program may send this frame. Counts a refusal and reports it to a program that waits for a
    /// reply.
    pub(super) fn may_send(&mut self, number: u16, passing: &Passing) -> bool {
        let Err(forged) = self.table.may_send(number, passing) else { return true };
        self.with(number, |program| {
            program.lost.forged += 1;
            Ok(())
        });
        if let Some(request) = forged.request {
            let rejected = Meeting::Answer { request, answer: Answer::Rejected };
            self.say(self.own, Word::Meeting(rejected));
        }
        false
    }

    /// Receives the programs' messages if the treatment of a frame depends on where programs listen. Returns true in
    /// that case.
    ///
    /// A program's message that it listens may still be unread, although the frame's sender already knows.
    pub(super) fn hear_for(&mut self, passing: &Passing) -> bool {
        let depends = depends_on_listeners(passing);
        if depends {
            // Ignore an error: the next wait for events reports it again.
            let _ = self.hear_of_each(Some(0), EVERYTHING);
        }
        depends
    }

    /// Passes a frame from an address to the program that must receive it. Returns false if there is no such program.
    pub(super) fn arrive(&mut self, from: Address, passing: &Passing, frame: &[u8]) -> bool {
        match self.table.way(from, passing) {
            Way::To(number) => {
                // Programs of this agent can send more than any network delivers. Their frames leave half of the ring
                // free for others.
                let spared = if from == self.own { self.geometry.count() / 2 } else { 0 };
                self.with(number, |program| program.tell(&from, frame, spared));
                return true;
            }
            Way::Answer(word) if Passing::is_whole(frame, self.checksum) => self.say(from, word),
            Way::Answer(_) | Way::Nowhere => {}
        }
        false
    }

    fn say(&mut self, to: Address, word: Word) {
        if self.said.len() < SAID {
            self.said.push_back((to, word));
        }
    }

    /// Returns the address and the frame of the agent's next own message to another address. Delivers messages to
    /// this agent's programs directly.
    pub(super) fn next_said(&mut self, frame: &mut Vec<u8>) -> Option<Address> {
        while let Some((to, word)) = self.said.pop_front() {
            word.emit_for(frame, self.checksum);
            if to != self.own {
                return Some(to);
            }
            if let Ok((passing, _)) = Passing::of(frame, self.checksum) {
                self.arrive(to, &passing, frame);
            }
        }
        None
    }

    /// Notifies programs that sleep and have frames.
    pub(super) fn ring(&mut self) {
        self.programs.values_mut().for_each(Program::ring);
    }

    /// Announces to all programs that the agent is about to sleep. Returns false if one of them has sent a frame that
    /// can be taken now.
    pub(super) fn announce_sleep(&self) -> bool {
        // Announce the sleep to every program, even after one was found busy: each program sees only its own
        // announcement.
        let busy = self.programs.values().filter(|program| !program.hears.announce_sleep());
        busy.filter(|program| !program.waits_for_port).count() == 0
    }

    /// Announces to all programs that the agent is awake.
    pub(super) fn is_awake(&self) {
        self.programs.values().for_each(|program| program.hears.is_awake());
    }
}
