//! All processes that may be looked at, and their connections.

use crate::files::{self, MemoryFiles, Own, Seen, Shown};
use crate::parts::in_parts;
use crate::process::{Folder, Process};
use core::net::SocketAddr;
use sovia_control::board::{Fault, Phase, Receives, Record, Sends};
use sovia_control::{Reason, StatsPage, Traffic};
use std::collections::HashMap;
use std::time::Instant;

/// Which connection: it is no other one's as long as the host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// The file.
    pub file: u64,
    /// The record.
    pub record: u32,
    /// Its life.
    pub life: u32,
}

/// An end of a connection.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Which it is.
    pub id: Id,
    /// Its family: a place in [`Scan::families`].
    pub family: usize,
    /// The processes that have it: places in [`Scan::processes`]. Never empty.
    pub holders: Vec<usize>,
    /// Its network namespace.
    pub net: u64,
    /// What its record says.
    pub record: Record,
}

impl Connection {
    /// The local address and the peer's.
    pub fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.record.addresses
    }

    /// Whether a VI carries it, in at least one direction.
    pub fn is_on_vi(&self) -> bool {
        let record = &self.record;
        record.phase == Phase::Attached
            && (record.sends == Sends::Vi || record.receives == Receives::Vi)
    }

    /// In one word: how far it has come.
    pub fn state(&self) -> &'static str {
        let record = &self.record;
        match record.phase {
            Phase::Candidate => "meeting",
            Phase::Plain | Phase::Free => "tcp",
            Phase::Attached if record.falls_back => "leaving",
            Phase::Attached if record.is_accelerated() => "via",
            Phase::Attached if self.is_on_vi() => "half",
            Phase::Attached if record.sends == Sends::Back => "tcp",
            Phase::Attached => "entering",
        }
    }

    /// What carries it: `tcp`, `shm` for memory that both processes share, or the name of a NIC in software.
    pub fn carrier(&self) -> &str {
        match &self.record.nic {
            _ if self.record.phase != Phase::Attached || self.state() == "tcp" => "tcp",
            Some(nic) => nic.as_str(),
            None => "shm",
        }
    }

    /// Why it is on TCP, or goes there, if it is known.
    pub fn reason(&self) -> Option<Reason> {
        self.record.stays.or(self.record.leaves).or(self.record.doubts)
    }
}

/// Processes that have come from one by fork.
#[derive(Debug)]
pub struct Family {
    /// Which it is.
    pub file: u64,
    /// Its processes: places in [`Scan::processes`].
    pub processes: Vec<usize>,
    /// What they have counted, but for what connections have not told yet ([`Record::unsettled`]).
    pub totals: Option<StatsPage>,
}

impl Family {
    /// What went over VIs: of its connections that are open, which are given, and of all before them.
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

/// A process whose connections cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable {
    /// Its id.
    pub pid: i32,
    /// Why.
    pub fault: Fault,
}

/// What was there at one time, or thereabouts: processes run on while they are read.
#[derive(Debug)]
pub struct Scan {
    /// When it began.
    pub at: Instant,
    /// The processes that show connections.
    pub processes: Vec<Process>,
    /// Their families.
    pub families: Vec<Family>,
    /// Their connections.
    pub connections: Vec<Connection>,
    /// Processes that show what cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// How many processes the kernel does not let be looked at.
    pub forbidden: usize,
}

/// A family while it is read.
struct Found {
    /// Places of processes in the family, and in the scan.
    places: Vec<(u32, usize)>,
    /// By inode; the first is the family's first.
    files: Vec<Shown>,
}

/// Looks at every process but this one.
///
/// # Errors
/// /proc cannot be read.
pub fn scan() -> std::io::Result<Scan> {
    let own = std::process::id() as i32;
    let entries = std::fs::read_dir("/proc")?.flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(scan_of(ids.filter(|&pid| pid != own)))
}

/// Looks at those processes.
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
                let library = own.first.legend.library().to_owned();
                let Some(process) = folder.process(&library) else { continue };
                scan.processes.push(process);
                let process = scan.processes.len() - 1;
                let at = *known.entry(own.first.inode).or_insert(families.len());
                if at == families.len() {
                    families.push(Found { places: Vec::new(), files: Vec::new() });
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

/// What stands in a file: the numbers of records, and what they say.
type Records = Vec<(u32, Record)>;

/// Each file is hundreds of reads: with several files, threads share them.
fn records_of(files: &[&Shown]) -> Vec<Records> {
    in_parts(files, 1, |files| {
        let mut records = Vec::with_capacity(files.iter().map(|file| file.count()).sum());
        records.extend(files.iter().flat_map(|file| file.records()));
        records
    })
}

impl Found {
    fn add(&mut self, own: Own, process: usize, memory: &MemoryFiles) {
        self.places.push((own.place, process));
        let files = &self.files;
        let is_known = |inode| files.iter().any(|file| file.inode == inode);
        let others = own.others(memory, is_known);
        if self.files.is_empty() {
            self.files.push(own.first);
        }
        self.files.extend(others);
    }

    /// `records` are those of the files, in their order.
    fn read(&self, scan: &mut Scan, records: &mut impl Iterator<Item = Records>) {
        let family = scan.families.len();
        for (file, records) in self.files.iter().zip(records) {
            for (record, said) in records {
                let holds = |place: u32| said.holders.may_have(place);
                let holders = self.places.iter().filter(|(place, _)| holds(*place));
                let holders: Vec<usize> = holders.map(|(_, process)| *process).collect();
                // One whose processes have died, or may not be looked at.
                let Some(&one) = holders.first() else { continue };
                let id = Id { file: file.inode, record, life: said.generation };
                let net = scan.processes[one].net;
                scan.connections.push(Connection { id, family, holders, net, record: said });
            }
        }
        let Some(first) = self.files.first() else { return };
        let totals = match first.legend.shape.totals_at {
            sovia_control::board::ABSENT => None,
            at => first.bytes(u64::from(at), StatsPage::SIZE),
        };
        scan.families.push(Family {
            file: first.inode,
            processes: self.places.iter().map(|(_, process)| *process).collect(),
            totals: totals.and_then(|bytes| StatsPage::copy_of(&bytes).ok()),
        });
    }
}
