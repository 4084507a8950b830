//! Programs that a network device runs, and the sockets that they give packets to.

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

/// A map from numbers of receive queues to `AF_XDP` sockets, for programs.
#[derive(Debug)]
pub struct SocketMap(Fd);

/// Who runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The device's driver, before the kernel makes a packet of what has come (`XDP_FLAGS_DRV_MODE`).
    Native,
    /// The kernel, on any device (`XDP_FLAGS_SKB_MODE`).
    Generic,
}

/// A program on a device, until it is dropped or the device has gone. A process that ends drops it; a forked child holds it as
/// well.
#[derive(Debug)]
pub struct Attached {
    _link: Fd,
}

/// The part of `union bpf_attr` that making a map takes.
#[repr(C)]
struct Create {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
}

/// The part that changing an entry takes.
#[repr(C)]
struct Update {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The part that attaching takes.
#[repr(C)]
struct Attach {
    program: u32,
    device: u32,
    kind: u32,
    flags: u32,
}

impl SocketMap {
    /// A map for the queues with numbers below `queues`.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` and `CAP_NET_ADMIN`.
    pub fn new(queues: u32) -> Result<SocketMap> {
        let mut attributes =
            Create { kind: XSKMAP, key_size: 4, value_size: 4, entries: queues, flags: 0 };
        bpf(MAP_CREATE, &mut attributes).map(|fd| SocketMap(Fd::adopt(fd as RawFd)))
    }

    /// The descriptor by which a program's instruction names the map.
    pub fn raw(&self) -> RawFd {
        self.0.raw()
    }

    /// Has the packets of a queue go to a socket, which is bound to that queue. The entry ends with the socket.
    ///
    /// # Errors
    /// `E2BIG` for a number that is too large, `EOPNOTSUPP` for a socket of another kind.
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
    /// Has the device with that number, in the network namespace of the calling thread, run the program for each packet that
    /// comes.
    ///
    /// # Errors
    /// `EBUSY` or `EEXIST` where the device runs a program already; `EOPNOTSUPP` and others where the driver has no native mode,
    /// or not with the device's settings; `ENODEV`.
    pub fn new(program: &Program, device: u32, mode: Mode) -> Result<Attached> {
        let flags = match mode {
            Mode::Generic => 1 << 1,
            Mode::Native => 1 << 2,
        };
        let mut attributes = Attach { program: program.0.raw() as u32, device, kind: XDP, flags };
        bpf(LINK_CREATE, &mut attributes).map(|fd| Attached { _link: Fd::adopt(fd as RawFd) })
    }
}
