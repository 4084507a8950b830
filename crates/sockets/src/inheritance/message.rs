//! Connections that processes send to each other, as descriptors in messages.
//!
//! The sender records each (`PassedOn`) in the memory of its family, with the socket at the other end of the channel. The
//! receiver knows from the channel which process has sent it, or made the channel, and looks in the records of that one's
//! family; or in its own family's, which may be the sender's. The socket on which it receives must be the one that the
//! sender has named: a process in between, which may have kept the connection, has sent it to another one. It must be the
//! family's first message of that connection, and no process of the receiver's family may have looked at a message and left
//! it. From then on it is as with a connection that a program inherits.

use super::families::{self, Files, Which};
use super::leave::may_be_on_vi;
use super::take::inherit;
use crate::conn::{Holding, Role};
use crate::passed_on::{Copy, LEN, Sent};
use crate::table::{self, Ref};
use crate::{family, members, process};
use core::sync::atomic::{AtomicBool, Ordering};
use smallvec::SmallVec;
use sovia_control::inheritance::Passed;
use sovia_signal::chain;
use sovia_sys::mapping::is_sealed_memory;
use sovia_sys::{Fd, call, diag};

/// A connection is about to be sent to another process, on `channel`. True if that may put it on a VI.
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
    let sent = Sent { index, generation, is_connector: conn.is_connector(), to };
    passed_on.add(conn.cookie.load(Ordering::Relaxed), sent);
    true
}

/// Whether this process has looked at a message with a connection, and left it there.
static HAS_LOOKED: AtomicBool = AtomicBool::new(false);

/// This process has got a descriptor of a message that it has left where it is: that of a connection may be used by it,
/// and come to another process as well.
pub(crate) fn looked_at(fd: i32) {
    if table::is_tcp(fd) {
        HAS_LOOKED.store(true, Ordering::Release);
        if let Some(passed_on) = family::passed_on() {
            passed_on.note_look();
        }
    }
}

/// A descriptor has come in a message on `channel`. `record` records a connection.
pub(crate) fn received(channel: i32, fd: i32, record: impl Fn(i32, Role)) {
    if process::is_confined()
        || process::is_borrowed()
        || !table::is_blank(fd)
        || !table::is_tcp(fd)
    {
        return;
    }
    let Ok(cookie) = diag::cookie(fd) else { return };
    // Whichever process of the family gets it next, it is not as it was sent from here.
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
        Some(sent) => Some((Which::OWN, sent)),
        None => find(channel, cookie),
    };
    let Some((which, sent)) = found.filter(|(_, sent)| sent.to == to) else { return };
    record(fd, if sent.is_connector { Role::Connector } else { Role::Acceptor });
    if let Some(here) = table::conn(fd) {
        here.conn.approach.came.store(1, Ordering::Relaxed);
        inherit(here, which, sent.index, sent.generation);
    }
}

/// What the socket with that cookie was in which other family.
fn find(channel: i32, cookie: u64) -> Option<(Which, Sent)> {
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

/// What has been read, if it is the same a second time: the sender of another connection may be in the middle of an entry.
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

/// The files of the family, among those that a process has open, that has sent the socket with that cookie.
fn look_for(process: i32, cookie: u64) -> Option<(Files, Sent)> {
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
    if copy.locks() == members::locks_id() {
        // The family's own: to close it would give this process's lock back.
        return None;
    }
    let locks = file(*locks).filter(|(_, inode)| *inode == copy.locks())?;
    let passed = |(file, inode): (Fd, u64)| Passed { fd: file.into_raw(), inode };
    Some((Files { records: passed((records, inode)), locks: passed(locks) }, sent))
}
