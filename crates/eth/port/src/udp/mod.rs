//! A port for every user: UDP.
//!
//! Consecutive frames of one length to one destination are one datagram as far as the system call goes, and the kernel or the
//! device cuts it (`UDP_SEGMENT`); on the other side they come joined (`UDP_GRO`). So the way through the kernel, which costs
//! the same for each message however long it is, is gone once for up to 64 frames.
//!
//! Datagrams are sent with "don't fragment", and the kernel's own opinion of the path's MTU does not count
//! (`IP_PMTUDISC_PROBE`): which length arrives is for the link to find out. A datagram longer than the device's MTU is
//! refused at once ([`Counters::unsendable`]).
//!
//! A peer with which the port exchanges lone frames all the time gets a socket of its own (`busy`): for one that is connected
//! the kernel need not look up the route of each frame, out and in.

mod busy;
mod socket;

use crate::batch::{Handed, Incoming, Message, Outgoing, of_socket_addr};
use crate::port::Step;
use crate::{Address, Counters, Descriptors, Error, OpenError, Port, Refused};
use busy::Busy;
use core::net::SocketAddr;
use sovia_sys::call::RawFd;
use sovia_sys::{Errno, Fd, call};

/// Bytes that a frame may have: the longest payload of a datagram over IPv4.
pub const FRAME_MAX: usize = 65507;
/// Bytes of the IP and UDP headers.
const HEADERS_V4: usize = 28;
const HEADERS_V6: usize = 48;
/// The MTU that is assumed where nothing else is said.
const MTU: usize = 1500;
/// Bytes of frames between two flushes.
const BATCH: usize = 4 << 16;

/// Calls among which one looks at all sockets, and not only at the one that has brought frames last.
const LOOKS: u32 = 16;

/// A UDP socket.
#[derive(Debug)]
pub struct Udp {
    /// It gets what no connected socket does.
    socket: Fd,
    own: SocketAddr,
    frame_max: usize,
    outgoing: Outgoing,
    incoming: Incoming,
    joins: bool,
    busy: Option<Busy>,
    /// Looks for frames since all sockets were looked at.
    looks: u32,
    handed: Handed,
    counters: Counters,
    /// The number of dropped datagrams that the kernel told last.
    missed: u32,
}

impl Udp {
    /// A port bound to `own`; port 0 is any that is free. Frames may have what an MTU of 1500 bytes leaves, until
    /// [`set_frame_max`](Udp::set_frame_max).
    ///
    /// # Errors
    /// [`OpenError`]: the address is not this host's, or in use.
    pub fn open(own: SocketAddr) -> Result<Udp, OpenError> {
        let (socket, joins) = socket::for_frames(&own)?;
        let raw = socket.raw();
        call::bind(raw, of_socket_addr(&own).as_bytes()).step("bind")?;
        let own = call::socket_name(raw, false).step("getsockname")?;
        let headers = if own.is_ipv4() { HEADERS_V4 } else { HEADERS_V6 };
        Ok(Udp {
            socket,
            own,
            frame_max: MTU - headers,
            outgoing: Outgoing::new(BATCH, true),
            incoming: Incoming::new(),
            joins,
            busy: None,
            looks: 0,
            handed: Handed::default(),
            counters: Counters::default(),
            missed: 0,
        })
    }

    /// From now on busy peers get sockets of their own. To be called before the port's descriptors are asked for. An owner that
    /// sleeps says so ([`Port::slept`]).
    ///
    /// # Errors
    /// [`OpenError`]: there are no descriptors left.
    pub fn connect_busy_peers(&mut self) -> Result<(), OpenError> {
        self.busy = Some(Busy::new(self.socket.raw(), &self.own).step("epoll")?);
        Ok(())
    }

    /// The address to which the port is bound.
    pub fn own(&self) -> SocketAddr {
        self.own
    }

    /// Sets the length of the longest frame, from 1 to [`FRAME_MAX`] bytes: what the path to every peer takes.
    pub fn set_frame_max(&mut self, bytes: usize) {
        self.frame_max = bytes.clamp(1, FRAME_MAX);
    }

    /// The longest frame that the kernel's route to a peer takes; a narrower way behind the first device may take less.
    ///
    /// # Errors
    /// `ENETUNREACH` and the like without a route.
    pub fn frame_max_to(peer: &SocketAddr) -> Result<usize, Errno> {
        let socket = socket::make(peer)?;
        call::connect(socket.raw(), of_socket_addr(peer).as_bytes())?;
        let (level, name, headers) = match peer {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU, HEADERS_V4),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU, HEADERS_V6),
        };
        let mtu: i32 = call::getsockopt(socket.raw(), level, name)?;
        Ok((mtu.max(0) as usize).saturating_sub(headers).clamp(1, FRAME_MAX))
    }
}

/// Hands the frames of a message to `take`; how many. `None` if it cannot be used.
fn frames_of(message: &Message<'_>, take: &mut dyn FnMut(&Address, &[u8], usize)) -> Option<usize> {
    let from = Address::Udp(message.from.filter(|_| !message.is_cut)?);
    take(&from, message.bytes, message.segment);
    Some(message.bytes.len().div_ceil(message.segment.max(1)).max(1))
}

impl Udp {
    /// Takes the messages of one socket, as many as one system call brings; how many frames they had.
    ///
    /// # Errors
    /// [`Error`].
    fn receive_from(
        &mut self,
        socket: RawFd,
        take: &mut dyn FnMut(&Address, &[u8], usize),
    ) -> Result<usize, Error> {
        let (mut frames, mut malformed) = (0, 0);
        let got = self.incoming.receive(socket, |message| match frames_of(&message, take) {
            Some(count) => frames += count,
            None => malformed += 1,
        });
        self.counters.received += frames as u64;
        self.counters.malformed += malformed;
        match got {
            // A connected socket tells that nothing has the peer's port open, which is nothing to this port.
            Ok(_) | Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => Ok(frames),
            Err(why) => Err(why.into()),
        }
    }
}

impl Port for Udp {
    fn frame_max(&self) -> usize {
        self.frame_max
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        self.outgoing.slot(self.frame_max)
    }

    fn commit(&mut self, len: usize, to: &Address) -> Result<(), Refused> {
        if len > self.frame_max {
            self.counters.refused_length += 1;
            return Err(Refused::Length);
        }
        let Address::Udp(to) = to else {
            self.counters.refused_address += 1;
            return Err(Refused::Address);
        };
        if !self.outgoing.commit(len, of_socket_addr(to)) {
            self.counters.refused_full += 1;
            return Err(Refused::Full);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<usize, Error> {
        if let Some(busy) = &mut self.busy
            && let Some(to) = self.outgoing.lone()
            && let Some(own) = busy.socket_to(&to, self.socket.raw(), &self.own)
            && self.outgoing.send_lone(own, &mut self.handed)
        {
            return Ok(0);
        }
        self.outgoing.flush(self.socket.raw(), &mut self.handed)?;
        Ok(self.outgoing.frames())
    }

    fn receive(&mut self, take: &mut dyn FnMut(&Address, &[u8])) -> Result<usize, Error> {
        self.receive_joined(&mut |from, bytes, segment| {
            if bytes.is_empty() {
                return take(from, bytes);
            }
            bytes.chunks(segment.max(1)).for_each(|frame| take(from, frame));
        })
    }

    fn receive_joined(
        &mut self,
        take: &mut dyn FnMut(&Address, &[u8], usize),
    ) -> Result<usize, Error> {
        let port = self.socket.raw();
        let latest = self.busy.as_ref().map_or(port, |busy| busy.latest(port));
        let mut frames = self.receive_from(latest, take)?;
        self.looks += 1;
        if self.looks >= LOOKS
            && let Some(busy) = &self.busy
            && !busy.is_empty()
        {
            self.looks = 0;
            let is_quiet = frames == 0;
            for socket in busy.readable(port).filter(|&socket| socket != latest) {
                let more = self.receive_from(socket, take)?;
                frames += more;
                if let Some(busy) = &mut self.busy
                    && more > 0
                    && is_quiet
                {
                    busy.brought(socket);
                }
            }
        }
        Ok(frames)
    }

    fn slept(&mut self) {
        self.looks = LOOKS;
    }

    fn check(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn descriptors(&self) -> Descriptors {
        let room = self.socket.raw();
        let frames = self.busy.as_ref().map_or(room, Busy::descriptor);
        Descriptors { frames, room, news: None }
    }

    fn counters(&mut self) -> Counters {
        self.counters.missed += socket::missed(self.socket.raw(), &mut self.missed);
        self.counters.missed += self.busy.as_mut().map_or(0, Busy::missed);
        let Handed { sent, unsendable, why } = self.handed;
        Counters { sent, unsendable, why_unsendable: why, ..self.counters }
    }

    fn describe(&self) -> String {
        let cuts = if self.outgoing.has_segments() { "UDP_SEGMENT" } else { "one message a frame" };
        let joins = if self.joins { ", UDP_GRO" } else { "" };
        format!("UDP, {}, {cuts}{joins}", self.own)
    }
}
