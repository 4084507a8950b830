//! Families whose connections this process has got: where their records are, and which of their processes have a connection
//! still.

use crate::conn::{Holding, RECORD};
use crate::members;
use crate::per_engine::per_engine;
use crate::{family, process};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use sovia_control::inheritance::Passed;
use sovia_sys::{Fd, call};

/// Families that are known at a time.
const FAMILIES: usize = 8;
/// This process's own.
const OWN: u32 = FAMILIES as u32;

/// A family's two files: its records, and its locks.
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
    /// The process that it was found by, for a later connection of its; 0: none is expected.
    sender: AtomicI32,
    /// Connections of which it is not known yet whether the family has them still.
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

/// Which family, in a word that is not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Which(u32);

impl Which {
    pub(super) const OWN: Which = Which(OWN + 1);

    pub(super) fn word(self) -> u32 {
        self.0
    }

    pub(super) fn from_word(word: u32) -> Option<Which> {
        (word != 0).then_some(Which(word))
    }

    fn slot(self) -> Option<&'static Slot> {
        SLOTS.get(self.0 as usize - 1)
    }
}

/// Makes a family known; `None` if there are too many. The files are its descriptors from then on.
pub(super) fn add(files: Files, sender: i32) -> Option<Which> {
    add_to_free(files, sender).or_else(|| {
        SLOTS.iter().filter(|slot| slot.is_done_with()).for_each(Slot::close);
        add_to_free(files, sender)
    })
}

fn add_to_free(files: Files, sender: i32) -> Option<Which> {
    for (slot, n) in SLOTS.iter().zip(1..) {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        if slot.state.compare_exchange(FREE, TAKEN, success, failure).is_ok() {
            slot.records.set(files.records);
            slot.locks.set(files.locks);
            slot.undecided.store(0, Ordering::Relaxed);
            slot.sender.store(sender, Ordering::Relaxed);
            slot.state.store(KNOWN, Ordering::Release);
            return Some(Which(n));
        }
    }
    None
}

/// The families that are known by that process.
pub(super) fn of_sender(sender: i32) -> impl Iterator<Item = (Which, Files)> {
    SLOTS.iter().zip(1..).filter_map(move |(slot, n)| {
        let is_it = slot.sender.load(Ordering::Relaxed) == sender;
        is_it.then(|| files_of(Which(n))).flatten().map(|files| (Which(n), files))
    })
}

fn files_of(which: Which) -> Option<Files> {
    if which == Which::OWN {
        let (records, locks) = (family::file()?, members::locks()?);
        let passed = |fd| call::file_id(fd).ok().map(|(_, inode)| Passed { fd, inode });
        return Some(Files { records: passed(records)?, locks: passed(locks)? });
    }
    let slot = which.slot()?;
    let is_known = slot.state.load(Ordering::Acquire) == KNOWN;
    is_known.then(|| Files { records: slot.records.get(), locks: slot.locks.get() })
}

/// A connection of the family's is to be decided upon.
pub(super) fn begin(which: Which) {
    if let Some(slot) = which.slot() {
        slot.undecided.fetch_add(1, Ordering::AcqRel);
    }
}

/// It has been decided upon. The files of a family of which nothing more is expected are closed with the last one.
pub(super) fn decided(which: Which) {
    if let Some(slot) = which.slot()
        && slot.undecided.fetch_sub(1, Ordering::AcqRel) == 1
        && slot.sender.load(Ordering::Relaxed) == 0
    {
        slot.close();
    }
}

/// This process has no part any more in what others have: it will not look again.
pub(crate) fn forget() {
    SLOTS.iter().for_each(Slot::close);
}

impl Slot {
    /// Whether nothing more comes of it: its sender has ended, and all is decided.
    fn is_done_with(&self) -> bool {
        let sender = self.sender.load(Ordering::Relaxed);
        self.state.load(Ordering::Acquire) == KNOWN
            && self.undecided.load(Ordering::Acquire) == 0
            && sender != 0
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

/// Whether the descriptor is of that file still.
pub(super) fn is_there(passed: Passed) -> bool {
    call::file_id(passed.fd).is_ok_and(|(_, inode)| inode == passed.inode)
}

/// Whether no process of a family holds a connection any more that had that place in its records, and one program or
/// process alone has got it from there.
pub(super) fn none_holds(which: Which, index: u32, generation: u32) -> bool {
    let Some(files) = files_of(which) else { return false };
    let held = || -> Option<Holding> {
        let mut record = [0; RECORD];
        let at = family::place_in_file(index)? as i64;
        let is_whole = call::pread(files.records.fd, &mut record, at) == Ok(RECORD);
        is_whole.then(|| Holding::of(&record))
    };
    let Some(before) = held() else { return false };
    let pid_of = |place| {
        let mut pid = [0; 4];
        let at = (family::MEMBERS_AT + members::pid_at(place)) as i64;
        let is_whole = call::pread(files.records.fd, &mut pid, at) == Ok(pid.len());
        is_whole.then(|| i32::from_ne_bytes(pid))
    };
    // Of the family's own locks this process's is not seen, but it would know of a descriptor that it has.
    let is_mine = which == Which::OWN && members::has_me(before.holders.word());
    let others = members::any_may_live(before.holders, files.locks.fd, pid_of);
    if before.is_of(generation) && (is_mine || others) {
        return false;
    }
    // A process that has died meanwhile may have given it to a child first, which was on record before it lived. In
    // another life no process has it: the last of them has let it go.
    let now = held();
    // Another thread may have closed the files meanwhile.
    let are_there = is_there(files.records) && is_there(files.locks);
    are_there
        && !process::has_shared()
        && now.is_some_and(|now| {
            !now.is_spread(generation)
                && !now.is_settling(generation)
                && (now == before || !before.is_of(generation))
        })
}
