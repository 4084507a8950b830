//! A switch: the agent owns a port and serves it to many programs. Each program has a NIC of its own on this port.
//!
//! The transport remains in the programs. Only frames pass the agent. A program shares a pair of rings in memory with
//! the agent alone (`sovia_port::agent`). The names of its connections' ends begin with a number that the agent
//! chooses. So a frame's header shows which program may send it, and which program must receive it. A connection
//! request names no end yet. The agent passes it to the program that listens at the request's discriminator.
//!
//! - `table`: destinations of frames, and frames that a program may send. `claims`: which program listens where.
//!   `requests`: requests seen so far. These three modules use no clock and make no system call.
//! - `program`: one program, its rings and its share. `members`: all programs, and their messages besides frames.
//! - `privilege`: gives up privileges.
//! - This module: the port, and the order of turns.
//!
//! **Turns.** Each round takes a number of bytes from each program (deficit round robin). Then it takes a batch of
//! frames from the port. If a program's next frame finds no room in the port, the next round begins with that
//! program. If a program leaves no room in its own ring, the agent drops frames for this program. So other programs'
//! frames never wait.
//!
//! **Sleep.** After an idle time, the agent announces in each program's ring that it sleeps, and waits in epoll.
//! While the agent is busy, no ring costs a system call.

mod claims;
mod members;
mod privilege;
mod program;
mod requests;
mod table;

use crate::counted::told;
use crate::orders::{Order, Orders};
use crate::{Error, SwitchConfig, closer};
use members::{Members, NEWS, ORDERS, PORT};
use sovia_link::wire::{Checksum, Passing};
use sovia_port::agent::ring::Geometry;
use sovia_port::agent::said::socket_of;
use sovia_port::{Address, Descriptors, Opened, Place, Port, Use};
use sovia_sys::seqpacket::Listener;
use sovia_sys::{Errno, call, clock, poll};

/// Number of rounds between two checks for messages besides frames, while the agent is busy.
const ROUNDS: u32 = 64;
/// Extra cost in bytes of a frame for which the agent must first read messages or send an answer.
const RARE: usize = 4 << 10;
/// Time for which the agent polls before it sleeps, in nanoseconds, and the number of processors that polling
/// requires. With fewer, the agent would take the processor of a program that is about to send.
const SPIN_NS: u64 = 20_000;
const PROCESSORS: u32 = 3;
/// Interval of checks of a port that has failed, in nanoseconds.
const FAILED_NS: u64 = 100_000_000;

/// A switch that programs can find.
pub(crate) struct Switch {
    place: Place,
    port: Box<dyn Port + Send>,
    members: Members,
    /// Program that has the first turn in the next round.
    first: u16,
    /// Received frames that are invalid or for no program.
    strangers: u64,
    /// Set while the port does not work.
    has_failed: bool,
    /// Set if the port had no room for all frames.
    is_full: bool,
    /// Events for which the port's descriptor is watched.
    watched: i32,
    frame: Vec<u8>,
    spin_ns: u64,
}

impl core::fmt::Debug for Switch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Switch({})", self.place)
    }
}

impl Switch {
    /// Opens the port, and gives up all privileges.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) fn open(config: &SwitchConfig) -> Result<Switch, Error> {
        let unnamed = |errno| Error::Name(config.name.clone(), errno);
        let name = socket_of(&config.name).ok_or(Errno::EINVAL).map_err(unnamed)?;
        if matches!(config.place, Place::Agent(_)) {
            return Err(Error::Place(config.place.clone()));
        }
        // Each program uses several descriptors.
        call::raise_descriptor_limit();
        let refused = |why| Error::Port(config.place.clone(), why);
        let opened = config.place.open(Use::Switch);
        let Opened { port, own, link_checks, .. } = opened.map_err(refused)?;
        let geometry = Geometry::of(port.frame_max());
        let geometry = geometry.ok_or(Error::FrameMax(config.place.clone(), port.frame_max()))?;
        // Bind the name before the privileges are given up: programs trust only root and their own user.
        let listener = Listener::bind(&name).map_err(unnamed)?;
        privilege::give_up(config.user).map_err(Error::Privileges)?;
        closer::start().map_err(|_| Error::Kernel(Errno::EAGAIN))?;
        let checksum = if link_checks { Checksum::Link } else { Checksum::Crc };
        let members = Members::open(listener, config.users.clone(), (own, checksum, geometry));
        let members = members.map_err(Error::Kernel)?;
        let Descriptors { frames, room, news } = port.descriptors();
        let watch = |fd, events, token| members.watch(fd, events, token).map_err(Error::Kernel);
        watch(frames, libc::EPOLLIN, PORT)?;
        if room != frames {
            watch(room, libc::EPOLLOUT | libc::EPOLLET, PORT)?;
        }
        if let Some(news) = news {
            watch(news, libc::EPOLLIN, NEWS)?;
        }
        Ok(Switch {
            place: config.place.clone(),
            port,
            members,
            first: 0,
            strangers: 0,
            has_failed: false,
            is_full: false,
            watched: libc::EPOLLIN,
            frame: Vec::new(),
            spin_ns: if call::cpus_allowed() >= PROCESSORS { SPIN_NS } else { 0 },
        })
    }

    pub(crate) fn own(&self) -> Address {
        self.members.own
    }

    /// Serves until the owner orders the switch to end.
    ///
    /// # Errors
    /// The port is gone, or the kernel refuses to wait for events.
    pub(crate) fn serve(&mut self, orders: Option<&Orders>) -> Result<(), Error> {
        if let Some(orders) = orders {
            let watched = self.members.watch(orders.raw(), libc::EPOLLIN, ORDERS);
            watched.map_err(Error::Kernel)?;
        }
        loop {
            self.rounds()?;
            if core::mem::take(&mut self.members.is_ordered)
                && let Some(orders) = orders
                && self.obey(orders)
            {
                return Ok(());
            }
            self.sleep()?;
        }
    }

    /// Carries out the owner's orders. Returns true if the switch must end.
    fn obey(&mut self, orders: &Orders) -> bool {
        while let Some(order) = orders.next() {
            self.tell_owner();
            match order {
                Order::End => {
                    self.part();
                    return true;
                }
                Order::Tell => {}
            }
        }
        false
    }

    /// Reports the frame counters to the owner.
    fn tell_owner(&mut self) {
        eprintln!("sovia-agent: {}: {}", self.place, told(&self.port.counters(), self.strangers));
        for (user, (programs, lost)) in self.members.users() {
            eprintln!("sovia-agent: {programs} programs of user {user} are connected; {lost}");
        }
    }

    /// Ends the switch. Notifies the programs' peers, as far as the port has room.
    fn part(&mut self) {
        self.members.end_all();
        while self.port.flush() == Ok(0) && self.say() {}
    }

    /// Runs rounds until there has been nothing to do for the polling time.
    fn rounds(&mut self) -> Result<(), Error> {
        let (mut count, mut idle_since) = (0u32, None);
        loop {
            let busy = self.round()?;
            count += 1;
            if count.is_multiple_of(ROUNDS) {
                self.hear(Some(0))?;
            }
            if self.members.is_ordered {
                return Ok(());
            }
            if busy {
                idle_since = None;
                continue;
            }
            let now = clock::now_ns();
            if now.saturating_sub(*idle_since.get_or_insert(now)) >= self.spin_ns {
                return Ok(());
            }
            core::hint::spin_loop();
        }
    }

    /// Sleeps until an event arrives.
    fn sleep(&mut self) -> Result<(), Error> {
        self.watch_port();
        let pause = match self.members.announce_sleep() {
            true => self.has_failed.then_some(FAILED_NS),
            false => Some(0),
        };
        let heard = self.hear(pause);
        self.members.is_awake();
        heard
    }

    /// Receives messages besides frames.
    fn hear(&mut self, pause: Option<u64>) -> Result<(), Error> {
        self.members.hear(pause).map_err(Error::Kernel)?;
        if core::mem::take(&mut self.members.has_news) || self.has_failed {
            self.ask()?;
        }
        Ok(())
    }

    /// Checks if the port works.
    fn ask(&mut self) -> Result<(), Error> {
        let health = self.port.check();
        self.has_failed = health.is_err();
        match health {
            Err(sovia_port::Error::Gone) => Err(Error::Gone(self.place.clone())),
            _ => Ok(()),
        }
    }

    /// Returns the result of an operation of the port. After an error, checks the port and returns `None`.
    fn came<T>(&mut self, result: Result<T, sovia_port::Error>) -> Result<Option<T>, Error> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(_) => self.ask().map(|()| None),
        }
    }

    /// Watches the port for frames, and for room if frames wait for it. A failed port is not watched, because its
    /// descriptor may stay readable for ever.
    fn watch_port(&mut self) {
        let Descriptors { frames, room, .. } = self.port.descriptors();
        let for_room = if self.is_full && room == frames { libc::EPOLLOUT } else { 0 };
        let wanted = if self.has_failed { 0 } else { libc::EPOLLIN | for_room };
        let operation = match (self.watched, wanted) {
            (old, new) if old == new => return,
            (0, _) => libc::EPOLL_CTL_ADD,
            (_, 0) => libc::EPOLL_CTL_DEL,
            _ => libc::EPOLL_CTL_MOD,
        };
        let epoll = self.members.epoll.raw();
        if poll::epoll_ctl(epoll, operation, frames, wanted as u32, PORT).is_ok() {
            self.watched = wanted;
        }
    }

    /// Gives each program and the port a turn. Returns false if there was nothing to do.
    fn round(&mut self) -> Result<bool, Error> {
        let (mut busy, mut next) = (false, self.first);
        for _ in 0..self.members.count() {
            let Some(number) = self.members.next_from(next) else { break };
            next = number.wrapping_add(1);
            busy |= self.turn(number);
        }
        busy |= self.receive()?;
        busy |= self.say();
        let flushed = self.port.flush();
        if let Some(left) = self.came(flushed)? {
            self.is_full = left > 0;
        }
        self.members.ring();
        Ok(busy)
    }

    /// Gives a program its turn. Returns true if it has sent a frame.
    fn turn(&mut self, number: u16) -> bool {
        let mut busy = false;
        let mut frame = core::mem::take(&mut self.frame);
        let mut next = self.members.with(number, |program| {
            program.begin_turn();
            program.next(&mut frame)
        });
        while let Some(Some(to)) = next {
            let Some(more) = self.pass_on(number, to, &frame) else {
                // This frame waits for room in the port. The next round begins with this program.
                self.first = number;
                self.members.with(number, |program| {
                    program.waits_for_port = true;
                    Ok(())
                });
                break;
            };
            busy = true;
            next = self.members.with(number, |program| {
                program.done(frame.len(), more)?;
                program.next(&mut frame)
            });
        }
        self.frame = frame;
        busy
    }

    /// Passes a program's frame on, or drops it. Returns its extra cost; `None` if the port has no room.
    fn pass_on(&mut self, number: u16, to: Address, frame: &[u8]) -> Option<usize> {
        let Ok((passing, frame)) = Passing::of(frame, self.members.checksum) else {
            self.count(number, |lost| lost.malformed += 1);
            return Some(0);
        };
        if to == self.members.own {
            let is_rare = self.members.hear_for(&passing);
            let goes =
                self.members.may_send(number, &passing) && self.members.arrive(to, &passing, frame);
            return Some(if goes && !is_rare { 0 } else { RARE });
        }
        if self.has_failed {
            self.count(number, |lost| lost.unsendable += 1);
            return Some(0);
        }
        if self.port.slot().is_none() {
            let _ = self.port.flush();
        }
        let room = self.port.slot()?;
        let is_rare = self.members.hear_for(&passing);
        if !self.members.may_send(number, &passing) {
            return Some(RARE);
        }
        let sent = match room.get_mut(..frame.len()) {
            Some(room) => {
                room.copy_from_slice(frame);
                self.port.commit(frame.len(), &to).is_ok()
            }
            None => false,
        };
        if !sent {
            self.count(number, |lost| lost.unsendable += 1);
        }
        Some(if is_rare { RARE } else { 0 })
    }

    fn count(&mut self, number: u16, count: impl FnOnce(&mut program::Lost)) {
        self.members.with(number, |program| {
            count(&mut program.lost);
            Ok(())
        });
    }

    /// Passes received frames to their programs. Returns false if there were none.
    fn receive(&mut self) -> Result<bool, Error> {
        if self.has_failed {
            return Ok(false);
        }
        let (members, strangers) = (&mut self.members, &mut self.strangers);
        let received = self.port.receive(&mut |from, frame| {
            // A frame from the switch's own address is forged: no port delivers its own frames.
            let arrives = *from != members.own
                && Passing::of(frame, members.checksum).is_ok_and(|(passing, frame)| {
                    members.hear_for(&passing);
                    members.arrive(*from, &passing, frame)
                });
            *strangers += u64::from(!arrives);
        });
        Ok(self.came(received)?.is_some_and(|count| count > 0))
    }

    /// Sends the agent's own messages. Returns false if there were none.
    fn say(&mut self) -> bool {
        let mut busy = false;
        let mut frame = core::mem::take(&mut self.frame);
        while self.has_failed || self.port.slot().is_some() {
            let Some(to) = self.members.next_said(&mut frame) else { break };
            busy = true;
            if let Some(room) = self.port.slot().and_then(|room| room.get_mut(..frame.len())) {
                room.copy_from_slice(&frame);
                // This frame may be lost like any other.
                let _ = self.port.commit(frame.len(), &to);
            }
        }
        self.frame = frame;
        busy
    }
}
