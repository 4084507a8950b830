//! `sovia ps`: prints a line for each connection.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use sovia_control::Reason;
use sovia_control::stats_page::{Configuration, Handling, Phase, Receives, Sends, Transfer};
use sovia_stats_page::{Connection, Pairs, Process, Scan, key, pairs};
use sovia_sys::{diag, netns};

use crate::output;
use crate::watch::columns::{Side, columns, json_lines};
use crate::watch::filter::{Filter, look};
use crate::watch::others::{others, reason};
use crate::watch::units::count;
use crate::watch::users::Users;

/// List the connections of programs under Sovia, one per line
///
/// Each line is one end of a connection. Users see only their own processes. Root sees all processes in its own PID and
/// network namespaces and in those below.
///
/// STATE is one of these words. `via`: both directions are on a VI. `half`: one direction is on a VI. `entering`: a VI
/// exists, and both directions are still on TCP. `meeting`: the connection is on TCP, and the two ends may still find
/// each other. `leaving`: the connection is going back to TCP. `tcp`: the connection stays on TCP, for the reason in
/// column WHY.
///
/// CARRIER is `shm` (memory that both processes share), `tcp`, or the name of a NIC in software. MESSAGES is the number
/// of messages sent on the VI.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    filter: Filter,
    /// Print one JSON object for each end of a connection, one per line
    #[arg(long)]
    json: bool,
    /// Also show the user, the protocol settings and the library's build of each connection
    #[arg(long, short)]
    verbose: bool,
}

pub(crate) fn ps(args: &Args) -> anyhow::Result<()> {
    let wanted = args.filter.wanted()?;
    let mut scan = look()?;
    let pairs = pairs(&scan);
    let mut shown: Vec<usize> = (0..scan.connections.len())
        .filter(|&at| wanted.has(&scan, &scan.connections[at]))
        .collect();
    let order = |at: usize| {
        let connection = &scan.connections[at];
        (scan.processes[connection.processes[0]].pid, connection.addresses(), connection.id)
    };
    shown.sort_by_cached_key(|&at| order(at));
    take_kernels_counts(&mut scan.connections, &shown);
    let reasons = reasons(&scan, &pairs, &shown);
    let text = if args.json {
        json(&scan, &pairs, &shown, &reasons)?
    } else {
        lines(&scan, &pairs, &shown, &reasons, args.verbose)
    };
    output::put(&text)?;
    if shown.is_empty() && !args.json {
        say_what_is_missing(&scan);
    }
    // The process ends now. Freeing the memory of tens of thousands of connections would take a tenth of its time.
    std::mem::forget((scan, pairs, text));
    Ok(())
}

/// Takes the kernel's byte counts for connections of this network namespace that stay on TCP, because their programs do
/// not count bytes.
fn take_kernels_counts(connections: &mut [Connection], shown: &[usize]) {
    let Ok((_, net)) = netns::current().and_then(|own| netns::id(&own)) else { return };
    for &at in shown {
        let connection = &mut connections[at];
        if connection.record.phase == Phase::Plain
            && connection.net == net
            && let Some((local, peer)) = connection.addresses()
            && let Ok(bytes) = diag::tcp_bytes(local, peer)
        {
            connection.record.tcp = bytes;
        }
    }
}

/// Returns why connections are on TCP, like `sovia explain`.
fn reasons(scan: &Scan, pairs: &Pairs, shown: &[usize]) -> HashMap<usize, Reason> {
    let is_open = |at: &usize| {
        let connection = &scan.connections[*at];
        connection.reason().is_none() && connection.record.phase == Phase::Eligible
    };
    let open: Vec<usize> = shown.iter().copied().filter(is_open).collect();
    let others = others(scan, pairs, &open);
    let of = |&at: &usize| {
        let connection = &scan.connections[at];
        let is_settled = connection.is_on_vi() && !connection.record.falls_back;
        let found =
            if is_settled { connection.reason() } else { reason(scan, pairs, at, others.get(&at)) };
        Some((at, found?))
    };
    shown.iter().filter_map(of).collect()
}

/// Prints a hint if no connection is shown because of missing rights.
fn say_what_is_missing(scan: &Scan) {
    if scan.connections.is_empty() && scan.forbidden > 0 {
        eprintln!(
            "sovia: no connection of your own processes; only root can see the connections of {} other processes",
            scan.forbidden
        );
    }
}

/// Returns a process's name and ID, as a line shows them.
pub(crate) fn named(process: &Process) -> String {
    format!("{},{}", process.program, process.pid)
}

fn lines(
    scan: &Scan,
    pairs: &Pairs,
    shown: &[usize],
    reasons: &HashMap<usize, Reason>,
    verbose: bool,
) -> String {
    let users = Users::default();
    let names: Vec<String> = scan.processes.iter().map(named).collect();
    let processes = |connection: &Connection| -> Cow<'_, str> {
        match connection.processes[..] {
            [one] => names[one].as_str().into(),
            ref all => all.iter().map(|&at| &*names[at]).collect::<Vec<_>>().join(" ").into(),
        }
    };
    let line = |&at: &usize| -> [Cow<'_, str>; 11] {
        let connection = &scan.connections[at];
        let record = &connection.record;
        let address = |which: fn(_) -> _| {
            connection.addresses().map_or("-".into(), |both| {
                let address: core::net::SocketAddr = which(both);
                address.to_string().into()
            })
        };
        let bytes = |vi: u64, tcp: u64| count(vi.saturating_add(tcp)).into();
        let other = pairs[at].map(|other| processes(&scan.connections[other]));
        let why: Option<&str> = reasons.get(&at).map(|reason| reason.describe());
        let more = verbose.then(|| details(scan, connection, &users));
        let why = match (why, more) {
            (Some(why), Some(more)) => format!("{why}; {more}").into(),
            (Some(why), None) => why.into(),
            (None, Some(more)) => more.into(),
            (None, None) => "".into(),
        };
        [
            connection.state().into(),
            connection.carrier().into(),
            address(|(local, _)| local),
            address(|(_, peer)| peer),
            bytes(record.traffic.bytes_sent, record.tcp.0),
            bytes(record.traffic.bytes_received, record.tcp.1),
            count(record.traffic.messages_sent).into(),
            count(record.sleeps).into(),
            processes(connection),
            other.unwrap_or_else(|| "-".into()),
            why,
        ]
    };
    let header = [
        ("STATE", Side::Left),
        ("CARRIER", Side::Left),
        ("LOCAL", Side::Left),
        ("PEER", Side::Left),
        ("SENT", Side::Right),
        ("RECEIVED", Side::Right),
        ("MESSAGES", Side::Right),
        ("SLEEPS", Side::Right),
        ("PROCESS", Side::Left),
        ("OTHER END", Side::Left),
        ("WHY", Side::Left),
    ];
    columns(header, shown, line)
}

/// Returns the additional words for `-v`.
fn details(scan: &Scan, connection: &Connection, users: &Users) -> String {
    let record = &connection.record;
    let process = &scan.processes[connection.processes[0]];
    let mut words = vec![format!("user={}", users.name(process.uid))];
    words.push(format!("path={}", path(connection)));
    if let Some(configuration) = record.configuration {
        words.push(format!("protocol={}", protocol(configuration, record.combines)));
    }
    if record.traffic.messages_handled > 0 {
        words.push(format!("handled={}", record.traffic.messages_handled));
    }
    if record.traffic.messages_registered > 0 {
        words.push(format!("registered={}", record.traffic.messages_registered));
    }
    words.push(format!("calls-on-tcp={}", record.transfers));
    words.push(format!("library={}", process.library));
    words.join(" ")
}

/// Returns the carriers of both directions: sending/receiving.
fn path(connection: &Connection) -> String {
    let (sends, receives) = paths(connection);
    format!("{sends}/{receives}")
}

fn paths(connection: &Connection) -> (&'static str, &'static str) {
    let sends = match connection.record.sends {
        Sends::Vi => "vi",
        Sends::Tcp | Sends::Back => "tcp",
    };
    let receives = match connection.record.receives {
        Receives::Vi => "vi",
        Receives::Tcp | Receives::Granted | Receives::Back => "tcp",
    };
    (sends, receives)
}

/// Formats the protocol like the argument of `sovia run --protocol`.
fn protocol(configuration: Configuration, combines: bool) -> String {
    let handling = match configuration.handling {
        Handling::Single => "single",
        Handling::Handler => "handler",
        Handling::Notify => "notify",
    };
    let transfer = match configuration.transfer {
        Transfer::Auto => "auto",
        Transfer::Reg => "reg",
        Transfer::Copy => "copy",
        Transfer::Hybrid => "hybrid",
    };
    let combine = if combines { ",combine" } else { "" };
    let Configuration { window, threshold, .. } = configuration;
    format!("{handling},{transfer}{combine},w={window},t={threshold}")
}

/// A process in JSON.
#[derive(Default, Serialize)]
struct ProcessOut<'a> {
    pid: i32,
    program: &'a str,
    uid: u32,
    /// Start time in clock ticks since boot.
    began: u64,
    library: &'a str,
}

/// An end of a connection in JSON. Keys are stable, and new ones may be added.
#[derive(Default, Serialize)]
pub(super) struct Out<'a> {
    state: &'a str,
    carrier: &'a str,
    local: Option<String>,
    peer: Option<String>,
    connector: bool,
    sends: &'a str,
    receives: &'a str,
    protocol: Option<String>,
    bytes_sent: u64,
    bytes_received: u64,
    messages_sent: u64,
    /// Counted modulo 2^32.
    messages_received: u32,
    messages_handled: u64,
    messages_registered: u64,
    tcp_bytes_sent: u64,
    tcp_bytes_received: u64,
    calls_before_meeting: u64,
    sleeps: u64,
    /// `reason` is for scripts, and `why` for readers.
    reason: Option<String>,
    why: Option<&'a str>,
    netns: u64,
    cookie: u64,
    processes: Vec<ProcessOut<'a>>,
    other_end: Vec<ProcessOut<'a>>,
}

fn json(
    scan: &Scan,
    pairs: &Pairs,
    shown: &[usize],
    reasons: &HashMap<usize, Reason>,
) -> anyhow::Result<String> {
    let processes = |at: usize| -> Vec<ProcessOut<'_>> {
        let processes = scan.connections[at].processes.iter().map(|&at| &scan.processes[at]);
        let out = processes.map(|process| ProcessOut {
            pid: process.pid,
            program: &process.program,
            uid: process.uid,
            began: process.began,
            library: &process.library,
        });
        out.collect()
    };
    let out = shown.iter().map(|&at| {
        let connection = &scan.connections[at];
        let record = &connection.record;
        let (sends, receives) = paths(connection);
        Out {
            state: connection.state(),
            carrier: connection.carrier(),
            local: connection.addresses().map(|(local, _)| local.to_string()),
            peer: connection.addresses().map(|(_, peer)| peer.to_string()),
            connector: record.is_connector,
            sends,
            receives,
            protocol: record.configuration.map(|what| protocol(what, record.combines)),
            bytes_sent: record.traffic.bytes_sent,
            bytes_received: record.traffic.bytes_received,
            messages_sent: record.traffic.messages_sent,
            messages_received: record.packets_taken,
            messages_handled: record.traffic.messages_handled,
            messages_registered: record.traffic.messages_registered,
            tcp_bytes_sent: record.tcp.0,
            tcp_bytes_received: record.tcp.1,
            calls_before_meeting: record.transfers,
            sleeps: record.sleeps,
            reason: reasons.get(&at).copied().map(key),
            why: reasons.get(&at).map(|reason| reason.describe()),
            netns: connection.net,
            cookie: record.cookie,
            processes: processes(at),
            other_end: pairs[at].map(processes).unwrap_or_default(),
        }
    });
    json_lines(out)
}
