//! The NIC: what it does when programs, frames and time come.
//!
//! - `programs`: programs that come, what they mark, and their deaths;
//! - `requests`: VIs that both ends of a connection ask for, until they end;
//! - `peer`: what there is of each far NIC; `offers`: what it offers; `unsaid`: what it is to be told;
//! - `user_timeout`: connections of which too much time has passed without an answer;
//! - `telling`: messages to a far NIC; `frames`: frames from it and to it; `hearing`: what it says by them; `route`: which
//!   way frames go;
//! - `fabric`: a NIC that carries frames to agents which have one of its kind;
//! - `meeting`: agents of other hosts.

mod fabric;
mod frames;
mod hearing;
mod meeting;
mod offers;
mod peer;
mod programs;
mod requests;
mod route;
mod telling;
mod unsaid;
mod user_timeout;

use crate::closer;
use crate::complaints::Complaints;
use crate::connection::Connection;
use crate::hosts::{Hosts, PeerId};
use crate::numbers::Reader;
use crate::orders::{Order, Orders};
use crate::port::{Local, Network, Port};
use crate::privilege::{self, Left};
use crate::program::{Entrance, Program, Stranger};
use crate::wire::{Id, Message};
use crate::{Config, Error, Way};
use fabric::Fabric;
use peer::Peer;
use sovia_link::wire::Checksum;
use sovia_link::{Channel, Control};
use sovia_sys::{Fd, call, clock, poll};
use std::collections::{HashMap, VecDeque};
use user_timeout::Impatient;

/// Frames to a far NIC that may be on their way: of Ethernet's usual length 6 MB, which a path of a gigabit a second holds in
/// 48 ms; and where nothing but this limits them.
const WINDOW: usize = 4096;
const WINDOW_FIXED: usize = 2048;
/// Bytes of messages from a far NIC that may wait for this one: they are taken at once.
const RECEIVE_BUFFER: usize = 4 << 20;
/// A process that dies closes its descriptors one after the other: how long until its sockets are looked at again,
/// and how long one may be open before it counts as another program's (nanoseconds).
const CLOSING_NS: u64 = 2_000_000;
const CLOSED_NS: u64 = 1_000_000_000;

/// How often it is asked whether a process holds a socket still that has been asked about (nanoseconds).
const ASK_NS: u64 = 1_000_000_000;

/// While VIs are connected a far NIC of this host is spoken to this often (nanoseconds), so that its death is found out.
const HERE_NS: u64 = 1_000_000_000;

/// Programs that are greeted before others have their turn, and programs that may have come and not introduced themselves.
const NEWCOMERS: usize = 32;
const STRANGERS: usize = 128;

/// The epoll instance's tokens.
const ENTRANCE: u64 = 0;
const DOOR: u64 = 1;
const PORT: u64 = 2;
const NOTICE: u64 = 3;
const STRANGER: u64 = 4;
const HOSTS: u64 = 5;
const ORDERS: u64 = 6;
const FABRIC: u64 = 7;
const FABRIC_WATCHED: [u64; 3] = [8, 9, 10];

/// A NIC.
#[derive(Debug)]
pub(crate) struct Nic {
    entrance: Entrance,
    port: Port,
    /// The agents of other hosts, unless the far NIC is on this one.
    hosts: Option<Hosts>,
    /// What carries frames to agents that have one of its kind.
    fabric: Option<Fabric>,
    /// What reads the sequence numbers of programs' sockets, where they are asked for.
    reader: Option<Reader>,
    /// The far NICs. One of this host is the only one.
    peers: Vec<Peer>,
    /// The one that has its turn to send first.
    first: PeerId,
    /// What limits what is sent to each.
    control: Control,
    epoll: Fd,
    /// Programs that have come and not introduced themselves.
    strangers: VecDeque<Stranger>,
    complaints: Complaints,
    programs: HashMap<u64, Program>,
    connections: HashMap<Id, Connection>,
    /// Some program is dying.
    is_closing: bool,
    /// Some socket has been asked about that may be closing.
    is_asking: bool,
    /// When the sockets that have been asked about are looked at again.
    asks_again: Option<u64>,
    /// When a far NIC of this host was last spoken to for that alone.
    was_here: u64,
    next: u64,
    watches_for_room: bool,
    /// There is an order of its owner's.
    is_ordered: bool,
    impatient: Impatient,
}

/// What channels are like whose frames have up to `mtu` bytes.
fn channel_config(
    mtu: usize,
    control: Control,
    (link, sends): (Checksum, Checksum),
) -> sovia_link::Config {
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
        link,
        sends,
        ..Default::default()
    }
}

/// A fresh end of a channel whose other end is greeted.
fn channel(mtu: usize, control: Control) -> Result<Channel, Error> {
    let mut seed = [0; 8];
    sovia_sys::call::getrandom(&mut seed).map_err(Error::Kernel)?;
    let checksums = (Checksum::Crc, Checksum::Crc);
    Ok(Channel::new(channel_config(mtu, control, checksums), 0, u64::from_ne_bytes(seed)))
}

/// The way to other NICs, and what is needed where these are on other hosts.
fn way(config: &Config) -> Result<(Port, Option<(Hosts, Reader)>), Error> {
    match &config.way {
        Way::Local { port, peer } => {
            let local = Local::open(port, peer, config.faults);
            let local = local.map_err(|error| Error::Local(port.clone(), error))?;
            Ok((Port::Local(Box::new(local)), None))
        }
        Way::Network(hosts) => {
            let listen = hosts.listen;
            let places: Vec<_> = hosts.peers.all().iter().map(|peer| peer.address).collect();
            let network = Network::open(listen, &places, config.faults);
            let network = network.map_err(|error| Error::Network(listen, error))?;
            let hosts = Hosts::open(hosts.clone(), network.frame_max_to_each());
            let hosts = hosts.map_err(|error| Error::Listen(listen, error))?;
            let reader = Reader::new().map_err(Error::Numbers)?;
            Ok((Port::Network(Box::new(network)), Some((hosts, reader))))
        }
    }
}

impl Nic {
    pub(crate) fn open(config: &Config) -> Result<Nic, Error> {
        let entrance = Entrance::open(&config.name)
            .map_err(|error| Error::Name(config.name.clone(), error))?;
        // Each program and each peer takes some.
        call::raise_descriptor_limit();
        let (port, others) = way(config)?;
        let (hosts, reader) = others.unzip();
        if let Some(reader) = &reader
            && privilege::give_up(reader).map_err(Error::Privileges)? == Left::Bpf
        {
            eprintln!(
                "sovia-agent: the agent keeps CAP_BPF, which this kernel needs to show sequence numbers \
                 (not needed by Linux 5.19 or later, or with kernel.unprivileged_bpf_disabled=0)"
            );
        }
        let epoll = Fd::make(poll::epoll_create).map_err(Error::Kernel)?;
        let control = if hosts.is_some() { config.control } else { Control::Fixed };
        let mut peers = Vec::new();
        peers.resize_with(hosts.as_ref().map_or(1, |it| it.peers().all().len()), Peer::default);
        if hosts.is_none() {
            let channel = channel(port.frame_max(), control)?;
            peers[0].begin(Some(channel));
        }
        let mut nic = Nic {
            entrance,
            port,
            hosts,
            fabric: None,
            reader,
            peers,
            first: 0,
            control,
            epoll,
            strangers: VecDeque::new(),
            complaints: Complaints::default(),
            programs: HashMap::new(),
            connections: HashMap::new(),
            is_closing: false,
            is_asking: false,
            asks_again: None,
            was_here: 0,
            next: 1,
            watches_for_room: false,
            is_ordered: false,
            impatient: Impatient::default(),
        };
        // Without the privileges that have been given up.
        closer::start().map_err(|_| Error::Kernel(sovia_sys::Errno::EAGAIN))?;
        if let Some(hosts) = &mut nic.hosts
            && let Some(fabric) = Fabric::wanted(&config.fabric, hosts.own().ip(), nic.peers.len())?
        {
            hosts.has_fabric(&fabric.introduction(), sovia_trunk::FRAME_MAX);
            let bell = fabric.raw();
            nic.fabric = Some(fabric);
            nic.watch(bell, FABRIC)?;
        }
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
        if let Some(hosts) = &nic.hosts {
            // There is something to do for as long as it is readable.
            let (fd, events) = (hosts.raw(), libc::EPOLLIN as u32);
            poll::epoll_ctl(nic.epoll.raw(), libc::EPOLL_CTL_ADD, fd, events, HOSTS)
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

    /// Serves until it is ordered to end.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub(crate) fn serve(&mut self, orders: Option<&Orders>) -> Result<(), Error> {
        if let Some(orders) = orders {
            self.watch(orders.raw(), ORDERS)?;
        }
        loop {
            if core::mem::take(&mut self.is_ordered)
                && let Some(orders) = orders
                && self.obey(orders)
            {
                return Ok(());
            }
            let mut busy = self.visit_programs();
            let has_heard = self.receive();
            self.look_for_timeouts(clock::now_ns(), has_heard);
            busy |= has_heard;
            self.tell_rest();
            busy |= self.transmit();
            if busy {
                // Others are not to wait until this host has nothing to say any more.
                self.look_at_events(Some(0)).ok();
                continue;
            }
            self.programs.values().for_each(|program| program.ready_list().going_to_sleep());
            let has_news = self.programs.values().any(|program| program.ready_list().has_news());
            let pause = if has_news { Some(0) } else { self.pause() };
            let pause = self.sleeps(pause);
            let waited = self.look_at_events(pause);
            self.programs.values().for_each(|program| program.ready_list().awake());
            waited?;
        }
    }

    /// Does what its owner asks; whether it is to end.
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

    /// How long there is nothing to do unless something comes.
    fn pause(&self) -> Option<u64> {
        let now = clock::now_ns();
        let entrance = self.entrance.due().map(|due| due.saturating_sub(now));
        let peers = self.peers.iter().filter_map(Peer::deadline).min();
        let peers = peers.map(|due| due.saturating_sub(now));
        let closing = (self.is_closing || self.is_asking).then_some(CLOSING_NS);
        let here = (self.was_here + HERE_NS).saturating_sub(now);
        let here = self.asks_whether_it_is_there().then_some(here);
        let hosts = self.hosts.as_ref().and_then(Hosts::deadline);
        let hosts = hosts.map(|due| due.saturating_sub(now));
        let fabric = self.fabric.as_ref().and_then(|fabric| fabric.deadline(now));
        let fabric = fabric.map(|due| due.saturating_sub(now));
        let impatient = self.impatient.due().map(|due| due.saturating_sub(now));
        let asking = self.asks_again.map(|due| due.saturating_sub(now));
        peers
            .into_iter()
            .chain(entrance)
            .chain(closing)
            .chain(here)
            .chain(hosts)
            .chain(fabric)
            .chain(impatient)
            .chain(asking)
            .min()
    }

    /// Whether VIs are connected to those of far NICs.
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
        let slept = poll::epoll_wait(self.epoll.raw(), &mut events, pause, None);
        self.is_awake(&events[..slept.unwrap_or(0)]);
        match slept {
            Ok(_) | Err(sovia_sys::Errno::EINTR) => {}
            Err(error) => return Err(Error::Kernel(error)),
        }
        let n = slept.unwrap_or(0);
        let now = clock::now_ns();
        for peer in 0..self.peers.len() {
            self.peers[peer].look_at_timers(now);
            self.look_for_passage(peer, now);
            if self.peers[peer].is_given_up(now) {
                self.give_up(peer);
            }
        }
        let is_due =
            now.saturating_sub(self.was_here) >= HERE_NS && self.asks_whether_it_is_there();
        if is_due {
            self.was_here = now;
            let peer = &mut self.peers[0];
            if peer.channel.as_ref().is_some_and(|channel| channel.is_idle()) {
                peer.say(Message::Here);
            }
        }
        let hosts = self.hosts.as_ref().and_then(Hosts::deadline);
        let mut is_called = hosts.is_some_and(|due| due <= now);
        let mut has_died = self.is_closing;
        let mut has_come = self.entrance.due().is_some_and(|due| due <= now);
        for event in &events[..n] {
            match event.u64 {
                ENTRANCE => has_come = true,
                STRANGER => self.hear_strangers(),
                NOTICE => has_died = true,
                HOSTS => is_called = true,
                ORDERS => self.is_ordered = true,
                _ => {}
            }
        }
        if has_come {
            self.greet();
        }
        if is_called {
            self.meet(now);
        }
        if has_died {
            self.look_for_deaths(now);
        }
        if self.is_asking || self.asks_again.is_some_and(|due| due <= now) {
            self.look_for_closed(now);
        }
        Ok(())
    }
}
