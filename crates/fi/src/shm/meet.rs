//! Connects two endpoints of one host. The sender connects to the receiver's abstract socket name and passes a segment.
//! The sender may write to the segment at once.
//!
//! The connection stays open while both processes live. A peer is gone when the connection or the peer's process ends.

use super::reader::Reader;
use super::segment::Segment;
use super::writer::Writer;
use crate::address::{ADDRESS_LEN, Address};
use crate::error::Error;
use crate::memory::OtherMemory;
use sovia_sys::seqpacket::{Listener, Packets};
use sovia_sys::{Errno, Fd, call, poll};

/// First bytes of the first message. The last byte is the version, which changes with each incompatible change.
const HELLO: [u8; 8] = *b"SoviaFi\x01";
const HELLO_LEN: usize = HELLO.len() + 2 * ADDRESS_LEN;
const LISTENER: u64 = 0;
/// Bit in the epoll data of a new connection.
const ARRIVAL: u64 = 1 << 32;
/// Bit in the epoll data of a peer.
const PEER: u64 = 2 << 32;
/// Maximum number of connections without a first message. One more connection closes the oldest.
const ARRIVALS_MAX: usize = 128;

/// The socket on which an endpoint waits for its peers.
#[derive(Debug)]
pub(crate) struct Station {
    address: Address,
    user: u32,
    listener: Listener,
    epoll: Fd,
    arrivals: Vec<(u32, Packets)>,
    arrived: u32,
}

/// A connection with a peer's process.
#[derive(Debug)]
pub(crate) struct Link {
    socket: Packets,
    process: Fd,
    epoll: i32,
}

/// An event of a station.
#[derive(Debug)]
pub(crate) enum News {
    /// An endpoint has connected, and sends from now on.
    Sender(Address, Reader, Packets),
    /// The peer with this number may be gone.
    Peer(u32),
}

impl Station {
    pub(crate) fn new(address: Address) -> Result<Station, Error> {
        let listener = Listener::bind(&address.name())?;
        let epoll = Fd::make(poll::epoll_create)?;
        watch(epoll.raw(), listener.raw(), LISTENER)?;
        let user = call::geteuid();
        Ok(Station { address, user, listener, epoll, arrivals: Vec::new(), arrived: 0 })
    }

    /// Returns a descriptor that is readable when an event waits.
    pub(crate) fn raw(&self) -> i32 {
        self.epoll.raw()
    }

    /// Connects to an endpoint of this host. Events name the endpoint by the number `peer`.
    pub(crate) fn connect(&self, to: &Address, peer: u32) -> Result<(Writer, Link), Error> {
        let socket = Packets::connect(&to.name()).map_err(|errno| match errno {
            Errno::ECONNREFUSED | Errno::ENOENT => Error::UNREACHABLE,
            errno => errno.into(),
        })?;
        if socket.peer()?.1 != self.user {
            return Err(Error::ACCESS);
        }
        let (segment, fd) = Segment::create()?;
        let mut hello = [0; HELLO_LEN];
        let (magic, addresses) = hello.split_at_mut(HELLO.len());
        magic.copy_from_slice(&HELLO);
        addresses[..ADDRESS_LEN].copy_from_slice(self.address.bytes());
        addresses[ADDRESS_LEN..].copy_from_slice(to.bytes());
        socket.send(&hello, &[fd.raw()])?;
        Ok((Writer::new(segment), self.link(socket, peer)?))
    }

    /// Watches a connection. Events name the other end by the number `peer`.
    pub(crate) fn link(&self, socket: Packets, peer: u32) -> Result<Link, Error> {
        let process = socket.peer_process()?;
        let epoll = self.epoll.raw();
        watch(epoll, socket.raw(), PEER | u64::from(peer))?;
        // From here on, dropping `link` removes both descriptors from the epoll set.
        let link = Link { socket, process, epoll };
        watch(epoll, link.process.raw(), PEER | u64::from(peer))?;
        Ok(link)
    }

    /// Passes all waiting events to `tell`. Never blocks.
    pub(crate) fn poll(&mut self, mut tell: impl FnMut(&Station, News)) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 16];
        let n = poll::epoll_wait(self.epoll.raw(), &mut events, Some(0), None).unwrap_or(0);
        let is_peer = |what: u64| what >> 32 << 32 == PEER;
        let events = events[..n].iter().map(|event| event.u64);
        for what in events.clone().filter(|what| !is_peer(*what)) {
            if what == LISTENER {
                self.accept();
            } else if let Some(news) = self.hear(what as u32) {
                tell(self, news);
            }
        }
        if events.clone().any(is_peer) {
            // An ended peer may have connected before, and may have sent messages.
            self.hear_all(&mut tell);
        }
        events.filter(|what| is_peer(*what)).for_each(|what| tell(self, News::Peer(what as u32)));
    }

    /// Accepts all waiting connections and reads their first messages.
    fn hear_all(&mut self, tell: &mut impl FnMut(&Station, News)) {
        // The limit matches the number of connections that can wait. One process could connect again and again.
        for _ in 0..ARRIVALS_MAX {
            if !self.accept() {
                break;
            }
        }
        let numbers: Vec<u32> = self.arrivals.iter().map(|(number, _)| *number).collect();
        for number in numbers {
            if let Some(news) = self.hear(number) {
                tell(self, news);
            }
        }
    }

    /// Accepts the next connection and closes it if it belongs to another user. Returns false if none waits.
    fn accept(&mut self) -> bool {
        let Ok(socket) = self.listener.accept() else { return false };
        if socket.peer().is_ok_and(|(_, user)| user == self.user) {
            self.arrived = self.arrived.wrapping_add(1);
            if watch(self.epoll.raw(), socket.raw(), ARRIVAL | u64::from(self.arrived)).is_err() {
                return true;
            }
            if self.arrivals.len() == ARRIVALS_MAX {
                self.take_arrival(0);
            }
            self.arrivals.push((self.arrived, socket));
        }
        true
    }

    fn take_arrival(&mut self, at: usize) -> Packets {
        let (_, socket) = self.arrivals.remove(at);
        forget(self.epoll.raw(), socket.raw());
        socket
    }

    /// Reads the first message of a connection.
    fn hear(&mut self, number: u32) -> Option<News> {
        let at = self.arrivals.iter().position(|(its, _)| *its == number)?;
        let mut hello = [0; HELLO_LEN + 1];
        let received = match self.arrivals[at].1.receive(&mut hello) {
            Err(Errno::EAGAIN | Errno::EINTR) => return None,
            received => received,
        };
        let socket = self.take_arrival(at);
        let received = received.ok().filter(|received| received.len == HELLO_LEN)?;
        let addresses = hello[..HELLO_LEN].strip_prefix(&HELLO)?;
        let (from, to) = addresses.split_at(ADDRESS_LEN);
        if to != self.address.bytes() {
            return None;
        }
        let segment = Segment::attach(received.fds.first()?)?;
        Some(News::Sender(Address::read(from)?, Reader::new(segment), socket))
    }
}

impl Link {
    /// Returns true if the connection or the other process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        let ended = |fd, events| poll::probe(fd, events) != 0;
        ended(self.socket.raw(), libc::POLLRDHUP) || ended(self.process.raw(), libc::POLLIN)
    }

    /// Returns the memory of the other process.
    pub(crate) fn memory(&self) -> Result<OtherMemory, Error> {
        let pid = self.socket.peer()?.0;
        Ok(OtherMemory::new(pid, Fd::duplicate(self.process.raw(), 3)?))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // A forked child may hold copies of the descriptors, and then the kernel would keep them in the epoll set.
        forget(self.epoll, self.socket.raw());
        forget(self.epoll, self.process.raw());
        self.socket.shutdown();
    }
}

fn watch(epoll: i32, fd: i32, what: u64) -> Result<(), Error> {
    let events = (libc::EPOLLIN | libc::EPOLLRDHUP) as u32;
    Ok(poll::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, events, what)?)
}

fn forget(epoll: i32, fd: i32) {
    // The descriptor may already be out of the epoll set.
    let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, 0, 0);
}
