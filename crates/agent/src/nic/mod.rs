//! The NIC: what it does when programs, frames and time come.
//!
//! - `programs`: programs that come, what they mark, and their deaths;
//! - `requests`: VIs that both ends of a connection ask for, until they end;
//! - `telling`: messages to the far NIC; `frames`: messages from it; `route`: which way frames go;
//! - `meeting`: agents of other hosts.

mod frames;
mod meeting;
mod programs;
mod requests;
mod route;
mod telling;

use crate::bundle::Bundle;
use crate::connection::{Connection, Key};
use crate::hosts::Hosts;
use crate::numbers::{Numbers, Reader};
use crate::port::{Local, Network, Port};
use crate::program::{Entrance, Program, Stranger};
use crate::wire::{Id, Message};
use crate::{Config, Error, Way};
use route::Route;
use sovia_link::{Channel, Control, Time};
use sovia_sys::{Fd, clock, poll};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Connections that the far NIC may have offered before a program of this host has asked for them.
const OFFERS: usize = 1 << 16;
/// Frames to the far NIC that may be on their way: of Ethernet's usual length 6 MB, which a path of a gigabit a second holds in
/// 48 ms; and where nothing but this limits them.
const WINDOW: usize = 4096;
const WINDOW_FIXED: usize = 2048;
/// Bytes of messages from the far NIC that may wait for this one: they are taken at once, so it matters to a stranger only.
const RECEIVE_BUFFER: usize = 4 << 20;
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
const HOSTS: u64 = 5;

/// A NIC.
#[derive(Debug)]
pub(crate) struct Nic {
    entrance: Entrance,
    port: Port,
    /// The other agent, where it is on another host.
    hosts: Option<Hosts>,
    /// What reads the sequence numbers of programs' sockets, where they are asked for.
    reader: Option<Reader>,
    channel: Channel,
    control: Control,
    /// The other NIC can be spoken to.
    is_met: bool,
    /// Bytes of the longest frame to it.
    frame_max: usize,
    route: Route,
    epoll: Fd,
    /// Programs that have come and not introduced themselves.
    strangers: Vec<Stranger>,
    programs: HashMap<u64, Program>,
    connections: HashMap<Id, Connection>,
    /// Own requests that no far program has asked for yet.
    requests: HashMap<Key, Id>,
    /// Far requests that no program of this host has asked for yet.
    offers: HashMap<Key, (Id, Numbers)>,
    /// Connections of which the far NIC may not have been sent everything.
    untold: BTreeSet<Id>,
    /// Messages about connections that are to be sent, in order, when there is room.
    unsaid: VecDeque<Message<'static>>,
    /// Messages that go together.
    bundle: Bundle,
    /// Some program is dying.
    is_closing: bool,
    /// Some socket has been asked about that may be closing.
    is_asking: bool,
    /// When the far NIC was last spoken to for that alone.
    was_here: u64,
    next: u64,
    watches_for_room: bool,
}

/// What channels are like whose frames have up to `mtu` bytes.
fn channel_config(mtu: usize, control: Control) -> sovia_link::Config {
    let window = match control {
        Control::Fixed => WINDOW_FIXED,
        Control::Bbr => WINDOW,
    };
    sovia_link::Config {
        mtu,
        window,
        control,
        send_buffer: 2 * window,
        receive_buffer: RECEIVE_BUFFER,
        ..Default::default()
    }
}

/// A fresh end of a channel whose other end is greeted.
fn channel(mtu: usize, control: Control) -> Result<Channel, Error> {
    let mut seed = [0; 8];
    sovia_sys::call::getrandom(&mut seed).map_err(Error::Kernel)?;
    Ok(Channel::new(channel_config(mtu, control), 0, u64::from_ne_bytes(seed)))
}

/// The way to the other NIC, and what is needed where that is on another host.
fn way(config: &Config) -> Result<(Port, Option<(Hosts, Reader)>), Error> {
    match &config.way {
        Way::Local { port, peer } => {
            let local = Local::open(port, peer, config.faults);
            let local = local.map_err(|error| Error::Local(port.clone(), error))?;
            Ok((Port::Local(Box::new(local)), None))
        }
        Way::Network(hosts) => {
            let listen = hosts.listen;
            let network = Network::open(listen, hosts.peer, config.faults);
            let network = network.map_err(|error| Error::Network(listen, error))?;
            let port = Port::Network(Box::new(network));
            let hosts = Hosts::open(hosts.clone(), port.frame_max());
            let hosts = hosts.map_err(|error| Error::Listen(listen, error))?;
            Ok((port, Some((hosts, Reader::new().map_err(Error::Numbers)?))))
        }
    }
}

impl Nic {
    pub(crate) fn open(config: &Config) -> Result<Nic, Error> {
        let entrance = Entrance::open(&config.name)
            .map_err(|error| Error::Name(config.name.clone(), error))?;
        let (port, others) = way(config)?;
        let (hosts, reader) = others.unzip();
        let epoll = Fd::make(poll::epoll_create).map_err(Error::Kernel)?;
        let control = if hosts.is_some() { config.control } else { Control::Fixed };
        let channel = channel(port.frame_max(), control)?;
        let (is_met, frame_max) = (hosts.is_none(), port.frame_max());
        let mut nic = Nic {
            entrance,
            port,
            hosts,
            reader,
            channel,
            control,
            is_met,
            frame_max,
            route: Route::Port,
            epoll,
            strangers: Vec::new(),
            programs: HashMap::new(),
            connections: HashMap::new(),
            requests: HashMap::new(),
            offers: HashMap::new(),
            untold: BTreeSet::new(),
            unsaid: VecDeque::new(),
            bundle: Bundle::default(),
            is_closing: false,
            is_asking: false,
            was_here: 0,
            next: 1,
            watches_for_room: false,
        };
        nic.watch(nic.entrance.raw(), ENTRANCE)?;
        for door in &nic.entrance.doors {
            nic.watch(door.raw(), DOOR)?;
        }
        let [hears, sends] = nic.port.descriptors();
        nic.watch(hears, PORT)?;
        if sends != hears {
            let events = (libc::EPOLLOUT | libc::EPOLLET) as u32;
            poll::epoll_ctl(nic.epoll.raw(), libc::EPOLL_CTL_ADD, sends, events, PORT)
                .map_err(Error::Kernel)?;
        }
        nic.meet(clock::now_ns());
        Ok(nic)
    }

    /// Watches the port for room, or no longer: where one descriptor is for both, the kernel tells of room after each frame.
    fn watch_for_room(&mut self, wanted: bool) {
        let [hears, sends] = self.port.descriptors();
        if self.watches_for_room == wanted || sends != hears {
            return;
        }
        self.watches_for_room = wanted;
        let events = libc::EPOLLIN | libc::EPOLLET | if wanted { libc::EPOLLOUT } else { 0 };
        // It cannot fail for a descriptor that is watched.
        let _ = poll::epoll_ctl(self.epoll.raw(), libc::EPOLL_CTL_MOD, hears, events as u32, PORT);
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
        let channel = self.channel.poll_timeout().filter(|_| self.is_met);
        let channel = channel.map(|at| at.nanos().saturating_sub(now));
        let closing = (self.is_closing || self.is_asking).then_some(CLOSING_NS);
        let here = (self.was_here + HERE_NS).saturating_sub(now);
        let here = self.asks_whether_it_is_there().then_some(here);
        let hosts = self.hosts.as_ref().and_then(Hosts::deadline);
        let hosts = hosts.map(|due| due.saturating_sub(now));
        let probe = self.probe_deadline().map(|due| due.saturating_sub(now));
        channel.into_iter().chain(closing).chain(here).chain(hosts).chain(probe).min()
    }

    /// Whether VIs are connected to those of the far NIC.
    fn has_connected(&self) -> bool {
        self.connections
            .values()
            .any(|connection| connection.joined.is_some() && !connection.is_alone)
    }

    /// Whether nothing but its silence tells that the other NIC has gone.
    fn asks_whether_it_is_there(&self) -> bool {
        self.hosts.is_none() && self.has_connected()
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
        self.look_for_passage(now);
        let is_due =
            now.saturating_sub(self.was_here) >= HERE_NS && self.asks_whether_it_is_there();
        if is_due {
            self.was_here = now;
            if self.channel.is_idle() {
                self.say(Message::Here);
            }
        }
        let hosts = self.hosts.as_ref().and_then(Hosts::deadline);
        let mut is_called = hosts.is_some_and(|due| due <= now);
        let mut has_died = self.is_closing;
        for event in &events[..n] {
            match event.u64 {
                ENTRANCE => self.greet(),
                STRANGER => self.hear_strangers(),
                NOTICE => has_died = true,
                HOSTS => is_called = true,
                _ => {}
            }
        }
        if is_called {
            self.meet(now);
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
