//! The NIC: what it does when programs, frames and time come.
//!
//! - `programs`: programs that come, what they mark, and their deaths;
//! - `requests`: VIs that both ends of a connection ask for, until they end;
//! - `telling`: messages to the far NIC; `frames`: messages from it.

mod frames;
mod programs;
mod requests;
mod telling;

use crate::connection::{Connection, Key};
use crate::port::{MTU, Port};
use crate::program::{Entrance, Program, Stranger};
use crate::wire::{Id, Message};
use crate::{Config, Error};
use sovia_link::{Channel, Time};
use sovia_sys::{Fd, clock, poll};
use std::collections::{BTreeSet, HashMap, VecDeque};

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
    /// Connections of which the far NIC may not have been sent everything.
    untold: BTreeSet<Id>,
    /// Messages about connections that are to be sent, in order, when there is room.
    unsaid: VecDeque<Vec<u8>>,
    /// Some program is dying.
    is_closing: bool,
    /// Some socket has been asked about that may be closing.
    is_asking: bool,
    /// When the far NIC was last spoken to for that alone.
    was_here: u64,
    next: u64,
    /// A frame for which the far NIC had no room.
    waiting: Option<Vec<u8>>,
    /// A frame or a message that is being made.
    frame: Vec<u8>,
    message: Vec<u8>,
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
            is_asking: false,
            was_here: 0,
            next: 1,
            waiting: None,
            frame: Vec::new(),
            message: Vec::new(),
        };
        nic.watch(nic.entrance.raw(), ENTRANCE)?;
        for door in &nic.entrance.doors {
            nic.watch(door.raw(), DOOR)?;
        }
        let [hears, sends] = nic.port.descriptors();
        nic.watch(hears, PORT)?;
        let events = (libc::EPOLLOUT | libc::EPOLLET) as u32;
        poll::epoll_ctl(nic.epoll.raw(), libc::EPOLL_CTL_ADD, sends, events, PORT)
            .map_err(Error::Kernel)?;
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
        let closing = (self.is_closing || self.is_asking).then_some(CLOSING_NS);
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
        let is_due = now.saturating_sub(self.was_here) >= HERE_NS && self.has_connected();
        if is_due {
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
        // A half-closed connection is asked about until its holder is gone.
        if self.is_asking || is_due {
            self.look_for_closed(now);
        }
        Ok(())
    }
}
