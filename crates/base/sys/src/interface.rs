//! Network devices of the calling thread's network namespace: their indexes, addresses, sizes and events.

use crate::call::{Errno, RawFd, Result, Sysno};
use crate::netlink::{self, Events};
use core::net::Ipv4Addr;

/// Properties of a device that may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The device's Ethernet address.
    pub mac: [u8; 6],
    /// Number of bytes in the longest payload of a frame.
    pub mtu: usize,
    /// Set while the device is up.
    pub is_up: bool,
}

/// The kernel's `struct ifreq`: a name, and a value whose type depends on the request.
#[repr(C, align(8))]
struct Request {
    name: [u8; 16],
    value: [u8; 24],
}

/// The kernel's `struct ifconf`.
#[repr(C)]
struct List {
    bytes: i32,
    at: *mut Request,
}

const GET_LIST: usize = 0x8912;
const GET_NAME: usize = 0x8910;
const GET_FLAGS: usize = 0x8913;
const GET_MTU: usize = 0x8921;
const GET_ADDRESS: usize = 0x8927;
const GET_INDEX: usize = 0x8933;
const ETHTOOL: usize = 0x8946;
/// `ARPHRD_ETHER`.
const ETHERNET: u16 = 1;

/// Asks the kernel about devices, and receives events about changes of devices.
#[derive(Debug)]
pub struct Interfaces(Events);

impl Interfaces {
    /// Begins to receive events of the devices in the network namespace of the calling thread.
    ///
    /// # Errors
    /// Those of [`Events::join`].
    pub fn watch() -> Result<Interfaces> {
        Events::join(libc::NETLINK_ROUTE, netlink::LINKS).map(Interfaces)
    }

    /// Returns the descriptor, which is readable after a change.
    pub fn raw(&self) -> RawFd {
        self.0.raw()
    }

    /// Takes all events. Returns true if a device may have changed since the last call.
    pub fn take_events(&self) -> bool {
        self.0.take()
    }

    /// Returns the index of the device with this name. The index stays with the device, but the name may change.
    ///
    /// # Errors
    /// `ENODEV` if there is no such device.
    pub fn find(&self, name: &str) -> Result<u32> {
        let name = name_of(name.as_bytes()).ok_or(Errno::ENODEV)?;
        let [a, b, c, d, ..] = self.ask(GET_INDEX, name, [0; 24])?.value;
        Ok(u32::from_ne_bytes([a, b, c, d]))
    }

    /// Returns the state of the device with this index.
    ///
    /// # Errors
    /// `ENODEV` if the device no longer exists, `EMEDIUMTYPE` if it is no Ethernet device.
    pub fn state(&self, index: u32) -> Result<State> {
        let mut value = [0; 24];
        value[..4].copy_from_slice(&index.to_ne_bytes());
        let name = self.ask(GET_NAME, [0; 16], value)?.name;
        let [a, b, c, d, ..] = self.ask(GET_MTU, name, [0; 24])?.value;
        let mtu = u32::from_ne_bytes([a, b, c, d]) as usize;
        let [a, b, ..] = self.ask(GET_FLAGS, name, [0; 24])?.value;
        let is_up = i32::from(u16::from_ne_bytes([a, b])) & libc::IFF_UP != 0;
        let value = self.ask(GET_ADDRESS, name, [0; 24])?.value;
        if u16::from_ne_bytes([value[0], value[1]]) != ETHERNET {
            return Err(Errno::EMEDIUMTYPE);
        }
        let mut mac = [0; 6];
        mac.copy_from_slice(&value[2..8]);
        Ok(State { mac, mtu, is_up })
    }

    /// Returns the number of receive queues of the device with this index; 1 if the driver does not report the
    /// number.
    ///
    /// # Errors
    /// `ENODEV` if the device no longer exists.
    pub fn receive_queues(&self, index: u32) -> Result<u32> {
        /// `ETHTOOL_GCHANNELS`. The constants below are the indexes of `rx_count` and `combined_count` in `struct
        /// ethtool_channels`.
        const GET_CHANNELS: u32 = 0x3c;
        const RECEIVE: usize = 5;
        const COMBINED: usize = 8;
        let mut value = [0; 24];
        value[..4].copy_from_slice(&index.to_ne_bytes());
        let name = self.ask(GET_NAME, [0; 16], value)?.name;
        let mut channels = [0u32; 9];
        channels[0] = GET_CHANNELS;
        let at = core::ptr::from_mut(&mut channels).expose_provenance();
        let mut value = [0; 24];
        value[..size_of::<usize>()].copy_from_slice(&at.to_ne_bytes());
        match self.ask(ETHTOOL, name, value) {
            Ok(_) => Ok(channels[RECEIVE].saturating_add(channels[COMBINED]).max(1)),
            Err(Errno::EOPNOTSUPP) => Ok(1),
            Err(why) => Err(why),
        }
    }

    /// Returns the IPv4 addresses of devices that are up, in the order of the devices.
    ///
    /// # Errors
    /// Those of the request.
    pub fn addresses(&self) -> Result<Vec<Ipv4Addr>> {
        const MOST: usize = 256;
        let mut entries = Vec::with_capacity(MOST);
        entries.resize_with(MOST, || Request { name: [0; 16], value: [0; 24] });
        let mut list =
            List { bytes: (MOST * size_of::<Request>()) as i32, at: entries.as_mut_ptr() };
        // SAFETY: the request reads and writes one `struct ifconf`, which has this layout. The kernel writes at
        // most as many bytes of entries as the structure says, and `entries` has that many.
        unsafe { syscalls::syscall!(Sysno::ioctl, self.0.raw(), GET_LIST, &raw mut list) }?;
        entries.truncate(usize::try_from(list.bytes).unwrap_or(0) / size_of::<Request>());
        let inet = (libc::AF_INET as u16).to_ne_bytes();
        let is_up = |name| -> Result<bool> {
            let [a, b, ..] = self.ask(GET_FLAGS, name, [0; 24])?.value;
            Ok(i32::from(u16::from_ne_bytes([a, b])) & libc::IFF_UP != 0)
        };
        let mut addresses = Vec::new();
        for Request { name, value } in entries {
            let [a, b, _, _, address @ ..] = value;
            if [a, b] == inet && is_up(name).unwrap_or(false) {
                let [a, b, c, d, ..] = address;
                addresses.push(Ipv4Addr::new(a, b, c, d));
            }
        }
        Ok(addresses)
    }

    fn ask(&self, what: usize, name: [u8; 16], value: [u8; 24]) -> Result<Request> {
        let mut request = Request { name, value };
        // SAFETY: each of these requests reads and writes one `struct ifreq`, which has this size and alignment.
        // For ETHTOOL, the value holds the address of a `struct ethtool_channels`, which lives in the caller's
        // frame.
        unsafe { syscalls::syscall!(Sysno::ioctl, self.0.raw(), what, &raw mut request) }?;
        Ok(request)
    }
}

/// Returns the name with a zero after it; `None` if the name is too long.
fn name_of(name: &[u8]) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    bytes[..15].get_mut(..name.len())?.copy_from_slice(name);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_an_address() {
        let addresses = Interfaces::watch().unwrap().addresses().unwrap();
        assert!(addresses.contains(&Ipv4Addr::LOCALHOST), "{addresses:?}");
    }

    #[test]
    fn loopback_is_a_device_but_no_ethernet() {
        let interfaces = Interfaces::watch().unwrap();
        let index = interfaces.find("lo").unwrap();
        assert_eq!(interfaces.state(index), Err(Errno::EMEDIUMTYPE));
    }

    #[test]
    fn device_that_does_not_exist_is_an_error() {
        let interfaces = Interfaces::watch().unwrap();
        assert_eq!(interfaces.find("no-such-device"), Err(Errno::ENODEV));
        assert_eq!(interfaces.find("a name that is too long"), Err(Errno::ENODEV));
        assert_eq!(interfaces.state(u32::MAX), Err(Errno::ENODEV));
    }
}
