//! Lanes between the two hosts, for the papers' baseline: TCP over IP over VIs.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, ensure};
use sovia_cli::library;

use super::hosts::Hosts;
use super::net::{Net, Port, address};
use crate::measure::bench::process::{self, Process};
use crate::measure::bench::task::Role;

/// UDP port of the lanes' NICs. No other program uses it in the hosts' network namespaces.
const UDP_PORT: u16 = 7000;

/// A lane in each host, started by `sovia lane`. The lanes end when this value is dropped.
pub(super) struct Lanes {
    _both: [Process; 2],
}

impl Lanes {
    /// Starts the lanes with the network's MTU, and waits until both are up.
    pub(super) fn start(hosts: &Hosts, net: Net) -> anyhow::Result<Self> {
        let mut both = [Role::Requester, Role::Responder].map(|role| {
            let mut command = command(hosts, net, role)?;
            process::without_library(&mut command);
            Process::start(&mut command)
        });
        for lane in &mut both {
            let line = lane.as_mut().map(Process::line);
            let line = line.map_err(|why| anyhow::anyhow!("a lane cannot be started: {why:#}"))?;
            let line = line.context("a lane did not start")?;
            ensure!(line.ends_with("is up"), "a lane says: {line}");
        }
        let [requester, responder] = both;
        Ok(Self { _both: [requester?, responder?] })
    }
}

fn command(hosts: &Hosts, net: Net, role: Role) -> anyhow::Result<Command> {
    let program = library::beside("sovia-tools")?;
    let peer = match role {
        Role::Requester => Role::Responder,
        Role::Responder => Role::Requester,
    };
    let place = |role| match net.port {
        Some(port) => format!("{}:{}:{UDP_PORT}", port.name(), address(role)),
        None => format!("shm:bench-{}-{}", std::process::id(), lane_address(role)),
    };
    let namespace = hosts.path(role);
    let mut command = match net.port {
        // The NIC is in the host's namespace.
        Some(Port::Udp) => {
            let mut command = Command::new("nsenter");
            command.arg(format!("--net={namespace}")).arg(program);
            command
        }
        Some(port) => anyhow::bail!("no lanes by {} are measured", port.name()),
        // NICs in shared memory meet in this process's namespace.
        None => Command::new(program),
    };
    command.args(["lane", "up", "--device", "lane", "--netns", &namespace]);
    command.args(["--address", &format!("{}/24", lane_address(role))]);
    command.args(["--mtu", &net.link.mtu.to_string(), "--nic", &place(role)]);
    command.args(["--peer", &format!("{}={}", lane_address(peer), place(peer))]);
    Ok(command)
}

/// Returns the address of an end's lane.
pub(super) fn lane_address(role: Role) -> Ipv4Addr {
    match role {
        Role::Requester => Ipv4Addr::new(10, 91, 9, 1),
        Role::Responder => Ipv4Addr::new(10, 91, 9, 2),
    }
}
