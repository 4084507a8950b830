//! The NIC in software: its event loop for programs, frames and timers.
//!
//! - `programs`: programs that connect, the VIs that they mark, and their deaths.
//! - `requests`: requested VIs, from the join of both ends to the end.
//! - `peer`: state of each remote NIC. `offers`: a remote NIC's offers. `unsaid`: messages that wait for room.
//! - `user_timeout`: ends connections that have waited too long for an acknowledgement.
//! - `telling`: messages to a remote NIC. `hearing`: messages from a remote NIC. `frames`: frames in both directions.
//! - `route`: chooses what carries the frames.
//! - `fabric`: a NIC that carries frames to agents with a NIC of the same kind.
//! - `meeting`: agents of other hosts.

mod fabric;
mod frames;
mod hearing;
mod in_flight;
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

/// Frames to a remote NIC that may be on their way, with and without congestion control. With frames of Ethernet's
/// usual length, `WINDOW` is 6 MB. A path of one gigabit per second carries 6 MB in 48 ms.
const WINDOW: usize = 4096;
const WINDOW_FIXED: usize = 2048;
/// Bytes of a remote NIC's messages that may wait in the channel. The NIC takes messages at once.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Times for the sockets of a dying process, in nanoseconds. The process closes its descriptors one after another.
/// `CLOSING_NS` is the interval of checks. A socket that is open after `CLOSED_NS` counts as another program's.
const CLOSING_NS: u64 = 2_000_000;
const CLOSED_NS: u64 = 1_000_000_000;

/// Interval at which the NIC checks if a process still holds a socket, in nanoseconds.
const ASK_NS: u64 = 1_000_000_000;

/// Interval of messages to the remote NIC on this host while VIs are connected, in nanoseconds. Sending such a
/// message fails if the remote NIC has died.
const HERE_NS: u64 = 1_000_000_000;

/// Maximum number of programs accepted in one turn, and of programs that have not introduced themselves.
const NEWCOMERS: usize = 32;
const STRANGERS: usize = 128;

/// Tokens of the epoll instance.
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
    /// Agents of other hosts. `None` if the remote NIC is on this host.
    hosts: Option<Hosts>,
    /// NIC that carries frames to agents with a NIC of the same kind.
    fabric: Option<Fabric>,
    /// Reads sequence numbers of programs' sockets. Used only between hosts.
    reader: Option<Reader>,
    /// Remote NICs. There is only one if the remote NIC is on this host.
    peers: Vec<Peer>,
    /// Peer that sends first in the next turn.
    first: PeerId,
    /// Congestion control of the channels.
    control: Control,
    epoll: Fd,
    /// Programs that have connected and not introduced themselves.
    strangers: VecDeque<Stranger>,
    complaints: Complaints,
    programs: HashMap<u64, Program>,
    connections: HashMap<Id, Connection>,
    /// Set while a program is dying.
    is_closing: bool,
    /// Set while a socket may be closing after a check.
    is_asking: bool,
    /// Time of the next check of sockets that are still held.
    asks_again: Option<u64>,
    /// Time when a message to a remote NIC on this host was last due, in nanoseconds.
    was_here: u64,
    next: u64,
    watches_for_room: bool,
    /// Set when an order of the owner waits.
    is_ordered: bool,
    impatient: Impatient,
}

/// Returns the configuration of channels with frames of up to `mtu` bytes.
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

/// Makes a new end of a channel, which first greets its other end.
fn channel(mtu: usize, control: Control) -> Result<Channel, Error> {
    let mut seed = [0; 8];
    sovia_sys::call::getrandom(&mut seed).map_err(Error::Kernel)?;
    let checksums = (Checksum::Crc, Checksum::Crc);
    Ok(Channel::new(channel_config(mtu, control, checksums), 0, u64::from_ne_bytes(seed)))
}

/// Opens the port to other NICs. For NICs on other hosts, also opens the TCP listener and loads the BPF program.
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
        // Each program and each peer uses several descriptors.
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
        // Start this thread after the privileges have been given up, so that the thread has none.
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
            // Level-triggered: while the descriptor is readable, there is something to do.
            let (fd, events) = (hosts.raw(), libc::EPOLLIN as u32);
            poll::epoll_ctl(nic.epoll.raw(), libc::EPOLL_CTL_ADD, fd, events, HOSTS)
                .map_err(Error::Kernel)?;
        }
        nic.meet(clock::now_ns());
        Ok(nic)
    }

    /// Starts or stops watching the port for room. Does nothing if a separate descriptor reports room. With one
    /// descriptor for both, the kernel reports room after each frame. So the NIC watches for room only when needed.
    fn watch_for_room(&mut self, wanted: bool) {
        let [hears, sends] = self.port.descriptors();
        if self.watches_for_room == wanted || sends != hears {
            return;
        }
        self.watches_for_room = wanted;
        let events = libc::EPOLLIN | libc::EPOLLET | if wanted { libc::EPOLLOUT } else { 0 };
        // This cannot fail for a descriptor in the set.
        let _ = poll::epoll_ctl(self.epoll.raw(), libc::EPOLL_CTL_MOD, hears, events as u32, PORT);
    }

    fn watch(&self, fd: i32, token: u64) -> Result<(), Error> {
        let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
        poll::epoll_ctl(self.epoll.raw(), libc::EPOLL_CTL_ADD, fd, events, token)
            .map_err(Error::Kernel)
    }

    /// Serves until the owner orders the NIC to end.
    ///
    /// # Errors
    /// The kernel refuses to wait for events.
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
                // Check for events now: a host that always has something to send must not delay them.
                self.look_at_events(Some(0)).ok();
                continue;
            }
            self.programs.values().for_each(|program| program.ready_list().going_to_sleep());
            let has_news = self.programs.values().any(|program| program.ready_list().has_events());
            let pause = if has_news { Some(0) } else { self.pause() };
            let pause = self.sleeps(pause);
            let waited = self.look_at_events(pause);
            self.programs.values().for_each(|program| program.ready_list().awake());
            waited?;
        }
    }

    /// Carries out the owner's orders. Returns true if the NIC must end.
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

    /// Returns how long the NIC may sleep without events, in nanoseconds.
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

    /// Returns true if a VI is connected to a VI of a remote NIC.
    fn has_connected(&self) -> bool {
        self.connections
            .values()
            .any(|connection| connection.joined.is_some() && !connection.is_alone)
    }

    /// Returns true if the death of the other NIC shows only in its silence.
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
