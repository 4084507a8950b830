//! Two hosts: network namespaces of this process, joined by a pair of devices.

use sovia_sys::{Fd, netns};
use std::process::Command;
use std::thread;

/// The network namespaces of the server and of the client.
pub(crate) struct Hosts([Fd; 2]);

/// Runs `ip`. An error has its output.
fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|why| format!("the program ip: {why}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {said}")) }
}

/// Runs `work` on a thread of its own, so that a change of the network namespace ends with the thread.
fn elsewhere<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|s| s.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

impl Hosts {
    /// Makes both hosts.
    pub(crate) fn make() -> Result<Hosts, String> {
        let fresh = || elsewhere(|| netns::fresh().and_then(|()| netns::current()));
        let fresh = || fresh().map_err(|why| format!("no network namespace can be made: {why}"));
        let hosts = Hosts([fresh()?, fresh()?]);
        let other = format!("/proc/{}/fd/{}", std::process::id(), hosts.0[1].raw());
        hosts.at(0, || ip(&format!("link add way type veth peer name way netns {other}")))?;
        for (host, address) in [(0, "10.0.0.1"), (1, "10.0.0.2")] {
            hosts.at(host, || {
                ip(&format!("addr add {address}/24 dev way"))?;
                ip("link set way up")
            })?;
        }
        Ok(hosts)
    }

    /// Moves the calling thread to a host.
    pub(crate) fn enter(&self, host: usize) {
        netns::enter(&self.0[host]).expect("a namespace of this process's");
    }

    /// Runs `work` on a host.
    pub(crate) fn at<R: Send>(&self, host: usize, work: impl FnOnce() -> R + Send) -> R {
        elsewhere(|| {
            self.enter(host);
            work()
        })
    }
}
