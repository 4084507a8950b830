//! The NIC: what it does when programs, frames and time come.

use crate::connection::{Connection, Key};
use crate::port::{MTU, Port};
use crate::program::{Entrance, Heard, Life, NIC, PROGRAM, Program, Refused, Stranger};
use crate::wire::{Id, Message};
use crate::{Config, Error};
use sovia_link::{Channel, Event, Time};
use sovia_reflect::{Sink, Told};
use sovia_sys::{Fd, clock, poll};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::os::fd::AsRawFd;

/// Frames that are taken from the port, and sent to it, before others have their turn.
const FRAMES: usize = 64;
/// A process that dies closes its descriptors one after the other: how long until its sockets are looked at again,
/// and how long one may be open before it counts as another program's (nanoseconds).
const CLOSING_NS: u64 = 2_000_000;
const CLOSED_NS: u64 = 1_000_000_000;

/// While VIs are connected the far NIC is spoken to this often (nanoseconds), so that its death is found out.
const HERE_NS: u64 = 1_000_000_000;

/// The epoll instance's tokens.
const ENTRANCE: u64 = 0;
const DOOR: u64 = 1;
const PORT: u64 = 2;
const NOTICE: u64 = 3;
const STRANGER: u64 = 4;

/// A NIC.
#[derive(Debug)]
pub(crate) struct Nic {
    entrance: Entrance,
    port: Port,
    channel: Channel,
    epoll: Fd,
    /// Programs that have come and not introduced themselves.
    strangers: Vec<Stranger>,
    programs: HashMap<u64, Program>,
    connections: HashMap<Id, Connection>,
    /// Own requests that no far program has asked for yet.
    requests: HashMap<Key, Id>,
    /// Far requests that no program of this host has asked for yet.
    offers: HashMap<Key, Id>,
    /// Connections of which the far NIC may not have been told all.
    untold: BTreeSet<Id>,
    /// What is to be said about connections, in order, when there is room.
    unsaid: VecDeque<Vec<u8>>,
    /// Some program is dying.
    is_closing: bool,
    /// When the far NIC was last spoken to for that alone.
    was_here: u64,
    next: u64,
    /// A frame or a message that is being made.
    frame: Vec<u8>,
    message: Vec<u8>,
}

/// Wraps what is said about a VI, and hands it to the channel.
struct About<'a> {
    channel: &'a mut Channel,
    /// Something else goes first.
    waits: bool,
    far: Id,
    bytes: Vec<u8>,
    message: Vec<u8>,
}

impl Sink for About<'_> {
    fn has_room(&mut self) -> bool {
        !self.waits && self.channel.can_send()
    }

    fn put(&mut self, message: &sovia_reflect::message::Message<'_>) {
        self.bytes.clear();
        message.encode(&mut self.bytes);
        Message::About(self.far, &self.bytes).encode(&mut self.message);
        let sent = self.channel.send(&self.message);
        debug_assert!(sent.is_ok(), "there was room");
    }
}

/// A fresh end of the channel to the far NIC.
fn channel() -> Result<Channel, Error> {
    let mut seed = [0; 8];
    sovia_sys::call::getrandom(&mut seed).map_err(Error::Kernel)?;
    let config = sovia_link::Config { mtu: MTU, ..Default::default() };
    Ok(Channel::new(config, 0, u64::from_ne_bytes(seed)))
}

impl Nic {
    pub(crate) fn open(config: &Config) -> Result<Nic, Error> {
        let entrance = Entrance::open(&config.name)
            .map_err(|error| Error::Name(config.name.clone(), error))?;
        let port = Port::open(&config.port, &config.peer, config.faults)
            .map_err(|error| Error::Port(config.port.clone(), error))?;
        let epoll = Fd::make(poll::epoll_create).map_err(Error::Kernel)?;
        let channel = channel()?;
        let nic = Nic {
            entrance,
            port,
            channel,
            epoll,
            strangers: Vec::new(),
            programs: HashMap::new(),
            connections: HashMap::new(),
            requests: HashMap::new(),
            offers: HashMap::new(),
            untold: BTreeSet::new(),
            unsaid: VecDeque::new(),
            is_closing: false,
            was_here: 0,
            next: 1,
            frame: Vec::new(),
            message: Vec::new(),
        };
        nic.watch(nic.entrance.raw(), ENTRANCE)?;
        for door in &nic.entrance.doors {
            nic.watch(door.raw(), DOOR)?;
        }
        nic.watch(nic.port.as_raw_fd(), PORT)?;
        Ok(nic)
    }

    fn watch(&self, fd: i32, token: u64) -> Result<(), Error> {
        let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
        poll::epoll_ctl(self.epoll.raw(), libc::EPOLL_CTL_ADD, fd, events, token)
            .map_err(Error::Kernel)
    }

    /// Serves until the kernel refuses to wait.
    pub(crate) fn serve(&mut self) -> Error {
        loop {
            let mut busy = self.visit_programs();
            busy |= self.receive();
            self.tell_rest();
            busy |= self.transmit();
            if busy {
                // Others are not to wait until this host has nothing to say any more.
                self.look_at_events(Some(0)).ok();
                continue;
            }
            self.programs.values().for_each(|program| program.waiter().going_to_sleep());
            let has_news = self.programs.values().any(|program| program.waiter().has_news());
            let pause = if has_news { Some(0) } else { self.pause() };
            let waited = self.look_at_events(pause);
            self.programs.values().for_each(|program| program.waiter().awake());
            if let Err(error) = waited {
                return error;
            }
        }
    }

    /// How long there is nothing to do unless something comes.
    fn pause(&self) -> Option<u64> {
        let now = clock::now_ns();
        let channel = self.channel.poll_timeout().map(|at| at.nanos().saturating_sub(now));
        let closing = self.is_closing.then_some(CLOSING_NS);
        let here = (self.was_here + HERE_NS).saturating_sub(now);
        let here = self.has_connected().then_some(here);
        channel.into_iter().chain(closing).chain(here).min()
    }

    /// Whether VIs are connected to those of the far NIC.
    fn has_connected(&self) -> bool {
        self.connections
            .values()
            .any(|connection| connection.joined.is_some() && !connection.is_alone)
    }

    fn look_at_events(&mut self, pause: Option<u64>) -> Result<(), Error> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 32];
        let n = match poll::epoll_wait(self.epoll.raw(), &mut events, pause, None) {
            Ok(n) => n,
            Err(sovia_sys::Errno::EINTR) => 0,
            Err(error) => return Err(Error::Kernel(error)),
        };
        let now = clock::now_ns();
        if self.channel.poll_timeout().is_some_and(|at| at.nanos() <= now) {
            self.channel.handle_timeout(Time::from_nanos(now));
        }
        if now.saturating_sub(self.was_here) >= HERE_NS && self.has_connected() {
            self.was_here = now;
            if self.channel.is_idle() {
                self.say(&Message::Here);
            }
        }
        let mut has_died = self.is_closing;
        for event in &events[..n] {
            match event.u64 {
                ENTRANCE => self.greet(),
                STRANGER => self.hear_strangers(),
                NOTICE => has_died = true,
                _ => {}
            }
        }
        if has_died {
            self.look_for_deaths(now);
        }
        Ok(())
    }

    /// Programs that come.
    fn greet(&mut self) {
        while let Some(stranger) = self.entrance.accept() {
            if self.watch(stranger.raw(), STRANGER).is_ok() {
                self.strangers.push(stranger);
            }
        }
        self.hear_strangers();
    }

    fn hear_strangers(&mut self) {
        let mut taken_in = Vec::new();
        let entrance = &self.entrance;
        self.strangers.retain_mut(|stranger| match entrance.hear(stranger) {
            Ok(Heard::More) => true,
            Ok(Heard::Program(program)) => {
                taken_in.push(*program);
                false
            }
            Err(Refused::Gone) => false,
            Err(refused) => {
                eprintln!("sovia-agent: a program is not served: {refused}");
                false
            }
        });
        for program in taken_in {
            let watched = program.notices.iter().all(|fd| self.watch(fd.raw(), NOTICE).is_ok());
            if watched {
                self.programs.insert(self.next, program);
                self.next += 1;
            }
        }
    }

    /// Looks where programs have marked VIs. False if nowhere.
    fn visit_programs(&mut self) -> bool {
        let mut marked = Vec::new();
        for (&id, program) in &self.programs {
            program.waiter().drain(|vi| marked.push((id, vi)));
        }
        for &(program, vi) in &marked {
            match self.programs[&program].vis.get(&vi) {
                Some(&id) => self.visit(id),
                None => self.look_for_request(program, vi),
            }
        }
        !marked.is_empty()
    }

    /// A VI of a program's that has news.
    fn visit(&mut self, id: Id) {
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
    fn look_for_request(&mut self, program_id: u64, vi: u32) {
        let Some(program) = self.programs.get_mut(&program_id) else { return };
        let mut found = None;
        program.segment.pending(NIC, |request, discriminator| {
            if request.vi == vi {
                found = sovia_proto::meeting::Link::with_role(discriminator);
            }
        });
        let Some((link, is_connector)) = found else { return };
        let connection = Connection {
            program: program_id,
            vi,
            link,
            is_connector,
            joined: None,
            is_left: false,
            is_alone: false,
        };
        if !connection.is_vouched_for(program.uid) {
            // Its program goes on on TCP.
            return;
        }
        let id = self.next;
        self.next += 1;
        program.vis.insert(vi, id);
        let (own, other) = (connection.own_end(), connection.other_end());
        self.say(&Message::Offer(id, link, is_connector));
        self.connections.insert(id, connection);
        match self.offers.remove(&other) {
            Some(far) => self.join(id, far),
            None => {
                self.requests.insert(own, id);
            }
        }
    }

    /// Both ends of a connection have asked for it.
    fn join(&mut self, id: Id, far: Id) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let program = &self.programs[&connection.program];
        if connection.join(program, far) {
            self.tell(id);
        } else {
            self.withdraw(id);
        }
    }

    /// A request is none any more.
    fn withdraw(&mut self, id: Id) {
        if let Some(connection) = self.forget(id) {
            self.requests.remove(&connection.own_end());
            self.say(&Message::Withdraw(id));
        }
    }

    /// Nothing is left to be done about a connection.
    fn forget(&mut self, id: Id) -> Option<Connection> {
        self.untold.remove(&id);
        let connection = self.connections.remove(&id)?;
        if let Some(program) = self.programs.get_mut(&connection.program) {
            program.vis.remove(&connection.vi);
            connection.give_back(program);
            if program.died_at.is_some() && program.vis.is_empty() {
                self.programs.remove(&connection.program);
            }
        }
        Some(connection)
    }

    /// Tells the far NIC what a program has published on a VI.
    fn tell(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(program) = self.programs.get(&connection.program) else { return };
        // First: then what the program published before it left is among what is told.
        connection.look_for_leaving(program);
        let Some((far, reflection)) = &mut connection.joined else { return };
        let mut about = About {
            channel: &mut self.channel,
            waits: !self.unsaid.is_empty(),
            far: *far,
            bytes: core::mem::take(&mut self.frame),
            message: core::mem::take(&mut self.message),
        };
        let told = match connection.is_alone {
            true => Ok(true),
            false => reflection.collect(&mut about),
        };
        (self.frame, self.message) = (about.bytes, about.message);
        let far = *far;
        match told {
            Ok(true) => {
                self.untold.remove(&id);
            }
            Ok(false) => {
                self.untold.insert(id);
            }
            Err(damaged) => {
                eprintln!("sovia-agent: a connection is given up: {damaged}");
                self.untold.remove(&id);
                connection.break_off(program);
                self.say(&Message::Broken(far));
            }
        }
        self.end_if_over(id);
    }

    fn end_if_over(&mut self, id: Id) {
        if self.connections.get(&id).is_some_and(Connection::is_over) {
            self.forget(id);
        }
    }

    /// Goes on where there was no room in the channel.
    fn tell_rest(&mut self) {
        while let Some(message) = self.unsaid.front() {
            if self.channel.send(message).is_err() {
                return;
            }
            self.unsaid.pop_front();
        }
        let mut from = 0;
        while self.channel.can_send()
            && let Some(&id) = self.untold.range(from..).next()
        {
            from = id + 1;
            self.tell(id);
        }
    }

    /// Says something to the far NIC, as soon as there is room.
    fn say(&mut self, message: &Message<'_>) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        if !self.unsaid.is_empty() || self.channel.send(&bytes).is_err() {
            self.unsaid.push_back(bytes);
        }
    }

    /// The far NIC has died, or is another one than before, which knows nothing of what this one has told it.
    fn begin_anew(&mut self) {
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
    fn receive(&mut self) -> bool {
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
            self.wake(id, told);
            self.end_if_over(id);
        }
        busy
    }

    fn hear(&mut self, message: &Message<'_>, told: &mut HashMap<Id, Told>) {
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

    fn hear_about(&mut self, id: Id, bytes: &[u8], told: &mut HashMap<Id, Told>) {
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
    fn wake(&self, id: Id, told: Told) {
        if let Some(connection) = self.connections.get(&id)
            && let Some(program) = self.programs.get(&connection.program)
        {
            connection.wake(program, told);
        }
    }

    /// Sends what the channel has to send. False if that is nothing.
    fn transmit(&mut self) -> bool {
        let mut busy = false;
        for _ in 0..FRAMES {
            if !self.channel.poll_transmit(Time::from_nanos(clock::now_ns()), &mut self.frame) {
                break;
            }
            busy = true;
            if self.port.send(&self.frame).is_err() && self.has_connected() {
                self.begin_anew();
                break;
            }
        }
        busy
    }

    /// Some program has died: its connections that no process holds any more end.
    fn look_for_deaths(&mut self, now: u64) {
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
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            connection.leave(true);
            if connection.joined.is_some() {
                self.tell(id);
            } else {
                self.withdraw(id);
            }
        }
        self.programs.retain(|_, program| program.died_at.is_none() || !program.vis.is_empty());
    }
}

const _: () = assert!(PROGRAM != NIC);
