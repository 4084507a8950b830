//! Asks the kernel which descriptors are the socket of a connection, independently of the table.

use super::slots::{FDS, slot};
use super::word::decode;
use super::{Entry, Ref, for_each_conn};
use crate::conn::Conn;
use crate::per_engine::per_engine;
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_sys::call;

/// Returns true if a descriptor is a connection's socket. Asks the kernel. The table may be wrong if the program has
/// closed and reopened the number by its own system calls. The table may also be wrong in a child with a descriptor
/// table of its own.
pub(crate) fn is_socket_of(fd: i32, conn: &Conn) -> bool {
    let cookie = conn.cookie.load(Ordering::Relaxed);
    cookie != 0 && sovia_sys::diag::cookie(fd) == Ok(cookie)
}

/// Returns the connection of this process whose socket `fd` is, and another descriptor of this connection. Asks the
/// kernel.
pub(crate) fn conn_of_socket(fd: i32) -> Option<(i32, Ref)> {
    let cookie = sovia_sys::diag::cookie(fd).ok()?;
    let mut found = None;
    for_each_conn(|own, at| {
        let is_same = own != fd && at.conn.cookie.load(Ordering::Relaxed) == cookie;
        if is_same && is_socket_of(own, at.conn) {
            found = Some((own, at));
        }
    });
    found
}

/// Like [`get`](super::get), in a child that runs on this process's memory with a descriptor table of its own. An entry
/// is valid there only if the number still is the same socket.
#[cold]
#[inline(never)]
pub(super) fn get_elsewhere(fd: i32) -> Entry {
    match slot(fd).map(|slot| decode(slot.load(Ordering::Acquire))) {
        Some(Entry::Conn(at)) if is_socket_of(fd, at.conn) => Entry::Conn(at),
        // The child needs private descriptors until it executes a program: they pass unread bytes on.
        Some(Entry::Private) => Entry::Private,
        _ => Entry::Foreign,
    }
}

per_engine! {
    /// Set once a child on this process's memory has given a connection another number.
    static HAS_ALIASES: AtomicBool = AtomicBool::new(false);
}

/// Records that a child on this process's memory has given a connection another number. The table does not contain this
/// number.
pub fn note_alias() {
    HAS_ALIASES.store(true, Ordering::Relaxed);
}

/// Calls `each` for every descriptor that may be the socket of a connection of this process. The caller is a child on
/// this process's memory with a descriptor table of its own. [`is_socket_of`] asks the kernel to be certain.
pub(crate) fn for_each_conn_elsewhere(mut each: impl FnMut(i32, Ref)) {
    if !HAS_ALIASES.load(Ordering::Relaxed) {
        return for_each_conn(each);
    }
    let mut known = Vec::new();
    for_each_conn(|_, at| {
        let cookie = at.conn.cookie.load(Ordering::Relaxed);
        if cookie != 0 {
            known.push((cookie, at));
        }
    });
    if known.is_empty() {
        return;
    }
    known.sort_unstable_by_key(|&(cookie, _)| cookie);
    let look = |fd| {
        if let Ok(cookie) = sovia_sys::diag::cookie(fd)
            && let Ok(found) = known.binary_search_by_key(&cookie, |&(cookie, _)| cookie)
        {
            each(fd, known[found].1);
        }
    };
    let mut open = Vec::new();
    if call::each_descriptor(|fd| open.push(fd)) {
        open.into_iter().for_each(look);
    } else {
        (0..highest()).for_each(look);
    }
}

/// Returns a number that no open descriptor reaches.
fn highest() -> i32 {
    let limit = sovia_sys::call::soft_limit(libc::RLIMIT_NOFILE).unwrap_or(FDS as u64);
    // Descriptors above a lowered limit may still exist, but they are few. So at least 64 Ki numbers are checked.
    (limit.max(1 << 16) as usize).min(FDS) as i32
}
