//! TUN devices: network devices of the kernel, whose IP packets a process reads and writes.

use crate::call::{self, Errno, RawFd, Result, Sysno};
use crate::fd::Fd;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SET_DEVICE: usize = 0x4004_54ca;
const GET_FLAGS: usize = 0x8913;
const SET_FLAGS: usize = 0x8914;
const SET_ADDRESS: usize = 0x8916;
const SET_NETMASK: usize = 0x891c;
const SET_MTU: usize = 0x8922;
const GET_INDEX: usize = 0x8933;
/// `IFF_TUN`: IP packets instead of Ethernet frames.
const TUN: u16 = 0x0001;
/// `IFF_NO_PI`: no header before the packet.
const NO_INFORMATION: u16 = 0x1000;
/// `IFF_TUN_EXCL`: an error if a device with that name exists.
const EXCLUSIVE: u16 = 0x8000;
/// Number of bytes in a device's longest name, without the zero after it.
pub const NAME_MAX: usize = 15;

/// A TUN device, which is removed when this value is dropped.
#[derive(Debug)]
pub struct Tun {
    queue: Fd,
    name: [u8; NAME_MAX + 1],
}

/// The kernel's `struct ifreq`: a name, and a value whose type depends on the request.
#[repr(C, align(8))]
struct Request {
    name: [u8; NAME_MAX + 1],
    value: [u8; 24],
}

/// The kernel's `struct in6_ifreq`.
#[repr(C)]
struct RequestV6 {
    address: [u8; 16],
    prefix: u32,
    index: i32,
}

/// Opens the kernel's file for making TUN devices.
///
/// # Errors
/// Those of `open`, such as `ENOENT` and `ENODEV` if the kernel does not support TUN, or `EACCES`.
pub fn open() -> Result<Fd> {
    Fd::make(|| call::open(c"/dev/net/tun", libc::O_RDWR | libc::O_CLOEXEC, 0))
}

impl Tun {
    /// Makes a device in the calling thread's network namespace. The device stays there, whichever thread uses
    /// it.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN`, `EBUSY` if a device has this name, `EINVAL` for an invalid name.
    pub fn make(way: Fd, name: &str) -> Result<Tun> {
        let mut bytes = [0; NAME_MAX + 1];
        let room = bytes[..NAME_MAX].get_mut(..name.len()).ok_or(Errno::EINVAL)?;
        room.copy_from_slice(name.as_bytes());
        if name.is_empty() || name.contains(['%', '/', '\0']) {
            return Err(Errno::EINVAL);
        }
        let flags = TUN | NO_INFORMATION | EXCLUSIVE;
        ask(way.raw(), SET_DEVICE, bytes, &flags.to_ne_bytes())?;
        Ok(Tun { queue: way, name: bytes })
    }

    /// Sets the length of the longest packet in bytes. Call this in the device's network namespace.
    ///
    /// # Errors
    /// `EINVAL` if the kernel accepts no such length.
    pub fn set_mtu(&self, bytes: u32) -> Result<()> {
        let socket = socket(libc::AF_INET)?;
        ask(socket.raw(), SET_MTU, self.name, &bytes.to_ne_bytes()).map(drop)
    }

    /// Gives the device an address. A second IPv4 address replaces the first. Call this in the device's network
    /// namespace.
    ///
    /// # Errors
    /// Those of the kernel; `EAFNOSUPPORT` if the kernel has no IPv6.
    pub fn set_address(&self, address: IpAddr, prefix: u8) -> Result<()> {
        match address {
            IpAddr::V4(address) => self.set_v4(address, prefix),
            IpAddr::V6(address) => self.set_v6(address, prefix),
        }
    }

    fn set_v4(&self, address: Ipv4Addr, prefix: u8) -> Result<()> {
        let socket = socket(libc::AF_INET)?;
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
        let place = |ip: [u8; 4]| {
            let mut bytes = [0; 8];
            bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[4..].copy_from_slice(&ip);
            bytes
        };
        ask(socket.raw(), SET_ADDRESS, self.name, &place(address.octets()))?;
        ask(socket.raw(), SET_NETMASK, self.name, &place(mask.to_be_bytes())).map(drop)
    }

    fn set_v6(&self, address: Ipv6Addr, prefix: u8) -> Result<()> {
        let socket = socket(libc::AF_INET6)?;
        let index = ask(socket.raw(), GET_INDEX, self.name, &[])?;
        let [a, b, c, d, ..] = index.value;
        let request = RequestV6 {
            address: address.octets(),
            prefix: prefix.into(),
            index: i32::from_ne_bytes([a, b, c, d]),
        };
        // SAFETY: on an IPv6 socket the request reads one `struct in6_ifreq`, which lives in this frame.
        unsafe { syscalls::syscall!(Sysno::ioctl, socket.raw(), SET_ADDRESS, &raw const request) }
            .map(drop)
    }

    /// Sets the device up, so that it passes packets. Call this in the device's network namespace.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn set_up(&self) -> Result<()> {
        let socket = socket(libc::AF_INET)?;
        let [a, b, ..] = ask(socket.raw(), GET_FLAGS, self.name, &[])?.value;
        let flags = u16::from_ne_bytes([a, b]) | libc::IFF_UP as u16;
        ask(socket.raw(), SET_FLAGS, self.name, &flags.to_ne_bytes()).map(drop)
    }

    /// Waits for a packet that the kernel sends through the device, copies it into `buffer` and returns its
    /// length. Bytes that do not fit are cut off.
    ///
    /// # Errors
    /// `EBADFD` if the device no longer exists.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<usize> {
        call::read(self.queue.raw(), buffer)
    }

    /// Passes a packet to the kernel, as if the device had received the packet.
    ///
    /// # Errors
    /// `EIO` while the device is down, `EINVAL` if the packet is no IP packet, `EBADFD` if the device no longer
    /// exists.
    pub fn send(&self, packet: &[u8]) -> Result<()> {
        call::write(self.queue.raw(), packet).map(drop)
    }
}

fn socket(domain: i32) -> Result<Fd> {
    Fd::make(|| call::socket(domain, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))
}

fn ask(fd: RawFd, what: usize, name: [u8; NAME_MAX + 1], value: &[u8]) -> Result<Request> {
    let mut request = Request { name, value: [0; 24] };
    request.value[..value.len()].copy_from_slice(value);
    // SAFETY: each of these requests reads and writes one `struct ifreq`, which has this size and alignment and
    // lives in this frame. None of the values is an address.
    unsafe { syscalls::syscall!(Sysno::ioctl, fd, what, &raw mut request) }?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_no_device_can_have_is_refused() {
        for name in ["", "sixteen-letters!", "a/b", "lane%d", "a\0b"] {
            // The descriptor is of the wrong kind, but `make` checks the name first.
            let way = Fd::make(|| call::eventfd(0)).unwrap();
            assert_eq!(Tun::make(way, name).err(), Some(Errno::EINVAL), "{name:?}");
        }
    }
}
