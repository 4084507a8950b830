//! A port by UDP, which needs no privilege.
//!
//! Consecutive frames of one length to one destination form one datagram for the system call. The kernel or the device
//! cuts this datagram (`UDP_SEGMENT`), and the receiver's kernel joins the pieces again (`UDP_GRO`). The cost of a
//! datagram in the kernel hardly depends on its length, so up to 64 frames share this cost.
//!
//! Datagrams have the "don't fragment" bit, and the kernel's estimate of the path MTU does not apply
//! (`IP_PMTUDISC_PROBE`). The layer above (`link`) finds out which length arrives. The kernel refuses a datagram longer
//! than the device's MTU at once ([`Counters::unsendable`]).
//!
//! A peer with which the port often exchanges lone frames gets a separate socket (`busy`). For a connected socket, the
//! kernel need not look up the route of each frame.

mod busy;
mod socket;

use crate::batch::{Handed, Incoming, Message, Outgoing, of_socket_addr};
use crate::port::Step;
use crate::{Address, Counters, Descriptors, Error, OpenError, Port, Refused};
use busy::Busy;
use core::net::SocketAddr;
use sovia_sys::call::RawFd;
use sovia_sys::{Errno, Fd, call};

/// Length of the longest frame: the largest payload of a datagram over IPv4.
pub const FRAME_MAX: usize = 65507;
/// Length of the IP and UDP headers.
const HEADERS_V4: usize = 28;
const HEADERS_V6: usize = 48;
/// The default MTU.
const MTU: usize = 1500;
/// Maximum number of bytes of frames between two flushes.
const BATCH: usize = 4 << 16;

/// One of this number of calls looks at all sockets. The other calls look only at the socket that received the last
/// frames.
const LOOKS: u32 = 16;

/// A UDP socket.
#[derive(Debug)]
pub struct Udp {
    /// Receives the datagrams of peers without a connected socket.
    socket: Fd,
    own: SocketAddr,
    frame_max: usize,
    outgoing: Outgoing,
    incoming: Incoming,
    joins: bool,
    busy: Option<Busy>,
    /// Number of looks since the last look at all sockets.
    looks: u32,
    handed: Handed,
    counters: Counters,
    /// The kernel's last count of dropped datagrams.
    missed: u32,
}

impl Udp {
    /// Opens a port bound to `own`. Port 0 selects a free port. Frames must fit into an MTU of 1500 bytes until
    /// [`set_frame_max`](Udp::set_frame_max) changes the limit.
    ///
    /// # Errors
    /// Returns an [`OpenError`] if the address does not belong to this host, or is in use.
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

    /// Gives busy peers separate sockets from now on. Call it before the port's descriptors are first used. An owner
    /// that sleeps must call [`Port::slept`].
    ///
    /// # Errors
    /// Returns an [`OpenError`] if no descriptors are left.
    pub fn connect_busy_peers(&mut self) -> Result<(), OpenError> {
        self.busy = Some(Busy::new(self.socket.raw(), &self.own).step("epoll")?);
        Ok(())
    }

    /// Returns the address to which the port is bound.
    pub fn own(&self) -> SocketAddr {
        self.own
    }

    /// Sets the length of the longest frame, from 1 to [`FRAME_MAX`] bytes. The paths to all peers must carry this
    /// length.
    pub fn set_frame_max(&mut self, bytes: usize) {
        self.frame_max = bytes.clamp(1, FRAME_MAX);
    }

    /// Returns the longest frame for the kernel's route to a peer. A narrower link after the first device may carry
    /// less.
    ///
    /// # Errors
    /// Returns an error such as `ENETUNREACH` if no route exists.
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

/// Passes the frames of a message to `take`, and returns their number; `None` if the message is unusable.
fn frames_of(message: &Message<'_>, take: &mut dyn FnMut(&Address, &[u8], usize)) -> Option<usize> {
    let from = Address::Udp(message.from.filter(|_| !message.is_cut)?);
    take(&from, message.bytes, message.segment);
    Some(message.bytes.len().div_ceil(message.segment.max(1)).max(1))
}

impl Udp {
    /// Receives the messages of one system call from one socket, and returns their number of frames.
    ///
    /// Returns an [`Error`].
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
            // `ECONNREFUSED` on a connected socket only says that no socket is bound to the peer's port.
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
