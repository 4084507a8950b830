//! Segmentation offload of a network device: controls whether the kernel passes segments or single packets.

use std::ffi::{c_int, c_ulong};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

/// `SIOCETHTOOL` and its commands: TCP segmentation by the device, and generic segmentation by the kernel just before
/// the device.
const SIOCETHTOOL: c_ulong = 0x8946;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Makes the kernel pass only single packets to a device in the calling thread's network namespace.
pub(super) fn disable(device: &str) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    for command in [ETHTOOL_STSO, ETHTOOL_SGSO] {
        set(socket.as_raw_fd(), device, Value { command, data: 0 })?;
    }
    Ok(())
}

fn set(socket: c_int, device: &str, mut value: Value) -> io::Result<()> {
    // SAFETY: all zeroes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    // The last byte must stay zero.
    let room = request.ifr_name.len() - 1;
    if device.len() > room {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request and the value that it points to are live locals, of the types that the command requires.
    let result = unsafe { libc::ioctl(socket, SIOCETHTOOL as _, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
