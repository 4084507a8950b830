//! `sovia explain`: says why connections are on TCP or a VI, and what would change that.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;

use serde::Serialize;
use sovia_cli::advice::{Ends, advice};
use sovia_cli::run::ignored_by_library;
use sovia_cli::system_rules::followed_by;
use sovia_control::Reason;
use sovia_stats_page::{Connection, Pairs, Scan, key, pairs, shown};

use crate::output;
use crate::watch::columns::json_lines;
use crate::watch::filter::look;
use crate::watch::kernel::{Owner, Socket, owners, sockets};
use crate::watch::numbers;
use crate::watch::others::{Other, others, reason};
use crate::watch::ps::named;
use crate::watch::users::Users;

/// Report why connections are on TCP, and how to change that
///
/// The command shows what carries each connection of a process, or each connection with a port. For a connection on
/// TCP, the output also has the reason, and what would move the connection to a VI. If a command can do that, the
/// output has the command. Connections with the same report are shown as one, with their number.
///
/// A number without an option is taken as a port and, if a process with this ID exists, also as a process ID.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Process ID or port
    #[arg(value_name = "PID|PORT", required_unless_present_any = ["pid", "port"], value_parser = numbers::pid_or_port)]
    number: Option<i32>,
    /// Process ID
    #[arg(long, short, value_name = "PID", conflicts_with = "number", value_parser = numbers::pid)]
    pid: Option<i32>,
    /// Port at either end
    #[arg(long, value_name = "PORT", conflicts_with = "number", value_parser = numbers::port)]
    port: Option<u16>,
    /// Print one JSON object for each connection, one per line
    #[arg(long)]
    json: bool,
}

/// Report about a connection, in JSON. Keys are stable, and new ones may be added.
#[derive(Default, Serialize)]
pub(super) struct Out<'a> {
    pid: i32,
    program: &'a str,
    local: Option<String>,
    peer: Option<String>,
    state: &'a str,
    carrier: &'a str,
    /// `reason` is for scripts, and `why` for readers.
    reason: Option<String>,
    why: Option<&'a str>,
    to_change: Vec<String>,
}

pub(crate) fn explain(args: &Args) -> anyhow::Result<()> {
    let is_process = |pid: &i32| sovia_stats_page::exists(*pid);
    let pid = args.pid.or(args.number.filter(is_process));
    let port = args.port.or(args.number.and_then(|number| u16::try_from(number).ok()));
    if let Some(pid) = args.pid {
        numbers::ensure_exists(pid)?;
    }
    if let (None, None, Some(number)) = (pid, port, args.number) {
        anyhow::bail!("there is no process {number}, and the highest port is {}", u16::MAX);
    }
    let scan = look()?;
    let view = View { pairs: pairs(&scan), users: Users::default(), scan };
    if args.json {
        let text = view.as_json(pid, port)?;
        output::put(text)?;
        return Ok(());
    }
    let mut text = String::new();
    if let Some(pid) = pid {
        text += &view.process(pid);
    }
    if let Some(port) = port
        && !(args.number.is_some() && pid.is_some() && !view.has_port(port))
    {
        text += &view.port(port);
    }
    output::put(text)?;
    Ok(())
}

struct View {
    scan: Scan,
    pairs: Pairs,
    users: Users,
}

/// Description of a connection without its addresses.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
struct Said {
    /// State of the connection, in lines.
    lines: Vec<String>,
    /// Reason why the connection is on TCP.
    reason: Option<Reason>,
    /// Lines of advice.
    to_change: Vec<String>,
}

impl View {
    fn has_port(&self, port: u16) -> bool {
        self.scan.connections.iter().any(|connection| is_at(connection, port))
    }

    fn as_json(&self, pid: Option<i32>, port: Option<u16>) -> anyhow::Result<String> {
        let is_wanted = |connection: &Connection| {
            pid.is_some_and(|pid| self.has(connection, pid))
                || port.is_some_and(|port| is_at(connection, port))
        };
        let all = 0..self.scan.connections.len();
        let shown: Vec<usize> = all.filter(|&at| is_wanted(&self.scan.connections[at])).collect();
        let others = others(&self.scan, &self.pairs, &shown);
        json_lines(shown.into_iter().map(|at| {
            let connection = &self.scan.connections[at];
            let process = &self.scan.processes[connection.processes[0]];
            let Said { reason, to_change, .. } = self.said(connection, at, others.get(&at));
            Out {
                pid: process.pid,
                program: &process.program,
                local: connection.addresses().map(|(local, _)| local.to_string()),
                peer: connection.addresses().map(|(_, peer)| peer.to_string()),
                state: connection.state(),
                carrier: connection.carrier(),
                reason: reason.map(key),
                why: reason.map(Reason::describe),
                to_change,
            }
        }))
    }

    fn has(&self, connection: &Connection, pid: i32) -> bool {
        connection.processes.iter().any(|&at| self.scan.processes[at].pid == pid)
    }

    fn process(&self, pid: i32) -> String {
        let text = self.all(|connection| self.has(connection, pid));
        if !text.is_empty() {
            return text;
        }
        let Some(owner) = Owner::of(pid) else { return format!("{pid}: no such process\n") };
        let name = format!("{},{pid}", owner.program);
        match owner.has_library {
            Some(true) => format!("{name}: under Sovia, with no recorded TCP connection\n"),
            Some(false) => without_library(&name, &owner.command),
            None => {
                format!(
                    "{name}: a process of another user: only root can see the connections of this process\n"
                )
            }
        }
    }

    fn port(&self, port: u16) -> String {
        let mut text = self.all(|connection| is_at(connection, port));
        // Connections without Sovia, which only the kernel knows.
        let with_port = |socket: &Socket| socket.local.port() == port;
        let here: Vec<Socket> = sockets(None).into_iter().filter(with_port).collect();
        let inodes = here.iter().map(|socket| socket.inode).collect();
        let owners = owners(&inodes);
        let shows = |pid| self.scan.processes.iter().any(|process| process.pid == pid);
        let is_plain = |owner: &&Owner| owner.has_library == Some(false) && !shows(owner.pid);
        // Processes of one command, such as a server's workers, are merged into one entry.
        let mut alike: BTreeMap<(&str, &str), BTreeSet<i32>> = BTreeMap::new();
        for owner in owners.values().filter(is_plain) {
            alike.entry((&owner.program, &owner.command)).or_default().insert(owner.pid);
        }
        for ((program, command), pids) in alike {
            let first = pids.first().copied().unwrap_or_default();
            let name = format!("{program},{first}{}", and_like(pids.len()));
            text += &without_library(&name, command);
        }
        if text.is_empty() {
            let is_there = |socket: &Socket| socket.is_listening;
            text = match here.iter().find(|socket| is_there(socket)) {
                Some(socket) => format!(
                    "port {port}: a process of {} listens here, with no recorded connection that this user may see\n",
                    self.users.name(socket.uid)
                ),
                None => format!("port {port}: no connection that this user may see\n"),
            };
        }
        text
    }

    /// Describes the wanted connections.
    fn all(&self, wanted: impl Fn(&Connection) -> bool) -> String {
        let mut groups: BTreeMap<(String, Said), Vec<usize>> = BTreeMap::new();
        let here =
            (0..self.scan.connections.len()).filter(|&at| wanted(&self.scan.connections[at]));
        let shown: Vec<usize> = here.collect();
        let others = others(&self.scan, &self.pairs, &shown);
        for at in shown {
            let connection = &self.scan.connections[at];
            let process = &self.scan.processes[connection.processes[0]];
            let said = self.said(connection, at, others.get(&at));
            groups.entry((named(process), said)).or_default().push(at);
        }
        let mut text = String::new();
        let mut processes: BTreeMap<i32, String> = BTreeMap::new();
        for ((process, said), members) in groups {
            let first = &self.scan.connections[members[0]];
            processes.insert(self.scan.processes[first.processes[0]].pid, process.clone());
            let ends = first.addresses().map(|(local, peer)| format!("{local} - {peer}"));
            let ends = ends.unwrap_or_else(|| "addresses not known yet".to_owned());
            let _ = writeln!(text, "{process}  {ends}{}", and_like(members.len()));
            for line in said.lines {
                let _ = writeln!(text, "    {line}");
            }
            if let Some(reason) = said.reason {
                let _ = writeln!(text, "    why: {}", reason.describe());
            }
            for line in said.to_change {
                let _ = writeln!(text, "    to change it: {line}");
            }
        }
        for (pid, process) in processes {
            for line in ignored_by_library(pid) {
                let _ = writeln!(text, "{process}  the library ignores a variable: {line}");
            }
        }
        text
    }

    fn said(&self, connection: &Connection, at: usize, other: Option<&Other>) -> Said {
        let record = &connection.record;
        let process = &self.scan.processes[connection.processes[0]];
        let mut said = Said::default();
        let lines = &mut said.lines;
        let paired = self.pairs[at].map(|other| {
            let other = &self.scan.connections[other];
            &self.scan.processes[other.processes[0]]
        });
        let by_kernel = || other.map(|(socket, _)| socket.uid);
        let other_uid = paired.map(|there| there.uid).or_else(by_kernel);
        match connection.state() {
            "via" => lines.push(format!("accelerated: {}", carried_by(connection))),
            "half" => {
                lines.push(format!("one direction is accelerated: {}", carried_by(connection)));
                lines.push("the other direction follows with its next bytes".to_owned());
            }
            "entering" => {
                lines.push("on TCP: the connection moves to its VI with the next bytes".to_owned());
            }
            "leaving" => lines.push("going back to TCP".to_owned()),
            "meeting" => lines.push("on TCP so far".to_owned()),
            _ => lines.push("on TCP".to_owned()),
        }
        let name =
            |pid: i32, program: &str, user: String| format!("other end: {program},{pid} of {user}");
        match (paired, other) {
            (Some(there), _) => {
                lines.push(name(there.pid, &there.program, self.users.name(there.uid)));
            }
            (None, Some((socket, Some(owner)))) => {
                lines.push(name(owner.pid, &owner.program, self.users.name(socket.uid)));
            }
            (None, Some((socket, None))) => {
                lines.push(format!("other end: a process of {}", self.users.name(socket.uid)));
            }
            (None, None) => {}
        }
        if connection.is_on_vi() && !record.falls_back {
            return said;
        }
        said.reason = reason(&self.scan, &self.pairs, at, other);
        if said.reason.is_none() && connection.state() == "meeting" {
            // The text has no number of transfers, so that similar connections are merged.
            said.lines.push(
                "the two ends look for each other after some transfers; the number depends on earlier connections; \
                 to make them look at the first transfer:  SOVIA_MEET=0"
                    .to_owned(),
            );
        }
        if let Some(reason) = said.reason {
            let ends = Ends {
                user: self.users.name(process.uid),
                other_user: other_uid.map(|uid| self.users.name(uid)),
                other_command: other.and_then(|(_, owner)| Some(owner.as_ref()?.command.clone())),
                rules: followed_by(process.pid).map(|rules| shown(rules.as_bytes())),
                is_loopback: connection.addresses().is_some_and(|(_, peer)| is_loopback(&peer)),
            };
            said.to_change = advice(reason, &ends);
        }
        said
    }
}

fn carried_by(connection: &Connection) -> String {
    match &connection.record.nic {
        Some(nic) => format!("by the NIC in software {}", nic.as_str()),
        None => "by memory that both processes share".to_owned(),
    }
}

fn is_at(connection: &Connection, port: u16) -> bool {
    connection.addresses().is_some_and(|(local, peer)| [local.port(), peer.port()].contains(&port))
}

fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().is_loopback()
}

/// Returns the words after the first of `number` merged entries.
fn and_like(number: usize) -> String {
    match number {
        1 => String::new(),
        n => format!(" and {} more like this", n - 1),
    }
}

fn without_library(name: &str, command: &str) -> String {
    let command = if command.is_empty() { "PROGRAM" } else { command };
    format!(
        "{name}\n    not under Sovia\n    to change it: sovia run -- {command}\n    \
         (static, Go and setuid programs load no library: `sovia run` reports such a program)\n"
    )
}
