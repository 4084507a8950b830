//! The rest of a stream: what is unread when its peer has finished, and a program gets the socket.
//!
//! The peer cannot put it on TCP any more, and the program cannot read the VI. A relative that has the socket as well
//! may be the one that reads it, or the program may: the kernel would give it to whichever comes first. So does a Unix
//! socket, into which the rest goes. A process of the library's, its *keeper* (`keeper`), holds both ends of it:
//!
//! - the program has one end in the place of its descriptors;
//! - relatives keep their descriptors, which are on TCP from then on. What they receive comes from the same end first:
//!   each call takes it from the keeper, until all has been read;
//! - what the program writes goes by the other end, and the keeper puts it on TCP. What a relative sends afterwards comes
//!   after it there.

pub(crate) mod asking;

use crate::conn::{Conn, Kept};
use crate::per_engine::per_engine;
use crate::{Errno, errno};
use core::sync::atomic::Ordering;
use sovia_sync::{RobustBox, rank};
use sovia_sys::poll::{self, ppoll};
use sovia_sys::{Fd, call, process};

/// Why a socket of a keeper's cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no such keeper any more.
    Gone,
    /// This process may have no more descriptors, or must not look into others.
    Refused(Errno),
}

/// The end from which the rest of a connection is read; `None` if there is none, or all of it has been read.
///
/// # Errors
/// `ECONNRESET` if it is lost, because the keeper has been killed: it must not look as if nothing were missing. Otherwise
/// why this process cannot have it.
pub(crate) fn end_of(conn: &Conn) -> Result<Option<Fd>, Errno> {
    while let Some(kept) = conn.rest.find() {
        match take(kept) {
            Ok(end) => return Ok(Some(end)),
            Err(Refused::Refused(error)) => return Err(error),
            Err(Refused::Gone) if conn.rest.find() == Some(kept) => return Err(libc::ECONNRESET),
            // The keeper has found meanwhile that all has been read.
            Err(Refused::Gone) => {}
        }
    }
    Ok(None)
}

per_engine! {
    /// Ends that this process has made for a keeper, until the program has got them: with their inodes, which tell whether a
    /// number is that of the same descriptor still. (A child on its parent's memory has descriptors of its own.)
    static AT_HAND: RobustBox<Vec<(u64, i32)>, { rank::AT_HAND }> = RobustBox::new(Vec::new());
}

/// The program gets what is read from `end` from this process itself, also where that may take nothing from a keeper.
pub(crate) fn is_at_hand(kept: Kept, end: &Fd) -> Result<(), Errno> {
    let copy = call::fcntl(end.raw(), libc::F_DUPFD_CLOEXEC, 0).map_err(errno)?;
    AT_HAND.with(|ends| ends.push((kept.inode, copy as i32)));
    Ok(())
}

/// The program has what it was to get.
pub(crate) fn nothing_at_hand() {
    for (inode, fd) in AT_HAND.with(core::mem::take) {
        if is_it(fd, inode) {
            let _ = call::close(fd);
        }
    }
}

fn is_it(fd: i32, inode: u64) -> bool {
    call::file_id(fd).is_ok_and(|(_, of)| of == inode)
}

/// What this process has at hand.
fn at_hand(kept: Kept) -> Option<Fd> {
    let fd =
        AT_HAND.with(|ends| ends.iter().find(|(of, _)| *of == kept.inode).map(|(_, fd)| *fd))?;
    let end = call::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0).ok().map(|fd| Fd::keep(fd as i32))?;
    is_it(end.raw(), kept.inode).then_some(end)
}

/// What a keeper has there, if that process still is the keeper.
pub(crate) fn take(kept: Kept) -> Result<Fd, Refused> {
    if let Some(end) = at_hand(kept) {
        return Ok(end);
    }
    let socket = match process::descriptor_of(kept.keeper, kept.fd) {
        Ok(socket) => socket,
        Err(call::Errno::EPERM | call::Errno::ENOSYS) => return asking::ask(kept),
        Err(call::Errno::ESRCH | call::Errno::EBADF) => return Err(Refused::Gone),
        Err(error) => return Err(Refused::Refused(errno(error))),
    };
    is_it(socket.raw(), kept.inode).then_some(socket).ok_or(Refused::Gone)
}

/// How many bytes of it are unread, and can be read at once.
pub(crate) fn unread(conn: &Conn) -> usize {
    match end_of(conn) {
        Ok(Some(end)) => call::bytes_unread(end.raw()).unwrap_or(0),
        Ok(None) | Err(_) => 0,
    }
}

/// Between two looks whether the keeper has put on TCP what a program has written.
const LOOK_NS: u64 = 200_000;

/// Waits until what a program has written so far is on TCP, before this process puts something there. `fd`: its
/// descriptor.
///
/// # Errors
/// `EAGAIN` if TCP has no room for it, and the call must not wait; `EINTR`.
#[inline]
pub(crate) fn come_after(conn: &Conn, fd: i32, dont_wait: bool) -> Result<(), Errno> {
    match conn.outlet.find() {
        Some(kept) => await_keeper(conn, kept, fd, dont_wait),
        None => Ok(()),
    }
}

#[cold]
#[inline(never)]
fn await_keeper(conn: &Conn, kept: Kept, fd: i32, dont_wait: bool) -> Result<(), Errno> {
    let mut goal = None;
    // Without a keeper there is nothing more to come.
    while conn.outlet.find() == Some(kept)
        && let Ok(source) = take(kept)
        && let Ok(queued @ 1..) = call::bytes_unread(source.raw())
    {
        // In this order: what is put out meanwhile is waited for as well, and not missed.
        let put_out = conn.put_out.load(Ordering::Acquire);
        if put_out >= *goal.get_or_insert(put_out + queued as u64) {
            break;
        }
        let is_full = || poll::probe(fd, libc::POLLOUT) == 0;
        if (dont_wait || call::is_nonblocking(fd)) && is_full() {
            return Err(libc::EAGAIN);
        }
        ppoll(&mut [], Some(LOOK_NS), None).map_err(errno)?;
    }
    Ok(())
}
