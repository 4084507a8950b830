//! Takes over data about inherited connections from the process that executed this program.

use super::families::{self, Files, Which, is_there};
use crate::conn::{Holding, Role};
use crate::family;
use crate::table::{self, Ref};
use core::sync::atomic::Ordering;
use sovia_control::inheritance::{Inheritance, LEN, NUMBERS, Passed};
use sovia_sys::mapping::is_sealed_memory;
use sovia_sys::{Fd, call, diag};

/// Takes the inheritance of the process that executed this program, if there is one. Called at the program's start.
/// `record` enters a connection in this process's tables.
pub fn take(record: impl Fn(i32, Role)) {
    let Some(inheritance) = NUMBERS.clone().find_map(left_as) else { return };
    let head = inheritance.head();
    let (Some(records), Some(locks)) = (claim(head.records), claim(head.locks)) else { return };
    if head.layout != Holding::LAYOUT || !is_sealed_memory(records.raw(), family::FILE_LEN) {
        return;
    }
    let _ = (records.into_raw(), locks.into_raw());
    let Some(which) = families::add(Files { records: head.records, locks: head.locks }, 0) else {
        return;
    };
    // Count one more undecided connection, so that the files stay open until all connections have been taken.
    families::begin(which);
    let mut known: Vec<(u64, Ref)> = Vec::new();
    for there in inheritance.each() {
        if !table::is_blank(there.fd) || diag::cookie(there.fd) != Ok(there.cookie) {
            continue;
        }
        if let Some(&(_, here)) = known.iter().find(|(cookie, _)| *cookie == there.cookie) {
            table::refer(there.fd, here);
            continue;
        }
        record(there.fd, if there.is_connector { Role::Connector } else { Role::Acceptor });
        let Some(here) = table::conn(there.fd) else { continue };
        inherit(here, which, there.index, there.generation);
        known.push((there.cookie, here));
    }
    families::decided(which);
}

/// Stores in a connection of this process which record the connection has in the family `which`.
pub(super) fn inherit(here: Ref, which: Which, index: u32, generation: u32) {
    families::begin(which);
    let approach = &here.conn.approach;
    approach.place_there.store(u64::from(index) << 32 | u64::from(generation), Ordering::Relaxed);
    approach.inherited.store(which.word(), Ordering::Release);
    here.conn.has_carried();
}

/// Takes over a file that another process has passed on. Returns `None` if the descriptor number refers to a
/// different file now.
fn claim(passed: Passed) -> Option<Fd> {
    is_there(passed).then(|| Fd::inherit(passed.fd))
}

/// Reads and closes the inheritance at this descriptor number. Returns `None` if there is no inheritance for this
/// program.
fn left_as(number: i32) -> Option<Inheritance> {
    if !is_sized(number) {
        return None;
    }
    let mut bytes = [0; LEN];
    let is_whole = call::pread(number, &mut bytes, 0) == Ok(LEN);
    let inheritance = Inheritance::decode(&bytes).filter(|_| is_whole)?;
    // Close the inheritance, even if it is for another program.
    drop(Fd::keep(number));
    let head = inheritance.head();
    let program = call::program_at(c"/proc/self/exe").ok().map(|(program, _)| program);
    if head.pid != call::getpid() || Some(head.program) != program {
        // The inheritance was for another program, which has executed the present program.
        drop((claim(head.records), claim(head.locks)));
        return None;
    }
    Some(inheritance)
}

fn is_sized(number: i32) -> bool {
    call::file_size(number) == Ok(LEN as u64) && call::file_system(number) == Ok(libc::TMPFS_MAGIC)
}

/// Returns true if no other process holds the connection. Only an inherited or received connection needs a check.
pub(crate) fn is_alone(fd: i32, at: Ref) -> bool {
    at.conn.approach.inherited.load(Ordering::Acquire) == 0 || has_come_to_be_alone(fd, at)
}

/// Returns true if the kernel must raise signals for the socket's events, or must process the socket's stream.
/// Another process may have requested this.
pub(crate) fn is_for_kernel(fd: i32) -> bool {
    let flags = call::fcntl(fd, libc::F_GETFL, 0).unwrap_or(libc::O_ASYNC as usize);
    let protocol = call::getsockopt::<[u8; 16]>(fd, libc::IPPROTO_TCP, libc::TCP_ULP);
    flags & libc::O_ASYNC as usize != 0 || protocol.is_ok_and(|name| name[0] != 0)
}

#[cold]
fn has_come_to_be_alone(fd: i32, at: Ref) -> bool {
    let approach = &at.conn.approach;
    let Some(which) = Which::from_word(approach.inherited.load(Ordering::Acquire)) else {
        return true;
    };
    let place = approach.place_there.load(Ordering::Relaxed);
    // Check for requests to the kernel last. The requests of other processes are visible once those processes no
    // longer hold the connection.
    if !families::none_holds(which, (place >> 32) as u32, place as u32) || is_for_kernel(fd) {
        return false;
    }
    if approach.inherited.swap(0, Ordering::AcqRel) != 0 {
        families::decided(which);
    }
    true
}
