//! Keeper: a small process that holds the remaining bytes of streams for all processes that may read them
//! ([`crate::rest`]).
//!
//! The keeper puts each stream's remaining bytes into a Unix socket. The program reads them from the other end. The
//! keeper moves the bytes that the program writes to TCP, until the program has closed its end. The keeper keeps a
//! descriptor of the program's end, so that relatives can take it. The keeper closes this descriptor when all bytes
//! have been read, or when no relative has the connection any more. The keeper ends after its last stream.
//!
//! The keeper is a bare copy of the process that makes it, which may be a child on its parent's memory. The keeper
//! makes only system calls, and does not belong to the family. The time for the copy grows with the process's memory.
//! So one keeper serves all connections that need a keeper at the same time.
//!
//! Maker and keeper wait for each other only by objects that no other child of the maker can inherit ([`start`]).

mod life;
mod shared;
mod start;
mod stream;

use crate::conn::{Guard, flag};
use crate::fallback::Keep;
use crate::stream::{self as streams, Got};
use crate::table::Ref;
use crate::{family, members, ops, process, rest};
use core::sync::atomic::Ordering;
use shared::{Place, Shared};
use sovia_proto::path::Await;
use sovia_sync::section;
use sovia_sys::{Fd, call, poll, process as processes};
use start::Lock;

/// Number of bytes that are moved at a time.
const PIECE: usize = 4 << 10;
/// Maximum number of connections of one keeper.
const MOST: u64 = 1 << 10;
/// Number of descriptors of a keeper beside the three of each connection.
const FURTHER: u64 = 8;

/// Calls `visit` for each connection in turn, with a function that moves the unread bytes to a keeper. If this
/// function returns false, the bytes stay where they are: there can be no keeper, or the bytes are not for a keeper.
pub(crate) fn with_keepers(connections: &[(i32, Ref)], visit: &mut dyn FnMut(Keep<'_>)) {
    rest::nothing_at_hand();
    let (limit, _) = call::descriptor_limits();
    let may_take = processes::may_take_descriptors();
    let most = if may_take { MOST } else { rest::asking::STREAMS as u64 };
    let most = (limit.saturating_sub(FURTHER) / 3).clamp(1, most) as usize;
    // No signal handler of the program can interrupt this and leave by `longjmp`.
    let _inside = section::inside();
    for some in connections.chunks(most) {
        let keeper = Waiting::new(some);
        let keep = |guard: &mut Guard<'_>, fd: i32| {
            keeper.as_ref().is_some_and(|keeper| keeper.keep(guard, fd).is_some())
        };
        some.iter().for_each(|_| visit(&keep));
        // Dropping `keeper` releases its lock, and the keeper begins.
    }
}

/// Returns the number of unread bytes of a connection, if a keeper may take them.
fn unread(guard: &mut Guard<'_>, fd: i32) -> Option<usize> {
    let conn = guard.conn;
    // Bytes that came on TCP later would be missing behind the keeper's bytes. A death may be noted before the kernel
    // has ended the socket.
    let has_finished = conn.has(flag::DEAD)
        || streams::kernel_socket_has_ended(fd)
        || streams::ending::is_all_on_vi(guard);
    let is_last = has_finished || conn.is_shut();
    // A call that is still in the kernel would take the next bytes.
    let is_free = conn.rx_pins.is_empty() && !conn.has(flag::REFLECTED | flag::CORRUPT);
    let are_told_apart = members::are_told_apart(conn.holders.load(Ordering::Acquire));
    if !is_last || !is_free || !are_told_apart {
        return None;
    }
    let mut unread = streams::unread(guard, fd).ok()?;
    if has_died_over_it(guard, fd) {
        // The VI holds the bytes that are on TCP as well, and the remaining bytes after them. So the sum is an upper
        // bound.
        unread += usize::try_from(streams::undelivered::look(guard).ok()?.bytes).ok()?;
    }
    Some(unread).filter(|&unread| unread > 0)
}

/// Copies unread bytes without taking them, and returns their number. Returns `None` if there are fewer than `bytes`
/// has room for.
fn copy(guard: &mut Guard<'_>, fd: i32, bytes: &mut [u8]) -> Option<usize> {
    let wanted = bytes.len();
    (streams::peek(guard, fd, bytes.into()) == Got::Bytes(wanted)).then_some(wanted)
}

/// Takes all unread bytes of a connection whose peer has died, and returns their number. A copy is impossible: the
/// bytes on TCP must be taken before those on the VI can be read.
fn take_all(guard: &mut Guard<'_>, fd: i32, bytes: &mut [u8]) -> usize {
    let mut taken = 0;
    while taken < bytes.len() {
        match streams::receive(guard, fd, (&mut bytes[taken..]).into()) {
            Got::Bytes(n @ 1..) => taken += n,
            // More of the peer's bytes on TCP are arriving, because there is room for them now.
            Got::Nothing if !streams::kernel_socket_has_ended(fd) => poll::wait(fd, libc::POLLIN),
            _ => break,
        }
    }
    taken
}

/// Returns true if the peer has not put all of the VI's unread bytes on TCP.
fn misses_a_part(guard: &Guard<'_>) -> bool {
    streams::leaving::awaits_on_tcp(guard) != Await::Nothing
}

/// Returns true if the peer has ended before it had put all of the VI's unread bytes on TCP.
fn has_died_over_it(guard: &Guard<'_>, fd: i32) -> bool {
    misses_a_part(guard) && (guard.conn.has(flag::DEAD) || streams::kernel_socket_has_ended(fd))
}

/// Returns true if a part of the stream is missing on TCP, or if the connection was reset and no call has reported
/// it. Takes the kernel's error.
fn is_cut(guard: &Guard<'_>, fd: i32) -> bool {
    let look = || call::recv(fd, &mut [0], libc::MSG_PEEK | libc::MSG_DONTWAIT);
    let is_reset = |error| !matches!(error, call::Errno::EAGAIN | call::Errno::EINTR);
    misses_a_part(guard)
        || streams::ending::receive_error(guard.conn).is_some()
        || look().is_err_and(is_reset)
}

/// A connection whose unread bytes may go to a keeper.
struct Candidate {
    at: Ref,
    /// Descriptor of the connection.
    kernel_socket: i32,
    /// Number of unread bytes.
    unread: usize,
    /// End from which the bytes are read. The keeper has it at the same descriptor number.
    end: Fd,
    /// End into which the bytes go. The keeper has it at the same descriptor number.
    source: Fd,
}

impl Candidate {
    fn new(at: Ref, kernel_socket: i32) -> Option<Candidate> {
        let unread = unread(&mut at.attached()?, kernel_socket)?;
        // The maker makes the sockets: so it has them even if it may take nothing from another process.
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        let (source, end) = Fd::pair(libc::AF_UNIX, kind).ok()?;
        // Ask for the largest buffer. Bytes that do not fit at once must wait for the keeper.
        let _ = call::setsockopt(source.raw(), libc::SOL_SOCKET, libc::SO_SNDBUF, &(64 << 20));
        Some(Candidate { at, kernel_socket, unread, end, source })
    }

    fn descriptors(&self) -> [i32; 3] {
        [self.kernel_socket, self.end.raw(), self.source.raw()]
    }

    /// Tells the keeper which sockets are its own.
    fn tell(&self, place: &Place) -> Option<()> {
        let known = |fd: &Fd| call::file_id(fd.raw()).ok().map(|(_, inode)| (fd.raw(), inode));
        place.has_sockets(known(&self.end)?, known(&self.source)?);
        Some(())
    }
}

/// A keeper that waits until its maker has moved bytes to it, or has ended.
struct Waiting {
    id: i32,
    candidates: Vec<Candidate>,
    shared: Shared,
    _lock: Lock,
}

impl Waiting {
    fn new(connections: &[(i32, Ref)]) -> Option<Waiting> {
        // Relatives in another PID namespace would not know the keeper by its id. And the keeper would end with the
        // first process of this namespace.
        let namespace = || processes::pid_namespace();
        family::namespace().filter(|&family| Some(family) == namespace())?;
        let candidate = |&(kernel_socket, at): &(i32, Ref)| Candidate::new(at, kernel_socket);
        let candidates: Vec<Candidate> = connections.iter().filter_map(candidate).collect();
        if candidates.is_empty() {
            return None;
        }
        let shared = Shared::new(candidates.iter().map(|candidate| candidate.unread))?;
        for (n, candidate) in candidates.iter().enumerate() {
            candidate.tell(shared.place(n))?;
        }
        let lock = Lock::take(members::locks()?)?;
        let id = start::start(&candidates, &shared, &lock)?;
        Some(Waiting { id, candidates, shared, _lock: lock })
    }

    /// Moves the unread bytes of a connection to the keeper. Returns `None` if this is impossible.
    fn keep(&self, guard: &mut Guard<'_>, fd: i32) -> Option<()> {
        let conn = guard.conn;
        let is_it = |one: &Candidate| one.kernel_socket == fd && core::ptr::eq(one.at.conn, conn);
        let n = self.candidates.iter().position(is_it)?;
        let Candidate { end, source, .. } = &self.candidates[n];
        let place = self.shared.place(n);
        let (kept, outlet) = place.sockets(self.id)?;
        // Look again: the first look was before the keeper existed, and the lock was released since.
        let unread = unread(guard, fd)?;
        // SAFETY: the keeper uses these bytes only after this function has published them in `conn.rest` or by
        // `is_the_keepers`, and `bytes` is not used after that. No other thread of this process has the candidates.
        let bytes = unsafe { self.shared.bytes(n) }.get_mut(..unread)?;
        if conn.has(flag::NONBLOCK) {
            call::fcntl(end.raw(), libc::F_SETFL, libc::O_NONBLOCK as usize).ok()?;
        }
        // The program gets this end from this process.
        rest::is_at_hand(kept, end).ok()?;
        // Copied bytes also stay in their old place until the keeper is published, in case this process dies.
        let is_taken = has_died_over_it(guard, fd);
        let unread = match is_taken {
            true => take_all(guard, fd, bytes),
            false => copy(guard, fd, bytes)?,
        };
        // Bytes that were reported to the program must not be missing when it begins.
        let mut left = &bytes[..unread];
        stream::feed(source.raw(), &mut left);
        let is_cut = is_cut(guard, fd);
        place.holds(unread, unread - left.len(), is_cut);
        if is_cut {
            stream::will_be_cut(end.raw(), source.raw());
        } else {
            conn.outlet.publish(outlet);
        }
        conn.rest.publish(kept);
        let (mut piece, mut left) = ([0; PIECE], if is_taken { 0 } else { unread });
        while left > 0
            && let Got::Bytes(n @ 1..) =
                streams::receive(guard, fd, (&mut piece[..left.min(PIECE)]).into())
        {
            left -= n;
        }
        place.is_the_keepers();
        Some(())
    }
}

/// Replaces descriptors by ends from which a keeper's bytes are read. A keeper without such bytes may still put on
/// TCP what a program has written. Then this function waits, because later bytes must follow.
pub(crate) fn give(descriptors: &[(i32, Ref)]) {
    for &(fd, at) in descriptors {
        match rest::end_of(at.conn) {
            Ok(Some(end)) => {
                let how = call::fcntl(fd, libc::F_GETFD, 0).unwrap_or(0);
                // In this order: until the table has changed, calls query the keeper.
                let _ = call::dup_onto(end.raw(), fd);
                let _ = call::fcntl(fd, libc::F_SETFD, how);
                if !process::is_borrowed() {
                    ops::close(fd);
                }
            }
            Ok(None) | Err(_) => {
                let _ = rest::come_after(at.conn, fd, false);
            }
        }
    }
    rest::nothing_at_hand();
}
