//! The lane's network device.

use std::fs::File;
use std::os::fd::IntoRawFd;

use anyhow::{Context, anyhow, bail};
use ipnet::IpNet;
use sovia_sys::tun::{self, Tun};
use sovia_sys::{Errno, Fd, netns};

/// Makes the device, with these addresses, in a network namespace, or in that of the caller.
pub(crate) fn make(
    name: &str,
    mtu: usize,
    addresses: &[IpNet],
    netns: Option<&str>,
) -> anyhow::Result<Tun> {
    if addresses.iter().filter(|address| address.addr().is_ipv4()).count() > 1 {
        bail!("--address: the device can have one address of IPv4; add others by `ip addr add`");
    }
    let Some(namespace) = netns else { return make_here(name, mtu, addresses) };
    let namespace = open(namespace).with_context(|| format!("--netns {namespace}"))?;
    // A thread of its own enters the namespace, and ends: the others stay where they are.
    std::thread::scope(|scope| {
        let made = std::thread::Builder::new().spawn_scoped(scope, || {
            netns::enter(&namespace).map_err(|errno| match errno {
                Errno::EPERM => anyhow!("--netns needs CAP_SYS_ADMIN: run as root"),
                Errno::EINVAL => anyhow!("--netns: that is no network namespace"),
                errno => anyhow!("--netns: the namespace cannot be entered: {errno}"),
            })?;
            make_here(name, mtu, addresses)
        });
        let made = made.context("no thread can be started")?;
        made.join().unwrap_or_else(|_| bail!("the device cannot be made"))
    })
}

/// A namespace that `ip netns` has named, or one at a path.
fn open(namespace: &str) -> std::io::Result<Fd> {
    let path = if namespace.contains('/') {
        namespace.to_owned()
    } else {
        format!("/run/netns/{namespace}")
    };
    Ok(Fd::adopt(File::open(path)?.into_raw_fd()))
}

fn make_here(name: &str, mtu: usize, addresses: &[IpNet]) -> anyhow::Result<Tun> {
    let way = tun::open().map_err(|errno| match errno {
        Errno::ENOENT | Errno::ENODEV | Errno::ENXIO => {
            anyhow!("/dev/net/tun is missing: `modprobe tun`; in a container, give it that device")
        }
        errno => anyhow!("/dev/net/tun cannot be opened: {errno}"),
    })?;
    let device = Tun::make(way, name).map_err(|errno| match errno {
        Errno::EPERM => anyhow!("a network device needs CAP_NET_ADMIN: run as root"),
        Errno::EBUSY | Errno::EEXIST => {
            anyhow!("a device {name} exists already: choose another name by --device")
        }
        errno => anyhow!("the device {name} cannot be made: {errno}"),
    })?;
    let step = |what: String| move |errno| anyhow!("{name}: {what}: {errno}");
    device.set_mtu(mtu as u32).map_err(step(format!("an MTU of {mtu} cannot be set")))?;
    device.set_up().map_err(step("the device cannot be set up".to_owned()))?;
    for address in addresses {
        let set = device.set_address(address.addr(), address.prefix_len());
        set.map_err(|errno| match errno {
            Errno::EACCES | Errno::EAFNOSUPPORT => {
                anyhow!("{name}: {address} cannot be set: IPv6 is switched off")
            }
            errno => anyhow!("{name}: {address} cannot be set: {errno}"),
        })?;
    }
    Ok(device)
}
