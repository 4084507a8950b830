//! Two network namespaces joined by a slow, long and lossy link.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use crate::hosts::{Hosts, ip};

/// Two hosts and their link, which are removed with this value.
#[derive(Debug)]
pub struct Bottleneck {
    hosts: Hosts,
    /// Network namespace of the link.
    middle: String,
    relay: Child,
}

impl Bottleneck {
    /// Makes two hosts like [`Hosts`], and a link by `program` (`src/bin/bottleneck`) with these options. Returns
    /// `None` if this process may make none.
    ///
    /// # Panics
    /// If the link cannot be made.
    pub fn new(program: &str, options: &[&str]) -> Option<Self> {
        let hosts = Hosts::apart()?;
        let middle = format!("{}-way", hosts.name(0));
        assert!(ip(&format!("netns add {middle}")), "{middle}");
        for (which, end) in ["end0", "end1"].into_iter().enumerate() {
            let name = hosts.name(which);
            let way = format!("link add way netns {name} type veth peer name {end} netns {middle}");
            assert!(ip(&way) && ip(&format!("-n {middle} link set {end} up")), "{way}");
            hosts.bring_up(which);
            // Turn offloads off, so that frames have their size on a wire, and checksums.
            let off = "ethtool -K way tx off tso off gso off tx-udp-segmentation off";
            assert!(ip(&format!("netns exec {name} {off}")), "{off}");
        }
        let mut relay = Command::new("ip")
            .args(["netns", "exec", &middle, program, "end0", "end1"])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("ip starts");
        let mut line = String::new();
        let output = relay.stdout.as_mut().expect("a pipe");
        BufReader::with_capacity(1, output).read_line(&mut line).expect("it says when it is ready");
        assert_eq!(line, "the way is ready\n");
        Some(Self { hosts, middle, relay })
    }

    /// Returns the two hosts.
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Ends the link, and returns its counts of frames.
    ///
    /// # Panics
    /// If the link's program has failed.
    pub fn end(&mut self) -> String {
        // The relay ends with its standard input.
        drop(self.relay.stdin.take());
        let mut says = String::new();
        let output = self.relay.stdout.as_mut().expect("a pipe");
        output.read_to_string(&mut says).expect("text");
        assert!(self.relay.wait().is_ok_and(|status| status.success()), "{says}");
        says
    }
}

impl Drop for Bottleneck {
    fn drop(&mut self) {
        drop(self.relay.stdin.take());
        let _ = self.relay.wait();
        ip(&format!("netns del {}", self.middle));
    }
}
