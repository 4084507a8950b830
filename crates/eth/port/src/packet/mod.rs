//! A port on an Ethernet device, by `AF_PACKET`, for frames of one EtherType.
//!
//! **In:** the kernel copies each frame into a ring in memory that it shares with this process (`TPACKET_V2`). A
//! polling owner looks at one word. `TPACKET_V3` would pack frames of all lengths, but passes them on in blocks, so a
//! single frame would wait for a timer.
//!
//! **Out:** the kernel copies up to 64 frames in one system call, and bypasses the queueing disciplines
//! (`PACKET_QDISC_BYPASS`). The kernel also has a ring for this direction, from which the device takes frames without a
//! copy. This port does not use it. The kernel returns a slot of this ring when the packet is *orphaned*. A device may
//! orphan a packet before it reads the bytes. The driver veth does this with all packets to another network namespace.
//! A new frame in the slot would then change a frame that is still on its way.
//!
//! The port shares the device with the kernel's own traffic, and does not make the device promiscuous. Frames with
//! another EtherType never reach the port.

mod ring;

use crate::batch::{Handed, Name, Outgoing};
use crate::device::Device;
use crate::ethernet::{self, ETHER_TYPE, HEADER, Parsed};
use crate::port::Step;
use crate::{Address, Counters, Descriptors, Error, OpenError, Port, Refused};
use ring::{Ring, Slot};
use sovia_sys::{Errno, Fd, call};

/// Maximum number of frames that one call of [`Port::receive`] takes.
const BATCH: usize = 64;
/// Size of the ring, and most bytes of frames between two flushes.
const RING: usize = 4 << 20;
const OUTGOING: usize = 1 << 20;
/// Maximum number of bytes of frames that the kernel queues for the device.
const QUEUE: i32 = 4 << 20;

/// Options for opening a port.
#[derive(Debug, Clone)]
pub struct Config {
    /// The device's name.
    pub device: String,
    /// The EtherType of the frames.
    pub ether_type: u16,
    /// Capacity of each slot of the ring, in bytes, if larger than the device's MTU. The MTU can then grow up to this
    /// value.
    pub room: usize,
}

impl Config {
    /// Returns the options for a device, with [`ETHER_TYPE`] and slots for the device's current MTU.
    pub fn new(device: &str) -> Config {
        Config { device: device.to_owned(), ether_type: ETHER_TYPE, room: 0 }
    }
}

/// A packet socket.
#[derive(Debug)]
pub struct Packet {
    socket: Fd,
    device: Device,
    ether_type: u16,
    room: usize,
    ring: Ring,
    outgoing: Outgoing,
    handed: Handed,
    bypasses: bool,
    counters: Counters,
}

impl Packet {
    /// Opens a port on an Ethernet device of the calling thread's network namespace.
    ///
    /// # Errors
    /// Returns an [`OpenError`]: `EPERM` without `CAP_NET_RAW`, `ENODEV` if the device does not exist, `EMEDIUMTYPE` if
    /// it is no Ethernet device.
    pub fn open(config: &Config) -> Result<Packet, OpenError> {
        let device = Device::open(&config.device)?;
        // Without a protocol, the socket receives nothing before it is bound.
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let socket = Fd::make(|| call::socket(libc::AF_PACKET, kind, 0)).step("socket")?;
        let raw = socket.raw();
        let room = device.state.mtu.max(config.room);
        let ring = Ring::make(raw, room, RING).step("PACKET_RX_RING")?;
        let bypasses =
            call::setsockopt(raw, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32).is_ok();
        call::setsockopt(raw, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &QUEUE)
            .or_else(|_| call::setsockopt(raw, libc::SOL_SOCKET, libc::SO_SNDBUF, &QUEUE))
            .step("SO_SNDBUF")?;
        call::bind(raw, &name(config.ether_type, device.index)).step("bind")?;
        Ok(Packet {
            socket,
            device,
            ether_type: config.ether_type,
            room,
            ring,
            outgoing: Outgoing::new(OUTGOING.max(4 * (HEADER + room)), false),
            handed: Handed::default(),
            bypasses,
            counters: Counters::default(),
        })
    }

    /// Returns the device's Ethernet address, at which peers reach this port.
    pub fn own(&self) -> [u8; 6] {
        self.device.state.mac
    }
}

/// Returns a `struct sockaddr_ll`.
fn name(ether_type: u16, index: u32) -> [u8; 20] {
    let mut name = [0; 20];
    name[..2].copy_from_slice(&(libc::AF_PACKET as u16).to_ne_bytes());
    name[2..4].copy_from_slice(&ether_type.to_be_bytes());
    name[4..8].copy_from_slice(&index.to_ne_bytes());
    name
}

impl Port for Packet {
    fn frame_max(&self) -> usize {
        self.device.state.mtu.min(self.room)
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        self.outgoing.slot(HEADER + self.frame_max())?.get_mut(HEADER..)
    }

    fn commit(&mut self, len: usize, to: &Address) -> Result<(), Refused> {
        if len > self.frame_max() {
            self.counters.refused_length += 1;
            return Err(Refused::Length);
        }
        let Address::Mac(to) = to else {
            self.counters.refused_address += 1;
            return Err(Refused::Address);
        };
        let slot = self.outgoing.slot(HEADER + len);
        let Some(header) = slot.and_then(|slot| slot.first_chunk_mut()) else {
            self.counters.refused_full += 1;
            return Err(Refused::Full);
        };
        ethernet::emit(header, *to, self.device.state.mac, self.ether_type);
        // The socket is bound, so sending needs no address.
        self.outgoing.commit(HEADER + len, Name::default());
        Ok(())
    }

    fn flush(&mut self) -> Result<usize, Error> {
        let before = self.handed.unsendable;
        let flushed = self.outgoing.flush(self.socket.raw(), &mut self.handed);
        if self.handed.unsendable != before && self.handed.why == Some(Errno::EMSGSIZE) {
            self.device.look()?;
        }
        match flushed {
            Ok(()) => Ok(self.outgoing.frames()),
            Err(why) => {
                // After the device went down, the socket keeps reporting the old error even if the device is gone.
                self.device.look()?;
                Err(why.into())
            }
        }
    }

    fn receive(&mut self, take: &mut dyn FnMut(&Address, &[u8])) -> Result<usize, Error> {
        let (own, ether_type, counters) =
            (self.device.state.mac, self.ether_type, &mut self.counters);
        let before = counters.received;
        for _ in 0..BATCH {
            let came = self.ring.next(|slot| {
                let parsed = match slot {
                    Slot::Frame(frame) => ethernet::parse(frame, own, ether_type),
                    Slot::Malformed => Parsed::Malformed,
                };
                match parsed {
                    Parsed::Ours(from, payload) => {
                        counters.received += 1;
                        take(&Address::Mac(from), payload);
                    }
                    Parsed::Foreign => counters.foreign += 1,
                    Parsed::Malformed => counters.malformed += 1,
                }
            });
            if !came {
                break;
            }
        }
        Ok((counters.received - before) as usize)
    }

    fn check(&mut self) -> Result<(), Error> {
        // The socket keeps the error of a device that went down, and would stay readable forever. This call clears the
        // error.
        let _ = call::getsockopt::<i32>(self.socket.raw(), libc::SOL_SOCKET, libc::SO_ERROR);
        self.device.check()
    }

    fn descriptors(&self) -> Descriptors {
        let socket = self.socket.raw();
        Descriptors { frames: socket, room: socket, news: Some(self.device.news()) }
    }

    fn counters(&mut self) -> Counters {
        // Number of frames, and of lost frames, since the last query.
        let told = call::getsockopt::<[u32; 2]>(
            self.socket.raw(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
        );
        self.counters.missed += told.map_or(0, |[_, missed]| u64::from(missed));
        let Handed { sent, unsendable, why } = self.handed;
        Counters { sent, unsendable, why_unsendable: why, ..self.counters }
    }

    fn describe(&self) -> String {
        let bypasses = if self.bypasses { ", past queueing disciplines" } else { "" };
        format!(
            "AF_PACKET, {}, EtherType {:#06x}, a ring of {} slots{bypasses}",
            self.device.name,
            self.ether_type,
            self.ring.slots()
        )
    }
}
