//! Two hosts for the ends of parts: network namespaces joined by a pair of veth devices.
//!
//! The namespaces have no names. They exist only while this process has their descriptors, so they vanish with the
//! process. The ends' processes open them below /proc.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use nix::sched::{CloneFlags, setns, unshare};
use sovia_port::{packet, udp, xdp};

use super::net::{self, DEVICE, LinkKind, Port, address};
use super::offloads;
use crate::measure::bench::task::{Role, Wait};

/// Network namespaces of the requester and of the responder.
pub(in crate::measure::bench) struct Hosts {
    namespaces: [File; 2],
}

impl Hosts {
    /// Makes the hosts.
    ///
    /// Fails if this process lacks the rights, or if there is no program `ip`.
    pub(in crate::measure::bench) fn new(kind: LinkKind) -> anyhow::Result<Self> {
        let hosts = Self { namespaces: [fresh()?, fresh()?] };
        hosts.within(Role::Requester, || {
            let mtu = kind.mtu;
            let other = hosts.path(Role::Responder);
            ip(&format!(
                "link add {DEVICE} mtu {mtu} type veth peer name {DEVICE} mtu {mtu} netns {other}"
            ))
        })?;
        for role in [Role::Requester, Role::Responder] {
            hosts.within(role, || {
                if !kind.offloads {
                    offloads::disable(DEVICE).context("cannot turn a device's offloads off")?;
                }
                ip(&format!("addr add {}/24 dev {DEVICE}", address(role)))?;
                ip("link set lo up")?;
                ip(&format!("link set {DEVICE} up"))
            })?;
        }
        Ok(hosts)
    }

    fn namespace(&self, role: Role) -> &File {
        match role {
            Role::Requester => &self.namespaces[0],
            Role::Responder => &self.namespaces[1],
        }
    }

    /// Returns the path by which other processes open the namespace of an end while this process lives.
    pub(in crate::measure::bench) fn path(&self, role: Role) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.namespace(role).as_raw_fd())
    }

    /// Checks that a port works between the hosts. The error has the reason if not.
    pub(in crate::measure::bench) fn probe(&self, port: Port) -> anyhow::Result<()> {
        self.within(Role::Requester, || {
            match port {
                Port::Udp => udp::Udp::open((address(Role::Requester), 0).into()).map(drop)?,
                Port::Eth => packet::Packet::open(&packet::Config::new(DEVICE)).map(drop)?,
                Port::Xdp => xdp::Xdp::open(&xdp::Config::new(DEVICE)).map(drop)?,
                Port::Ofi => net::open(port, Role::Requester, Wait::Poll).map(drop)?,
            }
            Ok(())
        })
    }

    /// Runs `what` in the namespace of an end, on a separate thread.
    fn within<R: Send>(
        &self,
        role: Role,
        what: impl FnOnce() -> anyhow::Result<R> + Send,
    ) -> anyhow::Result<R> {
        elsewhere(|| {
            setns(self.namespace(role), CloneFlags::CLONE_NEWNET)
                .context("cannot enter a network namespace")?;
            what()
        })
    }
}

/// Makes a network namespace.
fn fresh() -> anyhow::Result<File> {
    elsewhere(|| {
        unshare(CloneFlags::CLONE_NEWNET)
            .context("cannot make a network namespace, which takes root's rights")?;
        File::open("/proc/thread-self/ns/net").context("cannot open a network namespace")
    })
}

/// Runs `what` on a separate thread, so that this thread stays in its network namespace.
fn elsewhere<R: Send>(what: impl FnOnce() -> anyhow::Result<R> + Send) -> anyhow::Result<R> {
    std::thread::scope(|scope| match scope.spawn(what).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Runs `ip` in the network namespace of the calling thread.
fn ip(arguments: &str) -> anyhow::Result<()> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = match output {
        Ok(output) => output,
        Err(why) => bail!("cannot run the program ip (Debian's package iproute2): {why}"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {arguments}: {}", said.trim());
    Ok(())
}
