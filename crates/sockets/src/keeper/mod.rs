//! The keeper: a small process that holds the rests of streams for all that may read them ([`crate::rest`]).
//!
//! It puts each rest into a Unix socket, whose other end the program reads from, moves what the program writes to TCP,
//! and is done with it when the program has closed its end. It keeps that other end itself, for the relatives to take,
//! until the rest has been read or no relative has the connection any more. It ends when it is done with all of them.
//!
//! It is a bare copy of the process that makes it, which may be a child on its parent's memory: it makes nothing but
//! system calls, and is not one of the family. The copy takes as long as that process has memory, so one keeper serves
//! all connections that need one at the same time.
//!
//! The two wait for each other by nothing that another child of the maker's could inherit ([`start`]).

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

/// Bytes that are moved at a time.
const PIECE: usize = 4 << 10;
/// Connections of one keeper at most.
const MOST: u64 = 1 << 10;
/// Its descriptors beside the three of each connection.
const FURTHER: u64 = 8;

/// Calls `visit` for each connection in turn, with what moves its rest to a keeper. Where that says false, there can be
/// none, or the rest is not for one: it lies where it lay.
pub(crate) fn with_keepers(connections: &[(i32, Ref)], visit: &mut dyn FnMut(Keep<'_>)) {
    rest::nothing_at_hand();
    let (limit, _) = call::descriptor_limits();
    let may_take = processes::may_take_descriptors();
    let most = if may_take { MOST } else { rest::asking::STREAMS as u64 };
    let most = (limit.saturating_sub(FURTHER) / 3).clamp(1, most) as usize;
    // No handler of the program's leaves this half way.
    let _inside = section::inside();
    for some in connections.chunks(most) {
        let keeper = Waiting::new(some);
        let keep = |guard: &mut Guard<'_>, fd: i32| {
            keeper.as_ref().is_some_and(|keeper| keeper.keep(guard, fd).is_some())
        };
        some.iter().for_each(|_| visit(&keep));
        // With its lock, which is given back here, the keeper begins.
    }
}

/// How much of a connection is unread, if that may be a keeper's.
fn unread(guard: &mut Guard<'_>, fd: i32) -> Option<usize> {
    let conn = guard.conn;
    // What comes on TCP afterwards would be missing behind it.
    // A death may be noted before the kernel has ended the socket.
    let has_finished = conn.has(flag::DEAD)
        || streams::kernel_socket_has_ended(fd)
        || streams::ending::is_all_on_vi(guard);
    let is_last = has_finished || conn.is_shut();
    // What comes next is a call's that is in the kernel still.
    let is_free = conn.rx_pins.is_empty() && !conn.has(flag::REFLECTED | flag::CORRUPT);
    let are_told_apart = members::are_told_apart(conn.holders.load(Ordering::Acquire));
    if !is_last || !is_free || !are_told_apart {
        return None;
    }
    let mut unread = streams::unread(guard, fd).ok()?;
    if has_died_over_it(guard, fd) {
        // Bytes on TCP lie on the VI as well, and the rest behind them.
        unread += usize::try_from(streams::undelivered::look(guard).ok()?.bytes).ok()?;
    }
    Some(unread).filter(|&unread| unread > 0)
}

/// Copies what is unread of a connection, without taking it. Returns how much that is; `None` if it is not what was looked at.
fn copy(guard: &mut Guard<'_>, fd: i32, bytes: &mut [u8]) -> Option<usize> {
    let wanted = bytes.len();
    (streams::peek(guard, fd, bytes.into()) == Got::Bytes(wanted)).then_some(wanted)
}

/// Takes what is unread of a connection whose peer has died, and returns how much that is. Only the part on TCP could be looked at
/// before the rest on the VI.
fn take_all(guard: &mut Guard<'_>, fd: i32, bytes: &mut [u8]) -> usize {
    let mut taken = 0;
    while taken < bytes.len() {
        match streams::receive(guard, fd, (&mut bytes[taken..]).into()) {
            Got::Bytes(n @ 1..) => taken += n,
            // More of what the peer had put on TCP is on its way: there is room for it now.
            Got::Nothing if !streams::kernel_socket_has_ended(fd) => poll::wait(fd, libc::POLLIN),
            _ => break,
        }
    }
    taken
}

/// Returns true if the peer has not put on TCP all that is unread on the VI.
fn misses_a_part(guard: &Guard<'_>) -> bool {
    streams::leaving::awaits_on_tcp(guard) != Await::Nothing
}

/// Returns true if the peer has ended before it had put all of that there.
fn has_died_over_it(guard: &Guard<'_>, fd: i32) -> bool {
    misses_a_part(guard) && (guard.conn.has(flag::DEAD) || streams::kernel_socket_has_ended(fd))
}

/// Returns true if the connection was reset and no call has reported that, or a part of the stream is missing on TCP. Takes
/// the kernel's error.
fn is_cut(guard: &Guard<'_>, fd: i32) -> bool {
    let look = || call::recv(fd, &mut [0], libc::MSG_PEEK | libc::MSG_DONTWAIT);
    let is_reset = |error| !matches!(error, call::Errno::EAGAIN | call::Errno::EINTR);
    misses_a_part(guard)
        || streams::ending::receive_error(guard.conn).is_some()
        || look().is_err_and(is_reset)
}

/// A connection whose rest may become a keeper's.
struct Candidate {
    at: Ref,
    /// Its descriptor.
    kernel_socket: i32,
    /// Bytes that were unread.
    unread: usize,
    /// The end that the rest is read from. The keeper has it at the same number.
    end: Fd,
    /// The end that the rest goes into, likewise.
    source: Fd,
}

impl Candidate {
    fn new(at: Ref, kernel_socket: i32) -> Option<Candidate> {
        let unread = unread(&mut at.attached()?, kernel_socket)?;
        // The maker makes them: where it may take nothing from another process, it has them all the same.
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        let (source, end) = Fd::pair(libc::AF_UNIX, kind).ok()?;
        // As much as the system lets it take: what it does not take at once has to wait for the keeper.
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

/// A keeper that waits until its maker has moved rests to it, or has ended.
struct Waiting {
    id: i32,
    candidates: Vec<Candidate>,
    shared: Shared,
    _lock: Lock,
}

impl Waiting {
    fn new(connections: &[(i32, Ref)]) -> Option<Waiting> {
        // Those of another PID namespace do not know the keeper by its id; and it would end with this one's first process.
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

    /// Moves what is unread of a connection to the keeper. `None` if that cannot be.
    fn keep(&self, guard: &mut Guard<'_>, fd: i32) -> Option<()> {
        let conn = guard.conn;
        let is_it = |one: &Candidate| one.kernel_socket == fd && core::ptr::eq(one.at.conn, conn);
        let n = self.candidates.iter().position(is_it)?;
        let Candidate { end, source, .. } = &self.candidates[n];
        let place = self.shared.place(n);
        let (kept, outlet) = place.sockets(self.id)?;
        // It was looked at before there was a keeper, and without the lock since.
        let unread = unread(guard, fd)?;
        // SAFETY: the keeper reads those bytes once it is told that they are its own, and this thread is the only one
        // that has the candidates.
        let bytes = unsafe { self.shared.bytes(n) }.get_mut(..unread)?;
        if conn.has(flag::NONBLOCK) {
            call::fcntl(end.raw(), libc::F_SETFL, libc::O_NONBLOCK as usize).ok()?;
        }
        // The program gets it from this process.
        rest::is_at_hand(kept, end).ok()?;
        // Bytes that are only looked at lie where they lay until the keeper is known, whatever becomes of this process.
        let is_taken = has_died_over_it(guard, fd);
        let unread = match is_taken {
            true => take_all(guard, fd, bytes),
            false => copy(guard, fd, bytes)?,
        };
        // What the program has been told is there must not be missing when it begins.
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

/// Those descriptors become ends that the rest is read from, where a keeper has one. Where one has put all of it out, and
/// puts on TCP still what a program has written, what comes next is to come after that.
pub(crate) fn give(descriptors: &[(i32, Ref)]) {
    for &(fd, at) in descriptors {
        match rest::end_of(at.conn) {
            Ok(Some(end)) => {
                let how = call::fcntl(fd, libc::F_GETFD, 0).unwrap_or(0);
                // In this order: until the table says otherwise, calls ask the keeper.
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
