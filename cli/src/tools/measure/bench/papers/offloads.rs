//! Whether the kernel hands a network device segments to cut, or single packets.

use std::ffi::{c_int, c_ulong};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

/// `SIOCETHTOOL`, and what it is told: TCP's segments cut by the device, and any by the kernel just before the device.
const SIOCETHTOOL: c_ulong = 0x8946;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Has every packet that a device of the calling thread's network namespace is handed be one of its own.
pub(super) fn disable(device: &str) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    for command in [ETHTOOL_STSO, ETHTOOL_SGSO] {
        set(socket.as_raw_fd(), device, Value { command, data: 0 })?;
    }
    Ok(())
}

fn set(socket: c_int, device: &str, mut value: Value) -> io::Result<()> {
    // SAFETY: an all-zero request is a valid one.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    // The last byte stays zero.
    let room = request.ifr_name.len() - 1;
    if device.len() > room {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request is a live local, and so is the value that it points to, as the command wants both.
    let result = unsafe { libc::ioctl(socket, SIOCETHTOOL as _, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
