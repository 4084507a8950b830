//! The programs that an agent serves: how they come, what they say, what they are sent.

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

/// Programs that are served at a time, in all.
const PROGRAMS: usize = 512;
/// Messages that are taken from a program before others have their turn; and where everything is to be heard that it has said:
/// a socket holds fewer.
const TURN: usize = 16;
const EVERYTHING: usize = 1 << 10;
/// Programs that come are taken in so many at a time.
const NEWCOMERS: usize = 16;
/// Frames of the agent's own that wait for the port. More are lost, as any may be.
const SAID: usize = 1 << 15;

/// Tokens of the epoll instance; others are programs'.
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
    /// Users that are served.
    users: Vec<u32>,
    pub(super) own: Address,
    pub(super) checksum: Checksum,
    geometry: Geometry,
    table: Table,
    programs: BTreeMap<u16, Program>,
    /// What users' programs have lost that have gone.
    lost: BTreeMap<u32, Lost>,
    /// What the agent says by itself.
    said: VecDeque<(Address, Word)>,
    /// The port may have changed.
    pub(super) has_news: bool,
    /// There is an order of the agent's owner.
    pub(super) is_ordered: bool,
    complaints: Complaints,
}

impl Members {
    /// Programs of these users can come to that socket.
    ///
    /// # Errors
    /// The kernel's.
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

    /// Has the epoll instance tell of a descriptor.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn watch(&self, fd: i32, events: i32, token: u64) -> sovia_sys::Result<()> {
        poll::epoll_ctl(self.epoll.raw(), libc::EPOLL_CTL_ADD, fd, events as u32, token)
    }

    /// Hears what has come, or waits for something for as long as that.
    ///
    /// # Errors
    /// The kernel's.
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

    /// Takes in programs that have come.
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
                // One that does not hear it finds out by the end of the connection.
                let _ = packets.send(&FromAgent::Refused(why).encode(), &[]);
                take_leave(&packets, uid);
            }
        }
    }

    /// Whether one more program of a user is served: each user has an equal share of the places.
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

    /// A number for a program: it is the beginning of names that no station is to guess.
    fn number(&mut self, uid: u32) -> Option<u16> {
        loop {
            let mut bytes = [0; 2];
            call::getrandom(&mut bytes).ok()?;
            let number = u16::from_ne_bytes(bytes);
            // There are many more numbers than programs.
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

    /// A program is served no more, once it has had its say. Its peers are told.
    fn end(&mut self, number: u16, why: Ended) {
        if why == Ended::Gone
            && let Some(program) = self.programs.get_mut(&number)
            && program.has_last_words(self.geometry.count())
        {
            // Its socket tells of its end for as long as it is watched.
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

    /// Each user, how many programs it has here, and what has become of frames of its programs so far.
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

    /// All programs are served no more. Their peers are told.
    pub(super) fn end_all(&mut self) {
        for number in core::mem::take(&mut self.programs).into_keys() {
            for (to, word) in self.table.remove(number) {
                self.say(to, word);
            }
        }
    }

    /// The number of the next program, at that one or behind it.
    pub(super) fn next_from(&self, number: u16) -> Option<u16> {
        let behind = self.programs.range(number..).next();
        behind.or_else(|| self.programs.iter().next()).map(|(number, _)| *number)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.programs.len()
    }

    /// Something of a program's; one that turns out to be at its end is served no more.
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

    /// Whether a program may send that; if not, it is counted, and told where it waits for an answer.
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

    /// Hears where programs listen, where it depends on that what becomes of a frame; whether it does. A program may have said so
    /// before the frame's sender knew it, and may not have been heard.
    pub(super) fn hear_for(&mut self, passing: &Passing) -> bool {
        let depends = depends_on_listeners(passing);
        if depends {
            // What the kernel refuses here it refuses in the next wait as well.
            let _ = self.hear_of_each(Some(0), EVERYTHING);
        }
        depends
    }

    /// Gives a frame that has come from an address to the program that it is for; false if there was none.
    pub(super) fn arrive(&mut self, from: Address, passing: &Passing, frame: &[u8]) -> bool {
        match self.table.way(from, passing) {
            Way::To(number) => {
                // Programs of this agent, which can send more than any network brings, leave others half of the ring.
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

    /// The next thing that the agent says to an address that is not its own, as a frame; what it says to its own programs is
    /// given to them.
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

    /// Rings programs that sleep and have frames.
    pub(super) fn ring(&mut self) {
        self.programs.values_mut().for_each(Program::ring);
    }

    /// Announces to all programs that the agent is about to sleep; false if one of them has sent something that could be taken
    /// now.
    pub(super) fn announce_sleep(&self) -> bool {
        // All of them, in any case: each looks at its own announcement.
        let busy = self.programs.values().filter(|program| !program.hears.announce_sleep());
        busy.filter(|program| !program.waits_for_port).count() == 0
    }

    /// It is awake again.
    pub(super) fn is_awake(&self) {
        self.programs.values().for_each(|program| program.hears.is_awake());
    }
}
