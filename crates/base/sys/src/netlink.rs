//! Events that the kernel reports to groups of netlink sockets (netlink(7)).

use crate::call::{self, Errno, RawFd, Result};
use crate::fd::Fd;

/// Group of `NETLINK_ROUTE` for devices.
pub const LINKS: u32 = 1;
/// Group of `NETLINK_ROUTE` for queueing disciplines and their filters.
pub const TRAFFIC_CONTROL: u32 = 1 << 3;
/// Group of `NETLINK_NETFILTER` for changes of nftables' rule set.
pub const NFTABLES: u32 = 1 << 6;

/// A netlink socket that receives the events of some groups.
#[derive(Debug)]
pub struct Events(Fd);

impl Events {
    /// Joins groups of a protocol in the calling thread's network namespace. `groups` is a mask.
    ///
    /// # Errors
    /// Those of `socket` and `bind`, such as `EPERM` for groups of `NETLINK_NETFILTER` without `CAP_NET_ADMIN`.
    pub fn join(protocol: i32, groups: u32) -> Result<Events> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let socket = Fd::make(|| call::socket(libc::AF_NETLINK, kind, protocol))?;
        let mut address = [0; 12];
        address[..2].copy_from_slice(&(libc::AF_NETLINK as u16).to_ne_bytes());
        address[8..].copy_from_slice(&groups.to_ne_bytes());
        call::bind(socket.raw(), &address)?;
        Ok(Events(socket))
    }

    /// Returns the descriptor, which is readable after an event.
    pub fn raw(&self) -> RawFd {
        self.0.raw()
    }

    /// Takes all events. Returns true if there may have been events since the last call.
    pub fn take(&self) -> bool {
        let mut any = false;
        loop {
            // A truncated message still reports an event.
            match call::recv(self.0.raw(), &mut [0; 64], libc::MSG_DONTWAIT) {
                Err(Errno::EAGAIN) => return any,
                Err(Errno::EINTR) => {}
                // ENOBUFS: there were so many events that the kernel has dropped some.
                Ok(_) | Err(Errno::ENOBUFS) => any = true,
                Err(_) => return true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_join_groups_without_events_of_earlier_changes() {
        for (protocol, groups) in
            [(libc::NETLINK_NETFILTER, NFTABLES), (libc::NETLINK_ROUTE, LINKS | TRAFFIC_CONTROL)]
        {
            match Events::join(protocol, groups) {
                Ok(events) => assert!(!events.take()),
                Err(error) => {
                    assert!(matches!(error, Errno::EPERM | Errno::EPROTONOSUPPORT), "{error}");
                    println!("SKIPPED: events of netlink protocol {protocol}: {error}");
                }
            }
        }
    }
}
