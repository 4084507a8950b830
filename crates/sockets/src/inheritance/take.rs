//! What a program takes over of the process that became it.

use crate::conn::{Holding, RECORD, Role};
use crate::family;
use crate::members::{self, LIST_LEN};
use crate::per_engine::per_engine;
use crate::table::{self, Ref};
use core::sync::atomic::{AtomicUsize, Ordering};
use sovia_control::inheritance::{Inheritance, Inherited, LEN, NUMBERS, Passed};
use sovia_sys::mapping::is_sealed_memory;
use sovia_sys::{Fd, call, diag};
use std::sync::OnceLock;

/// A connection of this process's, and what it was in the family that had it.
#[derive(Debug)]
struct Connection {
    here: Ref,
    there: Inherited,
}

/// All that this process has taken over.
#[derive(Debug)]
struct Taken {
    /// The records of that family, and its locks.
    records: Passed,
    locks: Passed,
    connections: Vec<Connection>,
    /// Connections that other processes may hold still. The two files are closed with the last of them.
    undecided: AtomicUsize,
}

per_engine! {
    static TAKEN: OnceLock<Taken> = OnceLock::new();
}

/// At the start of a program: takes what has been left to it. `record` records a connection.
pub fn take(record: impl Fn(i32, Role)) {
    let Some(inheritance) = NUMBERS.clone().find_map(left_as) else { return };
    let head = inheritance.head();
    let (Some(records), Some(locks)) = (claim(head.records), claim(head.locks)) else { return };
    if head.layout != Holding::LAYOUT || !is_sealed_memory(records.raw(), family::FILE_LEN) {
        return;
    }
    let mut connections: Vec<Connection> = Vec::new();
    for there in inheritance.each() {
        if !table::is_blank(there.fd) || diag::cookie(there.fd) != Ok(there.cookie) {
            continue;
        }
        if let Some(known) = connections.iter().find(|known| known.there.cookie == there.cookie) {
            table::refer(there.fd, known.here);
            continue;
        }
        record(there.fd, if there.is_connector { Role::Connector } else { Role::Acceptor });
        let Some(here) = table::conn(there.fd) else { continue };
        here.conn.approach.inherited.store(1, Ordering::Release);
        // What it has carried is not known here.
        here.conn.rx_pins.abandon();
        here.conn.tx_pins.abandon();
        connections.push(Connection { here, there });
    }
    if connections.is_empty() {
        return;
    }
    let undecided = AtomicUsize::new(connections.len());
    let _ = (records.into_raw(), locks.into_raw());
    let (records, locks) = (head.records, head.locks);
    let _ = TAKEN.set(Taken { records, locks, connections, undecided });
}

/// Takes a file over that has been passed on, if its number is no other file's.
fn claim(passed: Passed) -> Option<Fd> {
    is_there(passed).then(|| Fd::inherit(passed.fd))
}

fn is_there(passed: Passed) -> bool {
    call::file_id(passed.fd).is_ok_and(|(_, inode)| inode == passed.inode)
}

/// The inheritance under that number, if this program is meant.
fn left_as(number: i32) -> Option<Inheritance> {
    if !is_sized(number) {
        return None;
    }
    let mut bytes = [0; LEN];
    let is_whole = call::pread(number, &mut bytes, 0) == Ok(LEN);
    let inheritance = Inheritance::decode(&bytes).filter(|_| is_whole)?;
    // Whichever program it was for, it ends here.
    drop(Fd::keep(number));
    let head = inheritance.head();
    let program = call::program_at(c"/proc/self/exe").ok().map(|(program, _)| program);
    if head.pid != call::getpid() || Some(head.program) != program {
        // One for another program has come by way of that.
        drop((claim(head.records), claim(head.locks)));
        return None;
    }
    Some(inheritance)
}

fn is_sized(number: i32) -> bool {
    call::file_size(number) == Ok(LEN as u64) && call::file_system(number) == Ok(libc::TMPFS_MAGIC)
}

/// Whether no other process holds a connection that this process may have inherited.
pub(crate) fn is_alone(fd: i32, at: Ref) -> bool {
    at.conn.approach.inherited.load(Ordering::Acquire) == 0 || has_come_to_be_alone(fd, at)
}

/// Whether the kernel is to signal news of a socket, or to process its stream. Another process may have asked for that.
fn is_for_kernel(fd: i32) -> bool {
    let flags = call::fcntl(fd, libc::F_GETFL, 0).unwrap_or(libc::O_ASYNC as usize);
    let protocol = call::getsockopt::<[u8; 16]>(fd, libc::IPPROTO_TCP, libc::TCP_ULP);
    flags & libc::O_ASYNC as usize != 0 || protocol.is_ok_and(|name| name[0] != 0)
}

#[cold]
fn has_come_to_be_alone(fd: i32, at: Ref) -> bool {
    let Some(taken) = TAKEN.get() else { return false };
    let Some(connection) = taken.connections.iter().find(|connection| connection.here.same(at))
    else {
        return false;
    };
    // In this order: what others have asked for is there once they have gone.
    if !taken.no_other_holds(&connection.there) || is_for_kernel(fd) {
        return false;
    }
    if at.conn.approach.inherited.swap(0, Ordering::AcqRel) != 0 {
        taken.decided();
    }
    true
}

impl Taken {
    /// Whether no process of the family that had a connection holds it any more, and none but this has got it from
    /// there.
    fn no_other_holds(&self, there: &Inherited) -> bool {
        let Some(before) = self.held(there) else { return false };
        let mut list = [0; LIST_LEN];
        if call::pread(self.records.fd, &mut list, 0) != Ok(LIST_LEN) {
            return false;
        }
        if before.is_of(there.generation)
            && members::any_lives(&list, before.holders, self.locks.fd)
        {
            return false;
        }
        // A process that has died meanwhile may have given it to a child first, which was on record before it lived. In
        // another life there is none: the last of them has let it go.
        let now = self.held(there);
        // Another thread may have closed the files meanwhile.
        let are_there = is_there(self.records) && is_there(self.locks);
        are_there
            && now.is_some_and(|now| {
                !now.is_spread(there.generation)
                    && (now == before || !before.is_of(there.generation))
            })
    }

    fn held(&self, there: &Inherited) -> Option<Holding> {
        let mut record = [0; RECORD];
        let at = family::place_in_file(there.index)? as i64;
        (call::pread(self.records.fd, &mut record, at) == Ok(RECORD)).then(|| Holding::of(&record))
    }

    fn decided(&self) {
        if self.undecided.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.close();
        }
    }

    fn close(&self) {
        for passed in [self.records, self.locks] {
            if is_there(passed) {
                drop(Fd::keep(passed.fd));
            }
        }
    }
}

/// This process has no part any more in what others have: it will not look again.
pub(crate) fn forget() {
    if let Some(taken) = TAKEN.get()
        && taken.undecided.swap(0, Ordering::AcqRel) != 0
    {
        taken.close();
    }
}
