//! Selects connections by a filter.

use clap::ValueEnum;
use sovia_cli::databases;
use sovia_stats_page::{Connection, Scan, scan};

use crate::watch::numbers;

/// How far a connection has come, as `sovia ps` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    /// Both directions are on a VI
    Via,
    /// One direction is on a VI
    Half,
    /// A VI exists, and both directions are still on TCP
    Entering,
    /// The connection is on TCP, and the two ends may still find each other
    Meeting,
    /// The connection is going back to TCP
    Leaving,
    /// The connection stays on TCP
    Tcp,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Via => "via",
            State::Half => "half",
            State::Entering => "entering",
            State::Meeting => "meeting",
            State::Leaving => "leaving",
            State::Tcp => "tcp",
        }
    }
}

/// Which connections are wanted: those that fit one of each kind that is given.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Filter {
    /// List only connections of this process
    #[arg(long, short, value_name = "PID", value_parser = numbers::pid)]
    pub(crate) pid: Vec<i32>,
    /// List only connections with this port at either end
    #[arg(long, value_name = "PORT", value_parser = numbers::port)]
    pub(crate) port: Vec<u16>,
    /// List only connections of programs with this name
    #[arg(long, value_name = "NAME")]
    pub(crate) program: Vec<String>,
    /// List only connections of this user's processes
    #[arg(long, value_name = "USER")]
    pub(crate) user: Vec<String>,
    /// List only connections in this state
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Vec<State>,
    /// List only connections on this carrier: shm (shared memory), tcp, or the name of a NIC in software
    #[arg(long, value_name = "CARRIER")]
    pub(crate) carrier: Vec<String>,
}

/// A filter with user IDs instead of names.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    filter: &'a Filter,
    users: Vec<u32>,
}

impl Filter {
    /// Looks up the IDs of the filter's users.
    ///
    /// # Errors
    /// An error if there is no such process, or no such user.
    pub(crate) fn wanted(&self) -> anyhow::Result<Wanted<'_>> {
        self.pid.iter().try_for_each(|&pid| numbers::ensure_exists(pid))?;
        let users = self.user.iter().map(|user| databases::user(user));
        Ok(Wanted { filter: self, users: users.collect::<anyhow::Result<_>>()? })
    }
}

impl Wanted<'_> {
    /// Returns true if the filter selects a connection.
    pub(crate) fn has(&self, scan: &Scan, connection: &Connection) -> bool {
        let Filter { pid, port, program, user: _, state, carrier } = self.filter;
        let mut processes = connection.processes.iter().map(|&at| &scan.processes[at]);
        let is_port = |port: &u16| {
            let ends = connection.addresses();
            ends.is_some_and(|(local, peer)| [local.port(), peer.port()].contains(port))
        };
        processes.any(|process| {
            (pid.is_empty() || pid.contains(&process.pid))
                && (program.is_empty() || program.contains(&process.program))
                && (self.users.is_empty() || self.users.contains(&process.uid))
        }) && (port.is_empty() || port.iter().any(is_port))
            && (state.is_empty() || state.iter().any(|state| state.word() == connection.state()))
            && (carrier.is_empty() || carrier.iter().any(|name| name == connection.carrier()))
    }
}

/// Scans the processes, and prints on stderr which of them could not be read.
///
/// # Errors
/// An error if no process can be scanned.
pub(crate) fn look() -> anyhow::Result<Scan> {
    let found = scan()?;
    for one in &found.unreadable {
        eprintln!(
            "sovia: cannot read the connections of process {}: the statistics page {}",
            one.pid, one.fault
        );
    }
    Ok(found)
}

/// Scans the processes without output, for a command that draws on the terminal.
///
/// # Errors
/// An error if no process can be scanned.
pub(crate) fn look_quietly() -> anyhow::Result<Scan> {
    Ok(scan()?)
}
