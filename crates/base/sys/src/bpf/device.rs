//! Programs that a network device runs, and the sockets to which they pass packets.

use super::{Program, bpf};
use crate::call::{RawFd, Result};
use crate::fd::Fd;

const MAP_CREATE: usize = 0;
const MAP_UPDATE_ELEM: usize = 2;
const LINK_CREATE: usize = 28;
/// `BPF_MAP_TYPE_XSKMAP`.
const XSKMAP: u32 = 17;
/// `BPF_XDP`.
const XDP: u32 = 37;

/// Map from the numbers of receive queues to `AF_XDP` sockets, for use by programs.
#[derive(Debug)]
pub struct SocketMap(Fd);

/// Place at which the kernel runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the device's driver, before the kernel makes a packet from the received frame (`XDP_FLAGS_DRV_MODE`).
    Native,
    /// In the kernel's common code, for any device (`XDP_FLAGS_SKB_MODE`).
    Generic,
}

/// A program attached to a device, until this value is dropped or the device is removed. The end of the process
/// drops the program. But a forked child holds the program, too.
#[derive(Debug)]
pub struct Attached {
    _link: Fd,
}

/// The part of `union bpf_attr` for making a map.
#[repr(C)]
struct Create {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
}

/// The part of `union bpf_attr` for changing an entry.
#[repr(C)]
struct Update {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The part of `union bpf_attr` for attaching a program.
#[repr(C)]
struct Attach {
    program: u32,
    device: u32,
    kind: u32,
    flags: u32,
}

impl SocketMap {
    /// Makes a map for the queues with numbers below `queues`.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` and `CAP_NET_ADMIN`.
    pub fn new(queues: u32) -> Result<SocketMap> {
        let mut attributes =
            Create { kind: XSKMAP, key_size: 4, value_size: 4, entries: queues, flags: 0 };
        bpf(MAP_CREATE, &mut attributes).map(|fd| SocketMap(Fd::adopt(fd as RawFd)))
    }

    /// Returns the descriptor by which a program's instruction names the map.
    pub fn raw(&self) -> RawFd {
        self.0.raw()
    }

    /// Directs the packets of a queue to a socket, which must be bound to that queue. The entry ends with the
    /// socket.
    ///
    /// # Errors
    /// `E2BIG` if the number is too large, `EOPNOTSUPP` for another kind of socket.
    pub fn set(&self, queue: u32, socket: RawFd) -> Result<()> {
        let mut attributes = Update {
            map: self.0.raw() as u32,
            padding: 0,
            key: (&raw const queue).expose_provenance() as u64,
            value: (&raw const socket).expose_provenance() as u64,
            flags: 0,
        };
        bpf(MAP_UPDATE_ELEM, &mut attributes).map(drop)
    }
}

impl Attached {
    /// Makes a device run the program for each arriving packet. `device`: the device's index in the calling
    /// thread's network namespace.
    ///
    /// # Errors
    /// `EBUSY` or `EEXIST` if the device runs a program already; `ENODEV` if there is no such device.
    /// `EOPNOTSUPP` and others if the driver has no native mode, or none with the device's settings.
    pub fn new(program: &Program, device: u32, mode: Mode) -> Result<Attached> {
        let flags = match mode {
            Mode::Generic => 1 << 1,
            Mode::Native => 1 << 2,
        };
        let mut attributes = Attach { program: program.0.raw() as u32, device, kind: XDP, flags };
        bpf(LINK_CREATE, &mut attributes).map(|fd| Attached { _link: Fd::adopt(fd as RawFd) })
    }
}
