//! Sockets of their own for busy peers.
//!
//! Of a socket that is not connected the kernel looks up the route of every datagram, out and in: a fifth of the time that a
//! small frame takes. So a peer to which many lone frames have gone gets a socket which is bound to the port's own address as well, and
//! connected to the peer. The kernel hands that one what comes from the peer, and the port's socket all else.
//!
//! An address may be bound twice only where all sockets that have it say so (`SO_REUSEPORT`). The port's own says it for as
//! long as that takes; before and after, the address is this port's alone. Meanwhile the new socket may get datagrams of any peer. They are taken
//! for what they are: each comes with its sender's address.

use super::socket;
use crate::batch::{Name, of_socket_addr};
use core::net::SocketAddr;
use sovia_sys::call::{self, RawFd};
use sovia_sys::{Errno, Fd, poll};

/// Peers that have a socket of their own at most, and those that are counted.
const SOCKETS: usize = 8;
const COUNTED: usize = 32;
/// Lone frames to a peer after which it is busy.
const MANY: u32 = 256;

/// The connected sockets, and an epoll instance with them and the port's own.
#[derive(Debug)]
pub(super) struct Busy {
    epoll: Fd,
    connected: Vec<Connected>,
    /// The one that has brought frames last, if it was one of them.
    latest: Option<usize>,
    /// Lone frames to peers that have no socket of their own.
    counts: Vec<(Name, u32)>,
    /// None can be made, or no more.
    is_closed: bool,
}

#[derive(Debug)]
struct Connected {
    peer: Name,
    socket: Fd,
    missed: u32,
}

impl Busy {
    /// None yet, beside a port's own socket.
    ///
    /// # Errors
    /// The kernel's, where there can be no epoll instance.
    pub(super) fn new(port: RawFd, own: &SocketAddr) -> Result<Busy, Errno> {
        let epoll = Fd::make(poll::epoll_create)?;
        watch(&epoll, port)?;
        // A socket that is connected has one address of its own.
        let is_closed = own.ip().is_unspecified();
        let (connected, counts) = (Vec::new(), Vec::new());
        Ok(Busy { epoll, connected, latest: None, counts, is_closed })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.connected.is_empty()
    }

    /// Readable when any of the sockets is.
    pub(super) fn descriptor(&self) -> RawFd {
        self.epoll.raw()
    }

    /// The socket that has brought frames last.
    pub(super) fn latest(&self, port: RawFd) -> RawFd {
        let latest = self.latest.and_then(|at| self.connected.get(at));
        latest.map_or(port, |connected| connected.socket.raw())
    }

    pub(super) fn brought(&mut self, socket: RawFd) {
        self.latest = self.connected.iter().position(|it| it.socket.raw() == socket);
    }

    /// The sockets that have something; the port's own if that cannot be told.
    pub(super) fn readable(&self, port: RawFd) -> impl Iterator<Item = RawFd> + use<> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; SOCKETS + 1];
        let found = poll::epoll_wait(self.epoll.raw(), &mut events, Some(0), None);
        let count = found.unwrap_or_else(|_| {
            events[0].u64 = port as u64;
            1
        });
        events.into_iter().take(count).map(|event| event.u64 as RawFd)
    }

    /// The socket of the peer to which a lone frame goes, which gets one if it is busy.
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

    /// Counts a lone frame; whether it was one of many.
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

    /// Datagrams that the kernel has dropped since this was last asked, because a queue was full.
    pub(super) fn missed(&mut self) -> u64 {
        let connected = self.connected.iter_mut();
        connected.map(|it| socket::missed(it.socket.raw(), &mut it.missed)).sum()
    }
}

fn watch(epoll: &Fd, socket: RawFd) -> Result<(), Errno> {
    poll::epoll_ctl(epoll.raw(), libc::EPOLL_CTL_ADD, socket, libc::EPOLLIN as u32, socket as u64)
}

/// A socket with the port's address, connected to a peer.
fn connect(port: RawFd, own: &SocketAddr, to: &Name) -> Result<Fd, Errno> {
    let (socket, _) = socket::for_frames(own).map_err(|error| error.why)?;
    let raw = socket.raw();
    let shares =
        |socket, value: i32| call::setsockopt(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, &value);
    shares(raw, 1)?;
    let bound = shares(port, 1).and_then(|()| call::bind(raw, of_socket_addr(own).as_bytes()));
    let connected = bound.and_then(|()| call::connect(raw, to.as_bytes()));
    // The new one goes on saying it, for those that follow.
    shares(port, 0)?;
    connected.map(|_| socket)
}
