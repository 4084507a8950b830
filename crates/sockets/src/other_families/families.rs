//! Families from which this process has connections: the files with their records. Also checks if a process of a
//! family still holds a connection.

use crate::conn::{Holding, RECORD};
use crate::per_engine::per_engine;
use crate::process_slots;
use crate::{family, process};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use sovia_control::inheritance::Passed;
use sovia_sys::{Fd, call};

/// Maximum number of known families at a time.
const FAMILIES: usize = 8;
/// Number of this process's own family.
const OWN: u32 = FAMILIES as u32;

/// The two files of a family: its records and its locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Files {
    pub(super) records: Passed,
    pub(super) locks: Passed,
}

#[derive(Debug)]
struct File {
    fd: AtomicI32,
    inode: AtomicU64,
}

impl File {
    const fn new() -> File {
        File { fd: AtomicI32::new(-1), inode: AtomicU64::new(0) }
    }

    fn set(&self, passed: Passed) {
        self.fd.store(passed.fd, Ordering::Relaxed);
        self.inode.store(passed.inode, Ordering::Relaxed);
    }

    fn get(&self) -> Passed {
        let (fd, inode) = (&self.fd, &self.inode);
        Passed { fd: fd.load(Ordering::Relaxed), inode: inode.load(Ordering::Relaxed) }
    }
}

/// A known family.
#[derive(Debug)]
struct Slot {
    state: AtomicU32,
    /// Id of the process from which a connection of the family came. A later connection from this process is looked
    /// up in the same family.
    sender: AtomicI32,
    /// Number of connections for which it is still unknown if a process of the family holds them.
    undecided: AtomicU32,
    records: File,
    locks: File,
}

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const KNOWN: u32 = 2;

per_engine! {
    static SLOTS: [Slot; FAMILIES] = [const {
        Slot {
            state: AtomicU32::new(FREE),
            sender: AtomicI32::new(0),
            undecided: AtomicU32::new(0),
            records: File::new(),
            locks: File::new(),
        }
    }; FAMILIES];
}

/// Number of a family plus one, so that the number is not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FamilyNumber(u32);

impl FamilyNumber {
    pub(super) const OWN: FamilyNumber = FamilyNumber(OWN + 1);

    pub(super) fn word(self) -> u32 {
        self.0
    }

    pub(super) fn from_word(word: u32) -> Option<FamilyNumber> {
        (word != 0).then_some(FamilyNumber(word))
    }

    fn slot(self) -> Option<&'static Slot> {
        SLOTS.get(self.0 as usize - 1)
    }
}

/// Adds a family. Returns `None` if the table is full. Otherwise the table owns the descriptors in `files` from
/// then on.
pub(super) fn add(files: Files, sender: i32) -> Option<FamilyNumber> {
    add_to_free(files, sender).or_else(|| {
        SLOTS.iter().filter(|slot| slot.is_done_with()).for_each(Slot::close);
        add_to_free(files, sender)
    })
}

fn add_to_free(files: Files, sender: i32) -> Option<FamilyNumber> {
    for (slot, n) in SLOTS.iter().zip(1..) {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        if slot.state.compare_exchange(FREE, TAKEN, success, failure).is_ok() {
            slot.records.set(files.records);
            slot.locks.set(files.locks);
            slot.undecided.store(0, Ordering::Relaxed);
            slot.sender.store(sender, Ordering::Relaxed);
            slot.state.store(KNOWN, Ordering::Release);
            return Some(FamilyNumber(n));
        }
    }
    None
}

/// Returns the families whose connections have come from the process `sender`.
pub(super) fn of_sender(sender: i32) -> impl Iterator<Item = (FamilyNumber, Files)> {
    SLOTS.iter().zip(1..).filter_map(move |(slot, n)| {
        let is_it = slot.sender.load(Ordering::Relaxed) == sender;
        is_it.then(|| files_of(FamilyNumber(n))).flatten().map(|files| (FamilyNumber(n), files))
    })
}

fn files_of(which: FamilyNumber) -> Option<Files> {
    if which == FamilyNumber::OWN {
        let (records, locks) = (family::file()?, process_slots::locks()?);
        let passed = |fd| call::file_id(fd).ok().map(|(_, inode)| Passed { fd, inode });
        return Some(Files { records: passed(records)?, locks: passed(locks)? });
    }
    let slot = which.slot()?;
    let is_known = slot.state.load(Ordering::Acquire) == KNOWN;
    is_known.then(|| Files { records: slot.records.get(), locks: slot.locks.get() })
}

/// Counts a connection of the family as undecided.
pub(super) fn begin(which: FamilyNumber) {
    if let Some(slot) = which.slot() {
        slot.undecided.fetch_add(1, Ordering::AcqRel);
    }
}

/// Counts a connection of the family as decided.
pub(super) fn decided(which: FamilyNumber) {
    if let Some(slot) = which.slot() {
        slot.undecided.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Forgets all families: this process no longer shares connections with other processes.
pub(crate) fn forget() {
    SLOTS.iter().for_each(Slot::close);
}

impl Slot {
    /// Returns true if the family is no longer needed: its sender has ended, and all its connections are decided.
    fn is_done_with(&self) -> bool {
        let sender = self.sender.load(Ordering::Relaxed);
        self.state.load(Ordering::Acquire) == KNOWN
            && self.undecided.load(Ordering::Acquire) == 0
            && !call::process_exists(sender)
    }

    fn close(&self) {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        if self.state.compare_exchange(KNOWN, TAKEN, success, failure).is_ok() {
            for passed in [self.records.get(), self.locks.get()] {
                if is_there(passed) {
                    drop(Fd::keep(passed.fd));
                }
            }
            self.sender.store(0, Ordering::Relaxed);
            self.state.store(FREE, Ordering::Release);
        }
    }
}

/// Returns true if the descriptor in `passed` still refers to the same file.
pub(super) fn is_there(passed: Passed) -> bool {
    call::file_id(passed.fd).is_ok_and(|(_, inode)| inode == passed.inode)
}

/// Returns true if no process of a family holds a connection any more. Returns false if several programs or
/// processes outside the family may have got the connection. `index` and `generation` name the connection's record.
pub(super) fn none_holds(which: FamilyNumber, index: u32, generation: u32) -> bool {
    let Some(files) = files_of(which) else { return false };
    let held = || -> Option<Holding> {
        let mut record = [0; RECORD];
        let at = family::place_in_file(index)? as i64;
        let is_whole = call::pread(files.records.fd, &mut record, at) == Ok(RECORD);
        is_whole.then(|| Holding::of(&record))
    };
    let Some(before) = held() else { return false };
    let pid_of = |slot| {
        let mut pid = [0; 4];
        let at = (family::PROCESS_SLOTS_AT + process_slots::pid_at(slot)) as i64;
        let is_whole = call::pread(files.records.fd, &mut pid, at) == Ok(pid.len());
        is_whole.then(|| i32::from_ne_bytes(pid))
    };
    // The kernel reports locks of other processes only. So search the list of holders for this process.
    let is_mine = which == FamilyNumber::OWN && process_slots::has_me(before.references.word());
    let others = process_slots::any_may_live(before.references, files.locks.fd, pid_of);
    if before.is_of(generation) && (is_mine || others) {
        return false;
    }
    // Read the record again, because a holder may have died after it had given the connection to a child. The
    // record names a child before the child runs, so a new child changes the record. If the generation has changed,
    // the last holder has released the connection.
    let now = held();
    // Another thread may have closed the files meanwhile. Then the bytes may come from other files.
    let are_there = is_there(files.records) && is_there(files.locks);
    are_there
        && !process::has_shared()
        && now.is_some_and(|now| {
            !now.is_spread(generation)
                && !now.is_settling(generation)
                && (now == before || !before.is_of(generation))
        })
}
