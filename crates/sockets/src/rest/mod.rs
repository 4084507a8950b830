//! The rest of a stream: the bytes that are still unread when the peer has finished and a program gets the socket.
//!
//! The peer cannot put these bytes on TCP any more, and the program cannot read the VI. The program may read the
//! bytes, or a relative that shares the socket. The kernel would give the bytes to the first reader, and so does a
//! Unix socket. So the bytes go into a Unix socket. A process of the library, the *keeper* (`keeper`), holds both
//! ends of the Unix socket:
//!
//! - The program has one end in place of its descriptors.
//! - Relatives keep their descriptors, which are on TCP from then on. But relatives first receive from the
//!   program's end. Each call takes this end from the keeper, until all bytes have been read.
//! - The bytes that the program writes come out at the other end, and the keeper puts them on TCP. Bytes that a
//!   relative sends later follow these bytes on TCP.

pub(crate) mod asking;

use crate::conn::{Conn, Kept};
use crate::per_engine::per_engine;
use crate::{Errno, errno};
use core::sync::atomic::Ordering;
use sovia_sync::{RobustBox, rank};
use sovia_sys::poll::{self, ppoll};
use sovia_sys::{Fd, call, process};

/// Reason why a process cannot get a socket of a keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The keeper has ended, or has closed the socket.
    Gone,
    /// This process may open no more descriptors, or may not take descriptors from other processes.
    Refused(Errno),
}

/// Returns the end of the Unix socket from which the rest of a connection's stream is read. Returns `None` if there
/// is no rest, or if all of the rest has been read.
///
/// # Errors
/// `ECONNRESET` if the rest is lost because the keeper has been killed: the loss must be visible. Any other error
/// says why this process cannot get the end.
pub(crate) fn end_of(conn: &Conn) -> Result<Option<Fd>, Errno> {
    while let Some(kept) = conn.rest.find() {
        match take(kept) {
            Ok(end) => return Ok(Some(end)),
            Err(Refused::Refused(error)) => return Err(error),
            Err(Refused::Gone) if conn.rest.find() == Some(kept) => return Err(libc::ECONNRESET),
            // Look again: the keeper has found meanwhile that all bytes have been read.
            Err(Refused::Gone) => {}
        }
    }
    Ok(None)
}

per_engine! {
    /// Sockets that this process has made for a keeper, until the program has them: inode and descriptor of each.
    /// The inode shows if the descriptor number still refers to the socket, because a child on its parent's memory
    /// has descriptors of its own.
    static AT_HAND: RobustBox<Vec<(u64, i32)>, { rank::AT_HAND }> = RobustBox::new(Vec::new());
}

/// Keeps a copy of `end` in this process, until the program has its end. This process may be unable to take `end`
/// from the keeper.
pub(crate) fn is_at_hand(kept: Kept, end: &Fd) -> Result<(), Errno> {
    let copy = call::fcntl(end.raw(), libc::F_DUPFD_CLOEXEC, 0).map_err(errno)?;
    AT_HAND.with(|ends| ends.push((kept.inode, copy as i32)));
    Ok(())
}

/// Closes the copies in [`AT_HAND`], because the program has its ends now.
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

/// Returns this process's own copy of the socket `kept`, if there is a copy.
fn at_hand(kept: Kept) -> Option<Fd> {
    let fd =
        AT_HAND.with(|ends| ends.iter().find(|(of, _)| *of == kept.inode).map(|(_, fd)| *fd))?;
    let end = call::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0).ok().map(|fd| Fd::keep(fd as i32))?;
    is_it(end.raw(), kept.inode).then_some(end)
}

/// Takes the socket `kept` from its keeper. Fails if the keeper's process id or descriptor now belongs to something
/// else.
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

/// Returns the number of bytes of the rest of a connection's stream that can be read at once.
pub(crate) fn unread(conn: &Conn) -> usize {
    match end_of(conn) {
        Ok(Some(end)) => call::bytes_unread(end.raw()).unwrap_or(0),
        Ok(None) | Err(_) => 0,
    }
}

/// Nanoseconds between two checks of how many of the program's bytes the keeper has put on TCP.
const LOOK_NS: u64 = 200_000;

/// Waits until the keeper has put on TCP all bytes that a program has written so far. Called before this process
/// sends bytes on TCP. `fd` is this process's descriptor of the connection.
///
/// # Errors
/// `EAGAIN` if TCP has no room for the program's bytes and the call must not wait; `EINTR`.
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
    // If the keeper has ended, it puts no more bytes on TCP. Then stop waiting.
    while conn.outlet.find() == Some(kept)
        && let Ok(source) = take(kept)
        && let Ok(queued @ 1..) = call::bytes_unread(source.raw())
    {
        // Read `put_out` after the length of the queue. Bytes that the keeper puts on TCP in between only lengthen
        // the wait.
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
