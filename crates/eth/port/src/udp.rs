//! A port for every user: UDP.
//!
//! Consecutive frames of one length to one destination are one datagram as far as the system call goes, and the kernel or the
//! device cuts it (`UDP_SEGMENT`); on the other side they come joined (`UDP_GRO`). So the way through the kernel, which costs
//! the same for each message however long it is, is gone once for up to 64 frames.
//!
//! Datagrams are sent with "don't fragment", and the kernel's own opinion of the path's MTU does not count
//! (`IP_PMTUDISC_PROBE`): which length arrives is for the link to find out. A datagram longer than the device's MTU is
//! refused at once ([`Counters::unsendable`]).

use crate::batch::{Handed, Incoming, Outgoing, of_socket_addr};
use crate::port::Step;
use crate::{Address, Counters, Descriptors, Error, OpenError, Port, Refused};
use core::net::SocketAddr;
use sovia_sys::{Errno, Fd, call};

/// Bytes that a frame may have: the longest payload of a datagram over IPv4.
pub const FRAME_MAX: usize = 65507;
/// Bytes of the IP and UDP headers.
const HEADERS_V4: usize = 28;
const HEADERS_V6: usize = 48;
/// The MTU that is assumed where nothing else is said.
const MTU: usize = 1500;
/// Bytes of the sockets' queues in the kernel, which halves them if it must.
const QUEUE: i32 = 4 << 20;
/// Bytes of frames between two flushes.
const BATCH: usize = 4 << 16;

const UDP_GRO: i32 = 104;
/// `SO_MEMINFO`, and where the number of dropped datagrams is in what it tells.
const MEMINFO: i32 = 55;
const DROPS: usize = 8;

/// A UDP socket.
#[derive(Debug)]
pub struct Udp {
    socket: Fd,
    own: SocketAddr,
    frame_max: usize,
    outgoing: Outgoing,
    incoming: Incoming,
    joins: bool,
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
        let socket = socket_of(&own).step("socket")?;
        let raw = socket.raw();
        let probe = libc::IP_PMTUDISC_PROBE;
        let frame_max = if own.is_ipv4() {
            call::setsockopt(raw, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &probe)
                .step("IP_MTU_DISCOVER")?;
            MTU - HEADERS_V4
        } else {
            call::setsockopt(raw, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1i32)
                .step("IPV6_V6ONLY")?;
            call::setsockopt(raw, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, &probe)
                .step("IPV6_MTU_DISCOVER")?;
            MTU - HEADERS_V6
        };
        for (force, ask) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            call::setsockopt(raw, libc::SOL_SOCKET, force, &QUEUE)
                .or_else(|_| call::setsockopt(raw, libc::SOL_SOCKET, ask, &QUEUE))
                .step("SO_RCVBUF, SO_SNDBUF")?;
        }
        let joins = call::setsockopt(raw, libc::IPPROTO_UDP, UDP_GRO, &1i32).is_ok();
        call::bind(raw, of_socket_addr(&own).as_bytes()).step("bind")?;
        let own = call::socket_name(raw, false).step("getsockname")?;
        Ok(Udp {
            socket,
            own,
            frame_max,
            outgoing: Outgoing::new(BATCH, true),
            incoming: Incoming::new(),
            joins,
            handed: Handed::default(),
            counters: Counters::default(),
            missed: 0,
        })
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
        let socket = socket_of(peer)?;
        call::connect(socket.raw(), of_socket_addr(peer).as_bytes())?;
        let (level, name, headers) = match peer {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU, HEADERS_V4),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU, HEADERS_V6),
        };
        let mtu: i32 = call::getsockopt(socket.raw(), level, name)?;
        Ok((mtu.max(0) as usize).saturating_sub(headers).clamp(1, FRAME_MAX))
    }
}

fn socket_of(address: &SocketAddr) -> Result<Fd, Errno> {
    let domain = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    Fd::make(|| call::socket(domain, kind, 0))
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
        self.outgoing.flush(self.socket.raw(), &mut self.handed)?;
        Ok(self.outgoing.frames())
    }

    fn receive(&mut self, take: &mut dyn FnMut(&Address, &[u8])) -> Result<usize, Error> {
        let (mut frames, mut malformed) = (0, 0);
        let got = self.incoming.receive(self.socket.raw(), |message| {
            let Some(from) = message.from.filter(|_| !message.is_cut) else {
                malformed += 1;
                return;
            };
            let from = Address::Udp(from);
            if message.bytes.is_empty() {
                frames += 1;
                return take(&from, &[]);
            }
            for frame in message.bytes.chunks(message.segment) {
                frames += 1;
                take(&from, frame);
            }
        });
        self.counters.received += frames as u64;
        self.counters.malformed += malformed;
        match got {
            Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => Ok(frames),
            Err(why) => Err(why.into()),
        }
    }

    fn check(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn descriptors(&self) -> Descriptors {
        Descriptors { frames: self.socket.raw(), room: self.socket.raw(), news: None }
    }

    fn counters(&mut self) -> Counters {
        if let Ok(told) = call::getsockopt::<[u32; 9]>(self.socket.raw(), libc::SOL_SOCKET, MEMINFO)
        {
            // The kernel's number is of 32 bits.
            let news = told[DROPS].wrapping_sub(self.missed);
            self.missed = told[DROPS];
            self.counters.missed += u64::from(news);
        }
        let Handed { sent, unsendable, why } = self.handed;
        Counters { sent, unsendable, why_unsendable: why, ..self.counters }
    }

    fn describe(&self) -> String {
        let cuts = if self.outgoing.has_segments() { "UDP_SEGMENT" } else { "one message a frame" };
        let joins = if self.joins { ", UDP_GRO" } else { "" };
        format!("UDP, {}, {cuts}{joins}", self.own)
    }
}
