//! What a program takes over of the process that became it.

use crate::conn::{Holding, RECORD, Role, flag};
use crate::members::{self, LIST_LEN};
use crate::per_engine::per_engine;
use crate::table::{self, Ref};
use crate::family;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;
use sovia_control::bequest::{Bequest, Inherited, LEN, NUMBERS};
use sovia_sys::mapping::is_sealed_memory;
use sovia_sys::{Fd, call, diag};

/// A connection of this process's, and what it was in the family that had it.
#[derive(Debug)]
struct Heirloom {
    here: Ref,
    there: Inherited,
}

/// All that this process has taken over.
#[derive(Debug)]
struct Estate {
    /// The records of that family, and its locks.
    records: i32,
    locks: i32,
    heirlooms: Vec<Heirloom>,
    /// Connections that other processes may hold still. The two files are closed with the last of them.
    undecided: AtomicUsize,
}

per_engine! {
    static ESTATE: OnceLock<Estate> = OnceLock::new();
}

/// At the start of a program: takes what has been left to it. `record` records a connection.
pub fn take(record: impl Fn(i32, Role)) {
    let Some(bequest) = NUMBERS.clone().find_map(left_as) else { return };
    let head = bequest.head();
    let (records, locks) = (Fd::inherit(head.records), Fd::inherit(head.locks));
    if head.layout != Holding::LAYOUT || !is_sealed_memory(records.raw(), family::FILE_LEN) {
        return;
    }
    let mut heirlooms: Vec<Heirloom> = Vec::new();
    for there in bequest.each() {
        if !table::is_blank(there.fd) || diag::cookie(there.fd) != Ok(there.cookie) {
            continue;
        }
        if let Some(known) = heirlooms.iter().find(|known| known.there.cookie == there.cookie) {
            table::refer(there.fd, known.here);
            continue;
        }
        record(there.fd, if there.is_connector { Role::Connector } else { Role::Acceptor });
        let Some(here) = table::conn(there.fd) else { continue };
        here.conn.set(flag::INHERITED);
        // What it has carried is not known here.
        here.conn.rx_pins.abandon();
        here.conn.tx_pins.abandon();
        heirlooms.push(Heirloom { here, there });
    }
    if heirlooms.is_empty() {
        return;
    }
    let undecided = AtomicUsize::new(heirlooms.len());
    let (records, locks) = (records.into_raw(), locks.into_raw());
    let _ = ESTATE.set(Estate { records, locks, heirlooms, undecided });
}

/// The bequest under that number, if this program is meant.
fn left_as(number: i32) -> Option<Bequest> {
    if !is_sized(number) {
        return None;
    }
    let mut bytes = [0; LEN];
    let is_whole = call::pread(number, &mut bytes, 0) == Ok(LEN);
    let bequest = Bequest::decode(&bytes).filter(|_| is_whole)?;
    // Whoever it was for, it ends here.
    drop(Fd::keep(number));
    let head = bequest.head();
    let program = call::file_id_of(c"/proc/self/exe").ok()?;
    if head.pid != call::getpid() || head.program != program {
        drop(Fd::keep(head.records));
        drop(Fd::keep(head.locks));
        return None;
    }
    Some(bequest)
}

fn is_sized(number: i32) -> bool {
    call::file_size(number) == Ok(LEN as u64)
        && call::file_system(number) == Ok(libc::TMPFS_MAGIC)
}

/// Whether no other process holds a connection that this process may have inherited.
pub(crate) fn is_alone(at: Ref) -> bool {
    !at.conn.has(flag::INHERITED) || has_come_to_be_alone(at)
}

#[cold]
fn has_come_to_be_alone(at: Ref) -> bool {
    let Some(estate) = ESTATE.get() else { return false };
    let Some(heirloom) = estate.heirlooms.iter().find(|heirloom| heirloom.here.same(at)) else {
        return false;
    };
    if !estate.nobody_holds(&heirloom.there) {
        return false;
    }
    if at.conn.clear(flag::INHERITED) & flag::INHERITED != 0 {
        estate.decided();
    }
    true
}

impl Estate {
    /// Whether no process of the family that had a connection holds it any more, and none but this has got it from
    /// there.
    fn nobody_holds(&self, there: &Inherited) -> bool {
        let Some(before) = self.held(there) else { return false };
        let mut list = [0; LIST_LEN];
        if call::pread(self.records, &mut list, 0) != Ok(LIST_LEN) {
            return false;
        }
        if before.is_of(there.generation)
            && members::any_lives(&list, before.holders, self.locks)
        {
            return false;
        }
        // A process that has died meanwhile may have given it to a child first, which was on record before it lived. In
        // another life there is nobody: the last of them has let it go.
        let now = self.held(there);
        now.is_some_and(|now| {
            !now.is_spread(there.generation)
                && (now == before || !before.is_of(there.generation))
        })
    }

    fn held(&self, there: &Inherited) -> Option<Holding> {
        let mut record = [0; RECORD];
        let at = family::place_in_file(there.index)? as i64;
        (call::pread(self.records, &mut record, at) == Ok(RECORD)).then(|| Holding::of(&record))
    }

    fn decided(&self) {
        if self.undecided.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.close();
        }
    }

    fn close(&self) {
        drop(Fd::keep(self.records));
        drop(Fd::keep(self.locks));
    }
}

/// This process has no part any more in what others have: it will not look again.
pub(crate) fn forget() {
    if let Some(estate) = ESTATE.get()
        && estate.undecided.swap(0, Ordering::AcqRel) != 0
    {
        estate.close();
    }
}
