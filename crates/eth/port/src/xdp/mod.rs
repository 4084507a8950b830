//! A port on an Ethernet device, by `AF_XDP`, for frames of one EtherType.
//!
//! The device runs a program of fifteen instructions for each incoming frame. The program passes frames of the
//! EtherType to this port's sockets, and all other frames to the kernel. The frames lie in memory that the kernel
//! shares with this process (*chunks*, whose addresses travel in rings). The kernel's network stack, including packet
//! sockets, does not see these frames.
//!
//! **In:** a frame is read where the driver or the kernel put it. A polling owner looks at one word. **Out:** a frame
//! is written once, into a chunk. The driver sends from the chunk, or the kernel copies the frame. The port makes a
//! system call when the kernel requests one (`XDP_USE_NEED_WAKEUP`). A driver that uses the chunks itself finds new
//! frames on its own. Other drivers need a system call for each 32 frames. [`Port::describe`] returns the mode:
//!
//! - *native*: the driver runs the program. *generic*: the kernel runs the program, after it has made a packet. The
//!   port tries native mode first;
//! - *zero-copy*: the driver uses the chunks. *copied*: the kernel copies frames from and to the chunks.
//!
//! A device distributes incoming frames among its receive queues. Each queue has a socket, and all sockets share the
//! chunks. Frames of different queues may overtake each other. The first socket sends all frames. Queues that a device
//! gets later (`ethtool -L`) deliver nothing to the port.
//!
//! The program belongs to a BPF link (`BPF_LINK_CREATE`). The link ends with the port, also when the process is killed.
//! A device can have only one such program, so a second port on the device is refused. A driver may reset the device
//! and its carrier when a program is added or removed.
//!
//! # Why no crate
//!
//! The crate aya (MIT or Apache-2.0, well maintained) loads programs from ELF files, which need a second compiler. Our
//! table of instructions is shorter than such a build. Of the crates for the rings, xdpilone has a licence that we do
//! not accept (EUPL). The crate xsk-rs builds libxdp and libbpf, in C. All of them make system calls through libc's
//! symbols. Sovia interposes these symbols in a program that runs under Sovia. The module `sovia_sys::bpf` loads this
//! program, and also the agent's programs.

mod program;
mod queue;
mod ring;

use crate::device::Device;
use crate::ethernet::{self, ETHER_TYPE, HEADER, Parsed};
use crate::port::Step;
use crate::{Address, Counters, Descriptors, Error, OpenError, Port, Refused};
use queue::{Copies, Out, Queue};
use ring::{Chunks, HEADROOM};
use sovia_sys::bpf::{Attached, Mode, Program, SocketMap};
use sovia_sys::call::RawFd;
use sovia_sys::{Errno, Fd, call, poll};

/// Maximum number of frames that one call of [`Port::receive`] takes from a queue.
const BATCH: usize = 64;
/// Smallest and largest size of a chunk in bytes. The kernel accepts powers of two in this range.
const CHUNK_MIN: usize = 2048;
const CHUNK_MAX: usize = 4096;
/// Number of chunks for incoming frames: for all queues, and minimum and maximum for each queue. Then the number of
/// chunks for outgoing frames.
const INCOMING: usize = 8192;
const INCOMING_MIN: usize = 512;
const INCOMING_MAX: usize = 2048;
const OUTGOING: usize = 512;

/// Options for opening a port.
#[derive(Debug, Clone)]
pub struct Config {
    /// The device's name.
    pub device: String,
    /// The EtherType of the frames.
    pub ether_type: u16,
    /// Capacity of each chunk, in bytes, if larger than the device's MTU. The MTU can then grow up to this value. The
    /// limit is 3826 bytes.
    pub room: usize,
    /// Set to skip native mode, for example if a driver's native mode has a defect.
    pub generic: bool,
}

impl Config {
    /// Returns the options for a device, with [`ETHER_TYPE`] and chunks for the device's current MTU.
    pub fn new(device: &str) -> Config {
        Config { device: device.to_owned(), ether_type: ETHER_TYPE, room: 0, generic: false }
    }
}

/// `AF_XDP` sockets, one for each receive queue of a device.
#[derive(Debug)]
pub struct Xdp {
    /// Field order matters: this field is dropped first, and from then on frames go to the kernel.
    _attached: Attached,
    device: Device,
    ether_type: u16,
    /// Maximum number of bytes of a frame, whatever the MTU.
    room: usize,
    queues: Vec<Queue>,
    /// Readable when any queue has frames; `None` if there is only one queue.
    any: Option<Fd>,
    out: Out,
    chunks: Chunks,
    mode: Mode,
    is_zero_copy: bool,
    counters: Counters,
}

impl Xdp {
    /// Opens a port on an Ethernet device of the calling thread's network namespace.
    ///
    /// # Errors
    /// Returns an [`OpenError`] with one of these reasons, among others:
    ///
    /// - `EPERM`: the process lacks `CAP_NET_RAW`, `CAP_NET_ADMIN` or `CAP_BPF`;
    /// - `ENODEV`: the device does not exist;
    /// - `EMEDIUMTYPE`: the device is no Ethernet device;
    /// - `EBUSY`: another port or program uses the device;
    /// - `ENOBUFS`: the process may not lock enough memory.
    pub fn open(config: &Config) -> Result<Xdp, OpenError> {
        let device = Device::open(&config.device)?;
        let count =
            device.receive_queues().step("cannot count the device's receive queues")? as usize;
        let room = device.state.mtu.max(config.room).min(CHUNK_MAX - HEADROOM - HEADER);
        let size = (HEADROOM + HEADER + room).next_power_of_two().max(CHUNK_MIN);
        let each = (INCOMING / count).clamp(INCOMING_MIN, INCOMING_MAX + 1).next_power_of_two();
        let each = each.min(INCOMING_MAX);
        let (chunks, mut free) =
            Chunks::make(size, OUTGOING + count * each).step("cannot make memory for frames")?;

        let mut queues = Vec::with_capacity(count);
        for _ in 0..count {
            let into = free.split_off(free.len() - each);
            queues.push(Queue::make(into).map_err(OpenError::from)?);
        }
        let out = queues[0].out(free).map_err(OpenError::from)?;
        chunks.register(queues[0].raw()).step("XDP_UMEM_REG")?;
        for queue in &queues[1..] {
            queue.sends_nothing().map_err(OpenError::from)?;
        }

        let sockets =
            SocketMap::new(count as u32).step("cannot make a map of sockets (BPF_MAP_CREATE)")?;
        let code = program::code(config.ether_type, &sockets);
        let program =
            Program::load_for_device(&code).step("cannot load the XDP program (BPF_PROG_LOAD)")?;
        let (attached, mode) = attach(&program, device.index, config.generic).map_err(|why| {
            let what = match why {
                Errno::EBUSY | Errno::EEXIST => "another port or program has the device (XDP)",
                _ => "cannot attach the XDP program to the device (BPF_LINK_CREATE)",
            };
            OpenError { what, why }
        })?;
        let copies = if mode == Mode::Native { Copies::IfItMust } else { Copies::Always };
        for (number, queue) in queues.iter().enumerate() {
            let shares = (number > 0).then(|| queues[0].raw());
            queue.bind(device.index, number as u32, copies, shares).map_err(|why| {
                let what = match why {
                    Errno::EBUSY => "another program has an AF_XDP socket on the device",
                    _ => "cannot bind a socket to a queue",
                };
                OpenError { what, why }
            })?;
            sockets
                .set(number as u32, queue.raw())
                .step("cannot add a socket to the map of sockets")?;
        }
        let any = if count > 1 { Some(any_of(&queues).step("epoll")?) } else { None };
        Ok(Xdp {
            _attached: attached,
            device,
            ether_type: config.ether_type,
            room,
            is_zero_copy: queues.iter().all(Queue::is_zero_copy),
            queues,
            any,
            out,
            chunks,
            mode,
            counters: Counters::default(),
        })
    }

    /// Returns the device's Ethernet address, at which peers reach this port.
    pub fn own(&self) -> [u8; 6] {
        self.device.state.mac
    }

    /// Returns the socket that sends frames.
    fn sender(&self) -> RawFd {
        self.queues[0].raw()
    }

    /// Counts frames that the kernel has taken since the last call. Returns the number of frames left, and the number
    /// taken.
    fn count_taken(&mut self) -> (u32, u32) {
        let (left, taken) = self.out.left_and_taken();
        self.counters.sent += u64::from(taken);
        (left, taken)
    }
}

impl From<(&'static str, Errno)> for OpenError {
    fn from((what, why): (&'static str, Errno)) -> OpenError {
        OpenError { what, why }
    }
}

/// Attaches the program to the device, in native mode if the driver can.
fn attach(program: &Program, device: u32, generic: bool) -> sovia_sys::Result<(Attached, Mode)> {
    if !generic {
        match Attached::new(program, device, Mode::Native) {
            Ok(attached) => return Ok((attached, Mode::Native)),
            Err(why @ (Errno::EBUSY | Errno::EEXIST | Errno::EPERM | Errno::ENODEV)) => {
                return Err(why);
            }
            // The driver cannot use native mode, or not with this MTU, these offloads or this number of queues.
            Err(_) => {}
        }
    }
    Attached::new(program, device, Mode::Generic).map(|attached| (attached, Mode::Generic))
}

/// Returns a descriptor that is readable while any of the sockets is.
fn any_of(queues: &[Queue]) -> sovia_sys::Result<Fd> {
    let any = Fd::make(poll::epoll_create)?;
    for queue in queues {
        poll::epoll_ctl(any.raw(), libc::EPOLL_CTL_ADD, queue.raw(), libc::EPOLLIN as u32, 0)?;
    }
    Ok(any)
}

impl Port for Xdp {
    fn frame_max(&self) -> usize {
        self.device.state.mtu.min(self.room)
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        let end = HEADER + self.frame_max();
        let chunk = self.out.slot(&self.chunks)?;
        self.chunks.bytes(chunk).get_mut(HEADER..end)
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
        let chunk = self.out.slot(&self.chunks);
        let Some(header) = chunk.and_then(|chunk| self.chunks.bytes(chunk).first_chunk_mut())
        else {
            self.counters.refused_full += 1;
            return Err(Refused::Full);
        };
        ethernet::emit(header, *to, self.device.state.mac, self.ether_type);
        self.out.commit(HEADER + len);
        Ok(())
    }

    fn flush(&mut self) -> Result<usize, Error> {
        self.out.publish();
        let (mut left, _) = self.count_taken();
        while left > 0 && self.out.wants_wakeup() {
            let woken = call::send_to(self.sender(), &[], libc::MSG_DONTWAIT, &[]);
            let (now_left, taken) = self.count_taken();
            left = now_left;
            match woken {
                // The device has dropped one of the frames that it had taken.
                Err(why @ Errno::EBUSY) if taken > 0 => {
                    self.counters.sent -= 1;
                    self.counters.unsendable += 1;
                    self.counters.why_unsendable = Some(why);
                }
                Err(why @ (Errno::ENETDOWN | Errno::ENXIO | Errno::ENODEV)) => {
                    self.device.look()?;
                    return Err(why.into());
                }
                // The call took as many frames as one call can, or as memory and room allowed.
                _ => {}
            }
            if taken == 0 {
                break;
            }
        }
        self.out.take_back(&self.chunks);
        // A driver that uses the chunks itself takes the other frames without a system call.
        let waits = !self.is_zero_copy || !self.out.has_room();
        Ok(if waits { left as usize } else { 0 })
    }

    fn receive(&mut self, take: &mut dyn FnMut(&Address, &[u8])) -> Result<usize, Error> {
        let (own, ether_type) = (self.device.state.mac, self.ether_type);
        let counters = &mut self.counters;
        let before = counters.received;
        for queue in &mut self.queues {
            for _ in 0..BATCH {
                let Some(came) = queue.next(&self.chunks) else { break };
                let Ok(came) = came else {
                    counters.malformed += 1;
                    continue;
                };
                match ethernet::parse(self.chunks.frame(&came), own, ether_type) {
                    Parsed::Ours(from, payload) => {
                        counters.received += 1;
                        take(&Address::Mac(from), payload);
                    }
                    Parsed::Foreign => counters.foreign += 1,
                    Parsed::Malformed => counters.malformed += 1,
                }
                queue.give_back(came);
            }
            queue.end_batch();
        }
        Ok((counters.received - before) as usize)
    }

    fn check(&mut self) -> Result<(), Error> {
        // A socket keeps the error of a device that is gone, and would stay readable forever. This call clears the
        // error.
        for queue in &self.queues {
            let _ = call::getsockopt::<i32>(queue.raw(), libc::SOL_SOCKET, libc::SO_ERROR);
        }
        self.device.check()
    }

    fn descriptors(&self) -> Descriptors {
        Descriptors {
            frames: self.any.as_ref().map_or(self.sender(), Fd::raw),
            room: self.sender(),
            news: Some(self.device.news()),
        }
    }

    fn counters(&mut self) -> Counters {
        // Each socket counts from its creation.
        self.counters.missed = self.queues.iter().map(Queue::missed).sum();
        self.count_taken();
        self.counters
    }

    fn describe(&self) -> String {
        let mode = match self.mode {
            Mode::Native => "native",
            Mode::Generic => "generic",
        };
        let copies = if self.is_zero_copy { "zero-copy" } else { "copied" };
        format!(
            "AF_XDP, {}, EtherType {:#06x}, {mode}, {copies}, receive queues: {}",
            self.device.name,
            self.ether_type,
            self.queues.len()
        )
    }
}
