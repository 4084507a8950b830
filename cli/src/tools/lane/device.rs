//! The lane's network device.

use std::fs::File;
use std::os::fd::IntoRawFd;

use anyhow::{Context, anyhow, bail};
use ipnet::IpNet;
use sovia_sys::tun::{self, Tun};
use sovia_sys::{Errno, Fd, described, netns};

/// Makes the device with these addresses, in a network namespace or in the caller's.
pub(crate) fn make(
    name: &str,
    mtu: usize,
    addresses: &[IpNet],
    netns: Option<&str>,
) -> anyhow::Result<Tun> {
    if addresses.iter().filter(|address| address.addr().is_ipv4()).count() > 1 {
        bail!(
            "cannot give the device a second IPv4 address by --address; add others with `ip addr add`"
        );
    }
    let Some(namespace) = netns else { return make_here(name, mtu, addresses) };
    let namespace = open(namespace).with_context(|| format!("cannot open --netns {namespace}"))?;
    // A separate thread enters the namespace and then ends, so that the other threads stay in theirs.
    std::thread::scope(|scope| {
        let made = std::thread::Builder::new().spawn_scoped(scope, || {
            netns::enter(&namespace).map_err(|errno| match errno {
                Errno::EPERM => anyhow!("cannot enter --netns: needs CAP_SYS_ADMIN; run as root"),
                Errno::EINVAL => anyhow!("cannot enter --netns: not a network namespace"),
                errno => anyhow!("cannot enter --netns: {}", described(errno)),
            })?;
            make_here(name, mtu, addresses)
        });
        let made = made.context("cannot start a thread")?;
        made.join().unwrap_or_else(|_| bail!("cannot make the device"))
    })
}

/// Opens a namespace by its name from `ip netns`, or by its path.
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
            anyhow!("cannot make the device: /dev/net/tun is missing; run `modprobe tun`, or pass /dev/net/tun to the container")
        }
        Errno::EACCES | Errno::EPERM => {
            anyhow!("cannot open /dev/net/tun: {}; run as root", described(errno))
        }
        errno => anyhow!("cannot open /dev/net/tun: {}", described(errno)),
    })?;
    let device = Tun::make(way, name).map_err(|errno| match errno {
        Errno::EPERM => anyhow!("cannot make the device {name}: needs CAP_NET_ADMIN; run as root"),
        Errno::EBUSY | Errno::EEXIST => {
            anyhow!("cannot make the device {name}: the device exists already; choose another name with --device")
        }
        errno => anyhow!("cannot make the device {name}: {}", described(errno)),
    })?;
    let step = |what: String| move |errno| anyhow!("{name}: {what}: {}", described(errno));
    device.set_mtu(mtu as u32).map_err(step(format!("cannot set the MTU {mtu}")))?;
    device.set_up().map_err(step("cannot bring the device up".to_owned()))?;
    for address in addresses {
        let set = device.set_address(address.addr(), address.prefix_len());
        set.map_err(|errno| match errno {
            Errno::EACCES | Errno::EAFNOSUPPORT => {
                anyhow!("{name}: cannot set the address {address}: IPv6 is switched off")
            }
            errno => {
                anyhow!("{name}: cannot set the address {address}: {}", described(errno))
            }
        })?;
    }
    Ok(device)
}
