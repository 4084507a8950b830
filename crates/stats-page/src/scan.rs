//! All processes that this user may look at, and their connections.

use crate::files::{self, MemoryFiles, Own, Seen, Shown};
use crate::parts::in_parts;
use crate::process::{Folder, Process};
use core::net::SocketAddr;
use sovia_control::stats_page::{Fault, Phase, Receives, Record, Sends};
use sovia_control::{Reason, StatsPage, Traffic};
use std::collections::HashMap;
use std::time::Instant;

/// Identity of a connection, which no other connection has as long as the host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// Inode of the file.
    pub file: u64,
    /// Number of the record.
    pub record: u32,
    /// Generation of the record's slot.
    pub generation: u32,
}

/// End of a connection.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Identity of the connection.
    pub id: Id,
    /// Index of the connection's family in [`Scan::families`].
    pub family: usize,
    /// Indices in [`Scan::processes`] of the processes that have the connection. Never empty.
    pub processes: Vec<usize>,
    /// Network namespace of the connection.
    pub net: u64,
    /// Content of the connection's record.
    pub record: Record,
}

impl Connection {
    /// Returns the local address and the peer's address.
    pub fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.record.addresses
    }

    /// Returns true if a VI carries at least one direction.
    pub fn is_on_vi(&self) -> bool {
        let record = &self.record;
        record.phase == Phase::Attached
            && (record.sends == Sends::Vi || record.receives == Receives::Vi)
    }

    /// Returns the connection's state as one word.
    pub fn state(&self) -> &'static str {
        let record = &self.record;
        match record.phase {
            Phase::Eligible => "meeting",
            Phase::Plain | Phase::Free => "tcp",
            Phase::Attached if record.falls_back => "leaving",
            Phase::Attached if record.is_accelerated() => "via",
            Phase::Attached if self.is_on_vi() => "half",
            Phase::Attached if record.sends == Sends::Back => "tcp",
            Phase::Attached => "entering",
        }
    }

    /// Returns the carrier: `tcp`, `shm` for shared memory, or the name of a NIC in software.
    pub fn carrier(&self) -> &str {
        match &self.record.nic {
            _ if self.record.phase != Phase::Attached || self.state() == "tcp" => "tcp",
            Some(nic) => nic.as_str(),
            None => "shm",
        }
    }

    /// Returns the reason why the connection is on TCP or moves there, if known.
    pub fn reason(&self) -> Option<Reason> {
        self.record.stays.or(self.record.leaves).or(self.record.doubts)
    }
}

/// Processes that come from one process by fork.
#[derive(Debug)]
pub struct Family {
    /// Inode of the family's first file.
    pub file: u64,
    /// Indices of the family's processes in [`Scan::processes`].
    pub processes: Vec<usize>,
    /// Counters of the family, without the traffic that its connections have not added yet ([`Record::unsettled`]).
    pub totals: Option<StatsPage>,
}

impl Family {
    /// Returns the traffic on VIs: of all closed connections, and of the open ones in `open`.
    pub fn traffic<'a>(&self, open: impl Iterator<Item = &'a Connection>) -> Traffic {
        let before = self.totals.as_ref().map(StatsPage::traffic).unwrap_or_default();
        open.map(|connection| connection.record.unsettled).fold(before, |sum, more| Traffic {
            bytes_sent: sum.bytes_sent.wrapping_add(more.bytes_sent),
            messages_sent: sum.messages_sent.wrapping_add(more.messages_sent),
            bytes_received: sum.bytes_received.wrapping_add(more.bytes_received),
            messages_handled: sum.messages_handled.wrapping_add(more.messages_handled),
            messages_registered: sum.messages_registered.wrapping_add(more.messages_registered),
            ..sum
        })
    }
}

/// Process whose connections cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable {
    /// Process id.
    pub pid: i32,
    /// Reason.
    pub fault: Fault,
}

/// State of the host at about one time. The processes keep running during the scan.
#[derive(Debug)]
pub struct Scan {
    /// Start of the scan.
    pub at: Instant,
    /// Processes that show connections.
    pub processes: Vec<Process>,
    /// Families of the processes.
    pub families: Vec<Family>,
    /// Connections of the processes.
    pub connections: Vec<Connection>,
    /// Processes whose files cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// Number of processes that the kernel does not allow this user to look at.
    pub forbidden: usize,
}

/// Family during a scan.
struct Found {
    /// Processes of the family: the process slot, and the index in the scan.
    slots: Vec<(u32, usize)>,
    /// Files of the family. The first one is the family's first file.
    files: Vec<Shown>,
}

/// Scans all processes except for this one.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn scan() -> std::io::Result<Scan> {
    let own = std::process::id() as i32;
    let entries = std::fs::read_dir("/proc")?.flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(scan_of(ids.filter(|&pid| pid != own)))
}

/// Scans the processes with these ids.
pub fn scan_of(ids: impl IntoIterator<Item = i32>) -> Scan {
    let memory = MemoryFiles::find();
    let mut scan = Scan {
        at: Instant::now(),
        processes: Vec::new(),
        families: Vec::new(),
        connections: Vec::new(),
        unreadable: Vec::new(),
        forbidden: 0,
    };
    let mut families: Vec<Found> = Vec::new();
    let mut known: HashMap<u64, usize> = HashMap::new();
    for pid in ids {
        let Some(folder) = Folder::open(pid) else { continue };
        match files::of(&folder, &memory) {
            Seen::Own(own) => {
                let library = own.first.schema.library().to_owned();
                let Some(process) = folder.process(&library) else { continue };
                scan.processes.push(process);
                let process = scan.processes.len() - 1;
                let at = *known.entry(own.first.inode).or_insert(families.len());
                if at == families.len() {
                    families.push(Found { slots: Vec::new(), files: Vec::new() });
                }
                families[at].add(*own, process, &memory);
            }
            Seen::Nothing => {}
            Seen::Forbidden => scan.forbidden += 1,
            Seen::Fault(fault) => scan.unreadable.push(Unreadable { pid, fault }),
        }
    }
    let files: Vec<&Shown> = families.iter().flat_map(|family| &family.files).collect();
    let records = records_of(&files);
    scan.connections.reserve(records.iter().map(Vec::len).sum());
    let mut records = records.into_iter();
    for family in &families {
        family.read(&mut scan, &mut records);
    }
    scan
}

/// Records of a file, with their numbers.
type Records = Vec<(u32, Record)>;

/// Reads the records of several files. Each file takes hundreds of reads, so threads share the files.
fn records_of(files: &[&Shown]) -> Vec<Records> {
    in_parts(files, 1, |files| {
        let mut records = Vec::with_capacity(files.iter().map(|file| file.count()).sum());
        records.extend(files.iter().flat_map(|file| file.records()));
        records
    })
}

impl Found {
    fn add(&mut self, own: Own, process: usize, memory: &MemoryFiles) {
        self.slots.push((own.slot, process));
        let files = &self.files;
        let is_known = |inode| files.iter().any(|file| file.inode == inode);
        let others = own.others(memory, is_known);
        if self.files.is_empty() {
            self.files.push(own.first);
        }
        self.files.extend(others);
    }

    /// Adds the family to a scan. `records` yields the records of the family's files, in their order.
    fn read(&self, scan: &mut Scan, records: &mut impl Iterator<Item = Records>) {
        let family = scan.families.len();
        for (file, records) in self.files.iter().zip(records) {
            for (record, content) in records {
                let holds = |slot: u32| content.references.may_have(slot);
                let processes = self.slots.iter().filter(|(slot, _)| holds(*slot));
                let processes: Vec<usize> = processes.map(|(_, process)| *process).collect();
                // No process that has this connection lives, or this user may not look at it.
                let Some(&one) = processes.first() else { continue };
                let id = Id { file: file.inode, record, generation: content.generation };
                let net = scan.processes[one].net;
                scan.connections.push(Connection { id, family, processes, net, record: content });
            }
        }
        let Some(first) = self.files.first() else { return };
        let totals = match first.schema.shape.totals_at {
            sovia_control::stats_page::ABSENT => None,
            at => first.bytes(u64::from(at), StatsPage::SIZE),
        };
        scan.families.push(Family {
            file: first.inode,
            processes: self.slots.iter().map(|(_, process)| *process).collect(),
            totals: totals.and_then(|bytes| StatsPage::copy_of(&bytes).ok()),
        });
    }
}
