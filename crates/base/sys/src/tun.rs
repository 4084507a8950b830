//! TUN devices: a network device of the kernel's whose IP packets a process reads and writes.

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
/// `IFF_TUN`: IP packets, not Ethernet's frames.
const TUN: u16 = 0x0001;
/// `IFF_NO_PI`: nothing before the packet.
const NO_INFORMATION: u16 = 0x1000;
/// `IFF_TUN_EXCL`: an error if a device of that name exists.
const EXCLUSIVE: u16 = 0x8000;
/// Bytes of a device's name, without the zero behind it.
pub const NAME_MAX: usize = 15;

/// A TUN device, which ends with it.
#[derive(Debug)]
pub struct Tun {
    queue: Fd,
    name: [u8; NAME_MAX + 1],
}

/// `struct ifreq`: a name, and a value whose type depends on the request.
#[repr(C, align(8))]
struct Request {
    name: [u8; NAME_MAX + 1],
    value: [u8; 24],
}

/// `struct in6_ifreq`.
#[repr(C)]
struct RequestV6 {
    address: [u8; 16],
    prefix: u32,
    index: i32,
}

/// The way to the kernel's TUN devices, opened.
///
/// # Errors
/// Those of `open`: `ENOENT` and `ENODEV` where the kernel has none, `EACCES`.
pub fn open() -> Result<Fd> {
    Fd::make(|| call::open(c"/dev/net/tun", libc::O_RDWR | libc::O_CLOEXEC, 0))
}

impl Tun {
    /// Makes a device in the calling thread's network namespace. It stays there, whichever thread uses it.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN`, `EBUSY` if a device has that name, `EINVAL` for a name that no device can have.
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

    /// Sets the bytes of the longest packet. From the device's network namespace.
    ///
    /// # Errors
    /// `EINVAL` for fewer or more than the kernel takes.
    pub fn set_mtu(&self, bytes: u32) -> Result<()> {
        let socket = socket(libc::AF_INET)?;
        ask(socket.raw(), SET_MTU, self.name, &bytes.to_ne_bytes()).map(drop)
    }

    /// Gives it an address; a further one of IPv4 replaces the first. From the device's network namespace.
    ///
    /// # Errors
    /// Those of the kernel's; `EAFNOSUPPORT` where it has no IPv6.
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
        // SAFETY: on a socket of IPv6 the request reads one `struct in6_ifreq`, which lives in this frame.
        unsafe { syscalls::syscall!(Sysno::ioctl, socket.raw(), SET_ADDRESS, &raw const request) }
            .map(drop)
    }

    /// Has packets go. From the device's network namespace.
    ///
    /// # Errors
    /// Those of the kernel's.
    pub fn set_up(&self) -> Result<()> {
        let socket = socket(libc::AF_INET)?;
        let [a, b, ..] = ask(socket.raw(), GET_FLAGS, self.name, &[])?.value;
        let flags = u16::from_ne_bytes([a, b]) | libc::IFF_UP as u16;
        ask(socket.raw(), SET_FLAGS, self.name, &flags.to_ne_bytes()).map(drop)
    }

    /// Waits for a packet that the kernel sends by the device, and copies it; its length. What does not fit is cut off.
    ///
    /// # Errors
    /// `EBADFD` when the device is gone.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<usize> {
        call::read(self.queue.raw(), buffer)
    }

    /// Gives the kernel a packet, which it takes as one that the device has received.
    ///
    /// # Errors
    /// `EIO` while the device is not up, `EINVAL` for what is no IP packet, `EBADFD` when the device is gone.
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
    // SAFETY: each of these requests reads and writes one `struct ifreq`, which has this size and alignment and lives in this
    // frame; none of their values is an address.
    unsafe { syscalls::syscall!(Sysno::ioctl, fd, what, &raw mut request) }?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_no_device_can_have_is_refused() {
        for name in ["", "sixteen-letters!", "a/b", "lane%d", "a\0b"] {
            // Another descriptor: the name is looked at first.
            let way = Fd::make(|| call::eventfd(0)).unwrap();
            assert_eq!(Tun::make(way, name).err(), Some(Errno::EINVAL), "{name:?}");
        }
    }
}
