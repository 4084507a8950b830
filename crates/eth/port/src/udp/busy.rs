//! Separate sockets for busy peers.
//!
//! For an unconnected socket, the kernel looks up the route of each datagram, out and in. The lookup takes a fifth of
//! the time of a small frame. So a peer that has received many lone frames gets a separate socket, which is bound to
//! the port's address and connected to the peer. The kernel delivers the peer's datagrams to this socket, and all other
//! datagrams to the port's socket.
//!
//! Several sockets can share an address only if all of them set `SO_REUSEPORT`. The port's socket sets this option only
//! while a new socket is bound. Before and after, the port alone owns the address. Meanwhile the new socket may receive
//! datagrams of any peer. The port accepts these datagrams, because each datagram carries its sender's address.

use super::socket;
use crate::batch::{Name, of_socket_addr};
use core::net::SocketAddr;
use sovia_sys::call::{self, RawFd};
use sovia_sys::{Errno, Fd, poll};

/// Maximum numbers of peers with a separate socket, and of peers with a counter.
const SOCKETS: usize = 8;
const COUNTED: usize = 32;
/// Number of lone frames that make a peer busy.
const MANY: u32 = 256;

/// The connected sockets, and an epoll instance with these sockets and the port's socket.
#[derive(Debug)]
pub(super) struct Busy {
    epoll: Fd,
    connected: Vec<Connected>,
    /// The connected socket that received the last frames, if any.
    latest: Option<usize>,
    /// Number of lone frames to each peer without a separate socket.
    counts: Vec<(Name, u32)>,
    /// Set if no more sockets can be made.
    is_closed: bool,
}

#[derive(Debug)]
struct Connected {
    peer: Name,
    socket: Fd,
    missed: u32,
}

impl Busy {
    /// Returns an empty set of connected sockets for a port.
    ///
    /// # Errors
    /// Returns the kernel's error if no epoll instance can be created.
    pub(super) fn new(port: RawFd, own: &SocketAddr) -> Result<Busy, Errno> {
        let epoll = Fd::make(poll::epoll_create)?;
        watch(&epoll, port)?;
        // A connected socket needs a concrete address.
        let is_closed = own.ip().is_unspecified();
        let (connected, counts) = (Vec::new(), Vec::new());
        Ok(Busy { epoll, connected, latest: None, counts, is_closed })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.connected.is_empty()
    }

    /// Returns the descriptor that is readable when any of the sockets is.
    pub(super) fn descriptor(&self) -> RawFd {
        self.epoll.raw()
    }

    /// Returns the socket that received the last frames.
    pub(super) fn latest(&self, port: RawFd) -> RawFd {
        let latest = self.latest.and_then(|at| self.connected.get(at));
        latest.map_or(port, |connected| connected.socket.raw())
    }

    pub(super) fn brought(&mut self, socket: RawFd) {
        self.latest = self.connected.iter().position(|it| it.socket.raw() == socket);
    }

    /// Returns the readable sockets. If the query fails, returns the port's socket.
    pub(super) fn readable(&self, port: RawFd) -> impl Iterator<Item = RawFd> + use<> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; SOCKETS + 1];
        let found = poll::epoll_wait(self.epoll.raw(), &mut events, Some(0), None);
        let count = found.unwrap_or_else(|_| {
            events[0].u64 = port as u64;
            1
        });
        events.into_iter().take(count).map(|event| event.u64 as RawFd)
    }

    /// Returns the socket to a lone frame's peer, and creates a socket if the peer is busy.
    pub(super) fn socket_to(&mut self, to: &Name, port: RawFd, own: &SocketAddr) -> Option<RawFd> {
        if let Some(known) = self.connected.iter().find(|it| it.peer == *to) {
            return Some(known.socket.raw());
        }
        if self.is_closed || !self.is_busy(to) {
            return None;
        }
        match connect(port, own, to).and_then(|socket| {
            watch(&self.epoll, socket.raw())?;
            Ok(socket)
        }) {
            Ok(socket) => {
                let raw = socket.raw();
                self.connected.push(Connected { peer: *to, socket, missed: 0 });
                self.is_closed = self.connected.len() >= SOCKETS;
                Some(raw)
            }
            Err(_) => {
                self.is_closed = true;
                None
            }
        }
    }

    /// Counts a lone frame. Returns true if the peer is busy.
    fn is_busy(&mut self, to: &Name) -> bool {
        let Some(place) = self.counts.iter().position(|(peer, _)| peer == to) else {
            if self.counts.len() == COUNTED {
                self.counts.clear();
            }
            self.counts.push((*to, 1));
            return false;
        };
        self.counts[place].1 += 1;
        let is_busy = self.counts[place].1 >= MANY;
        if is_busy {
            self.counts.swap_remove(place);
        }
        is_busy
    }

    /// Returns the number of datagrams that the kernel dropped since the last call because a queue was full.
    pub(super) fn missed(&mut self) -> u64 {
        let connected = self.connected.iter_mut();
        connected.map(|it| socket::missed(it.socket.raw(), &mut it.missed)).sum()
    }
}

fn watch(epoll: &Fd, socket: RawFd) -> Result<(), Errno> {
    poll::epoll_ctl(epoll.raw(), libc::EPOLL_CTL_ADD, socket, libc::EPOLLIN as u32, socket as u64)
}

/// Returns a socket with the port's address that is connected to a peer.
fn connect(port: RawFd, own: &SocketAddr, to: &Name) -> Result<Fd, Errno> {
    let (socket, _) = socket::for_frames(own).map_err(|error| error.why)?;
    let raw = socket.raw();
    let shares =
        |socket, value: i32| call::setsockopt(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, &value);
    shares(raw, 1)?;
    let bound = shares(port, 1).and_then(|()| call::bind(raw, of_socket_addr(own).as_bytes()));
    let connected = bound.and_then(|()| call::connect(raw, to.as_bytes()));
    // The new socket keeps the option, so that further sockets can share the address.
    shares(port, 0)?;
    connected.map(|_| socket)
}
