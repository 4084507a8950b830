//! Network namespaces that are joined like two hosts by a cable, or like several by a switch; and an agent.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::workspace::{TempDir, sovia};

/// Network namespaces, which are removed with this value.
#[derive(Debug)]
pub struct Hosts {
    names: Vec<String>,
    /// Network namespace of the switch, if there is one.
    switch: Option<String>,
}

impl Hosts {
    /// Addresses of the hosts in each set of namespaces.
    pub const ADDRESSES: [&str; 4] = ["10.91.7.2", "10.91.7.3", "10.91.7.4", "10.91.7.5"];

    /// Makes two hosts on a cable. Returns `None` if this process may make none.
    ///
    /// # Panics
    /// If the devices cannot be made.
    pub fn new() -> Option<Self> {
        let hosts = Self::named(2, None)?;
        let [a, b] = [0, 1].map(|which| hosts.name(which));
        done(&format!("link add way netns {a} type veth peer name way netns {b}"));
        Some(hosts.with_addresses())
    }

    /// Makes up to four hosts on a switch. Returns `None` if this process may make none.
    ///
    /// # Panics
    /// If the devices cannot be made.
    pub fn on_a_switch(count: usize) -> Option<Self> {
        let hosts = Self::named(count, Some("s"))?;
        let switch = hosts.switch.as_ref().expect("it has been made");
        done(&format!("-n {switch} link add switch type bridge"));
        done(&format!("-n {switch} link set switch up"));
        for (which, name) in hosts.names.iter().enumerate() {
            done(&format!(
                "link add way netns {name} type veth peer name way{which} netns {switch}"
            ));
            done(&format!("-n {switch} link set way{which} master switch up"));
        }
        Some(hosts.with_addresses())
    }

    fn named(count: usize, switch: Option<&str>) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |end: &str| format!("sovia-{}-{number}{end}", std::process::id());
        let names = ["a", "b", "c", "d"][..count].iter().map(|end| name(end)).collect();
        let hosts = Self { names, switch: switch.map(name) };
        let all = hosts.names.iter().chain(&hosts.switch);
        all.into_iter().all(|name| ip(&format!("netns add {name}"))).then_some(hosts)
    }

    /// Makes two namespaces without a connection.
    pub(crate) fn apart() -> Option<Self> {
        Self::named(2, None)
    }

    fn with_addresses(self) -> Self {
        (0..self.names.len()).for_each(|which| self.bring_up(which));
        self
    }

    /// Gives one of them its address, on the device `way`.
    pub(crate) fn bring_up(&self, which: usize) {
        let (name, address) = (self.name(which), Self::ADDRESSES[which]);
        for command in
            ["link set lo up", "link set way up", &format!("addr add {address}/24 dev way")]
        {
            done(&format!("-n {name} {command}"));
        }
    }

    /// Returns the name of one of them.
    pub fn name(&self, which: usize) -> &str {
        &self.names[which]
    }

    /// Returns the words that start a program in one of them.
    pub fn prefix(&self, which: usize) -> String {
        format!("ip netns exec {}", self.names[which])
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in self.names.iter().chain(&self.switch) {
            ip(&format!("netns del {name}"));
        }
    }
}

/// Runs `ip` with these words.
fn done(arguments: &str) {
    assert!(ip(arguments), "ip {arguments}");
}

/// Returns true if `ip` with these words succeeds.
pub(crate) fn ip(arguments: &str) -> bool {
    let arguments = arguments.split_whitespace();
    Command::new("ip").args(arguments).stderr(Stdio::null()).status().is_ok_and(|it| it.success())
}

/// An agent that identifies programs to each other. It ends with this value.
#[derive(Debug)]
pub struct Agent {
    child: Child,
}

impl Agent {
    /// Returns the path at which programs find an agent in a folder.
    pub fn path(folder: &TempDir) -> PathBuf {
        folder.path().join("agent")
    }

    /// Starts an agent in a folder.
    ///
    /// # Errors
    /// The agent's output.
    ///
    /// # Panics
    /// If the agent cannot be started at all.
    pub fn start(folder: &TempDir) -> Result<Self, String> {
        let mut child = Command::new(sovia())
            .args(["agent", "--socket"])
            .arg(Self::path(folder))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sovia agent starts");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        output.read_line(&mut line).expect("it says when it is ready");
        if line.starts_with("the agent is ready at ") {
            return Ok(Self { child });
        }
        let output = child.wait_with_output().expect("it has ended");
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Returns its processes: the one with privileges, and the one that serves programs.
    pub fn processes(&self) -> Vec<i32> {
        let id = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        std::iter::once(id.cast_signed()).chain(children).collect()
    }

    /// Sends a signal to all processes of the agent.
    pub fn signal(&self, signal: i32) {
        for process in self.processes() {
            // SAFETY: kill has no memory effects; the child has not been waited for, nor has it its own.
            unsafe { libc::kill(process, signal) };
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
