//! Connections that one process sends to another, as descriptors in messages.
//!
//! The sender records each connection (`PassedOn`) in its family's memory, with the socket at the other end of the
//! channel. The channel tells the receiver which process has sent the message, or has made the channel. The receiver
//! looks in the records of that process's family, and in those of its own family, which may be the sender's.
//!
//! Three conditions must hold. The message must arrive on the socket that the sender has recorded. Otherwise a
//! process in between has sent the connection on, and may have kept the connection. The message must be the first
//! message with this connection that the receiver's family gets. And no process of the receiver's family may have
//! looked at a message and left the message in the queue. If all three conditions hold, the receiver
//! remembers the connection's record.

use super::alone::{inherit, is_alone};
use super::families::{self, FamilyNumber, Files};
use crate::conn::{Holding, Role};
use crate::passed_on::{Copy, LEN, SentConnection};
use crate::table::{self, Ref};
use crate::{family, process, process_slots};
use core::sync::atomic::{AtomicBool, Ordering};
use smallvec::SmallVec;
use sovia_control::inheritance::Passed;
use sovia_signal::chain;
use sovia_sys::mapping::is_sealed_memory;
use sovia_sys::{Fd, call, diag};

/// Records that a connection is about to be sent to another process on `channel`. Returns true if the receiver may
/// put the connection on a VI.
pub(crate) fn pass(channel: i32, fd: i32, at: Ref) -> bool {
    if process::is_borrowed() || process::has_shared() || family::file().is_none() {
        return false;
    }
    let Some(passed_on) = family::passed_on().filter(|_| may_be_on_vi(fd, at)) else {
        return false;
    };
    let conn = at.conn;
    let has_come = conn.approach.came.load(Ordering::Relaxed) != 0;
    let Ok(to) = diag::unix_peer(channel) else { return false };
    if has_come || !conn.hand() {
        return false;
    }
    let (index, generation) = (at.index, at.generation);
    let sent = SentConnection { index, generation, is_connector: conn.is_connector(), to };
    passed_on.add(conn.cookie.load(Ordering::Relaxed), sent);
    true
}

/// Returns true if a connection may get a VI in another process.
fn may_be_on_vi(fd: i32, at: Ref) -> bool {
    at.conn.phase().may_be_on_vi() && is_alone(fd, at) && family::place_in_file(at.index).is_some()
}

/// Set once this process has peeked at a message with a connection, and so left the message in the queue.
static HAS_LOOKED: AtomicBool = AtomicBool::new(false);

/// Records that this process got `fd` from a message that stays in the queue, because the process only peeked at
/// the message. Another process may get the same connection from the queue.
pub(crate) fn looked_at(fd: i32) {
    if table::is_tcp(fd) {
        HAS_LOOKED.store(true, Ordering::Release);
        if let Some(passed_on) = family::passed_on() {
            passed_on.note_look();
        }
    }
}

/// Handles a descriptor that came in a message on `channel`. `record` enters a connection in this process's tables.
pub(crate) fn received(channel: i32, fd: i32, record: impl Fn(i32, Role)) {
    if process::is_under_seccomp()
        || process::is_borrowed()
        || !table::is_blank(fd)
        || !table::is_tcp(fd)
    {
        return;
    }
    let Ok(cookie) = diag::cookie(fd) else { return };
    // Remove the sender's entry in any case. If a process of the family gets the socket later, it does not get the
    // socket from this sender.
    let own = || {
        let passed_on = family::passed_on()?;
        let sent = twice(|| Some(passed_on.read()))?.find(cookie);
        let is_struck = passed_on.strike(cookie);
        sent.filter(|_| is_struck)
    };
    let own = own();
    let has_looked = || {
        HAS_LOOKED.load(Ordering::Acquire)
            || family::passed_on().is_some_and(|passed_on| passed_on.read().has_looked())
    };
    if process::has_shared() || chain::is_in_handler() || has_looked() {
        return;
    }
    let Ok((_, to)) = call::file_id(channel) else { return };
    let found = match own {
        Some(sent) => Some((FamilyNumber::OWN, sent)),
        None => find(channel, cookie),
    };
    let Some((which, sent)) = found.filter(|(_, sent)| sent.to == to) else { return };
    record(fd, if sent.is_connector { Role::Connector } else { Role::Acceptor });
    if let Some(here) = table::conn(fd) {
        here.conn.approach.came.store(1, Ordering::Relaxed);
        inherit(here, which, sent.index, sent.generation);
    }
}

/// Returns the family that sent the socket with this cookie, and the family's entry for this socket.
fn find(channel: i32, cookie: u64) -> Option<(FamilyNumber, SentConnection)> {
    let sender = call::peer_of(channel).filter(|&pid| pid != call::getpid())?;
    let known = families::of_sender(sender)
        .find_map(|(which, files)| Some((which, read(files.records.fd)?.find(cookie)?)));
    known.or_else(|| {
        let (files, sent) = look_for(sender, cookie)?;
        match families::add(files, sender) {
            Some(which) => Some((which, sent)),
            None => {
                drop((Fd::keep(files.records.fd), Fd::keep(files.locks.fd)));
                None
            }
        }
    })
}

/// Calls `read` twice, and returns the copy if both copies are equal. If the copies differ, another process was
/// writing an entry.
fn twice(read: impl Fn() -> Option<Copy>) -> Option<Copy> {
    let once = read()?;
    (read()? == once).then_some(once)
}

fn read(records: i32) -> Option<Copy> {
    let read = || {
        let mut bytes = [0; LEN];
        let is_whole = call::pread(records, &mut bytes, family::PASSED_ON_AT as i64) == Ok(LEN);
        is_whole.then(|| Copy::of(&bytes))
    };
    twice(read).filter(|copy| copy.layout() == Holding::LAYOUT)
}

/// Searches the open files of `process` for the files of the family that sent the socket with this cookie.
fn look_for(process: i32, cookie: u64) -> Option<(Files, SentConnection)> {
    let mut open: SmallVec<[i32; 64]> = SmallVec::new();
    call::each_descriptor_of(process, |fd| open.push(fd));
    let named = |fd: i32, name: &[u8]| {
        let mut link = [0; 64];
        let n = call::read_link_of(process, fd, &mut link).unwrap_or(0);
        link[..n].starts_with(name)
    };
    let file = |fd: i32| {
        let opened = Fd::make(|| call::open_of(process, fd, libc::O_RDONLY)).ok()?;
        let (_, inode) = call::file_id(opened.raw()).ok()?;
        Some((opened, inode))
    };
    let records = open.iter().filter(|&&fd| named(fd, b"/memfd:sovia-records"));
    let (records, inode, copy, sent) = records.copied().find_map(|fd| {
        let (records, inode) = file(fd)?;
        is_sealed_memory(records.raw(), family::FILE_LEN).then_some(())?;
        let copy = read(records.raw())?;
        let sent = copy.find(cookie)?;
        Some((records, inode, copy, sent))
    })?;
    let is_it = |fd: &&i32| call::file_id_of(process, **fd).is_ok_and(|(_, id)| id == copy.locks());
    let locks = open.iter().filter(|&&fd| named(fd, b"/memfd:sovia-family")).find(is_it)?;
    if copy.locks() == process_slots::locks_id() {
        // The files belong to this process's own family. Do not open them: closing another descriptor of the lock
        // file would release this process's lock.
        return None;
    }
    let locks = file(*locks).filter(|(_, inode)| *inode == copy.locks())?;
    let passed = |(file, inode): (Fd, u64)| Passed { fd: file.into_raw(), inode };
    Some((Files { records: passed((records, inode)), locks: passed(locks) }, sent))
}
