//! The other ends of connections on TCP, as far as the kernel's tables show them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use sovia_cli::switch;
use sovia_control::Reason;
use sovia_stats_page::{Pairs, Scan};

use crate::watch::kernel::{Owner, Socket, owners, sockets};

/// The other end's socket, and its process if this process may see it.
pub(super) type Other = (Socket, Option<Owner>);

/// Finds the other ends of those of the connections `wanted` that are on TCP, and whose other end no scanned process
/// has.
pub(super) fn others(scan: &Scan, pairs: &Pairs, wanted: &[usize]) -> HashMap<usize, Other> {
    let mut tables: HashMap<u64, HashMap<(SocketAddr, SocketAddr), Socket>> = HashMap::new();
    let mut found: HashMap<usize, Socket> = HashMap::new();
    for &at in wanted {
        let connection = &scan.connections[at];
        let Some((local, peer)) = connection.addresses() else { continue };
        if connection.is_on_vi() || pairs[at].is_some() {
            continue;
        }
        let pid = scan.processes[connection.processes[0]].pid;
        let table = tables.entry(connection.net).or_insert_with(|| {
            let all = sockets(Some(pid)).into_iter();
            all.map(|socket| ((socket.local, socket.peer), socket)).collect()
        });
        found.extend(table.get(&(peer, local)).map(|socket| (at, *socket)));
    }
    let inodes = found.values().map(|socket| socket.inode).collect();
    let owners = if found.is_empty() { HashMap::new() } else { owners(&inodes) };
    let with_owner =
        |(at, socket): (usize, Socket)| (at, (socket, owners.get(&socket.inode).cloned()));
    found.into_iter().map(with_owner).collect()
}

/// Returns why a connection is on TCP: the reason that its process found. While the process still looks for the peer,
/// the reason follows from the other end.
pub(super) fn reason(
    scan: &Scan,
    pairs: &Pairs,
    at: usize,
    other: Option<&Other>,
) -> Option<Reason> {
    let connection = &scan.connections[at];
    let process = &scan.processes[connection.processes[0]];
    let found = connection.reason().filter(|&reason| reason != Reason::ShortLived);
    let paired = pairs[at].map(|other| &scan.processes[scan.connections[other].processes[0]]);
    let other_uid = paired.map(|there| there.uid).or(other.map(|(socket, _)| socket.uid));
    let is_plain = other.is_some_and(|(_, owner)| {
        owner.as_ref().is_some_and(|owner| owner.has_library == Some(false))
    });
    let by_other_end = || {
        let root = PathBuf::from(format!("/proc/{}/root", process.pid));
        match other_uid {
            _ if switch::in_force(&root, process.uid).is_some() => Some(Reason::SwitchedOff),
            _ if is_plain => Some(Reason::PeerPlain),
            Some(there) if there != process.uid => Some(Reason::OtherUser),
            _ => None,
        }
    };
    found.or_else(by_other_end).or(connection.reason())
}
