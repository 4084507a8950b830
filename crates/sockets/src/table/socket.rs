//! Asks the kernel which descriptors are the socket of a connection. Does not rely on the table.

use super::slots::{FDS, slot};
use super::word::decode;
use super::{Entry, Ref, for_each_conn};
use crate::conn::Conn;
use crate::per_engine::per_engine;
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_sys::call;

/// Returns true if `fd` is the socket of the connection `conn`. Asks the kernel. The table may be wrong if the
/// program has closed and reopened the number by its own system calls. The table may also be wrong in a child with
/// its own descriptor table.
pub(crate) fn is_socket_of(fd: i32, conn: &Conn) -> bool {
    let cookie = conn.cookie.load(Ordering::Relaxed);
    cookie != 0 && sovia_sys::diag::cookie(fd) == Ok(cookie)
}

/// Returns the connection of this process that has the same socket as `fd`, with another descriptor of this
/// connection. Asks the kernel.
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

/// Like [`get`](super::get), for a child that runs on this process's memory with its own descriptor table. A
/// connection's entry is valid in the child only if `fd` is still the connection's socket.
#[cold]
#[inline(never)]
pub(super) fn get_elsewhere(fd: i32) -> Entry {
    match slot(fd).map(|slot| decode(slot.load(Ordering::Acquire))) {
        Some(Entry::Conn(at)) if is_socket_of(fd, at.conn) => Entry::Conn(at),
        // The child uses private descriptors to pass on unread bytes, until it executes a program.
        Some(Entry::Private) => Entry::Private,
        _ => Entry::Foreign,
    }
}

per_engine! {
    /// Set once a child on this process's memory has made another descriptor for a connection.
    static HAS_ALIASES: AtomicBool = AtomicBool::new(false);
}

/// Records that a child on this process's memory has made another descriptor for a connection. The table does not
/// contain this descriptor.
pub fn note_alias() {
    HAS_ALIASES.store(true, Ordering::Relaxed);
}

/// Calls `each` for every descriptor that may be the socket of a connection of this process. For a child that runs
/// on this process's memory with its own descriptor table. To be certain, ask the kernel by [`is_socket_of`].
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

/// Returns a number that is higher than all open descriptors of the caller.
fn highest() -> i32 {
    let limit = sovia_sys::call::soft_limit(libc::RLIMIT_NOFILE).unwrap_or(FDS as u64);
    // Check at least 64 Ki numbers. Descriptors above a lowered limit may still exist, but they are few.
    (limit.max(1 << 16) as usize).min(FDS) as i32
}
