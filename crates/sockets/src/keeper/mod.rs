//! Keeper: a small process that holds the remaining bytes of streams for all processes that may read them
//! ([`crate::rest`]).
//!
//! The keeper puts each stream's remaining bytes into a Unix socket. The program reads these bytes from the
//! socket's other end. The program also writes into that end, and the keeper puts the written bytes on TCP, until
//! the program has closed its end. The keeper keeps a descriptor of the program's end, so that relatives can take
//! the end. The keeper closes this descriptor when all bytes have been read, or when no relative has the connection
//! any more. The keeper ends after its last stream.
//!
//! The keeper is a bare copy of its maker, which may be a child that runs on its parent's memory. The keeper makes
//! only system calls, and does not belong to the family. The time for the copy grows with the maker's memory. So
//! one keeper serves all connections that need a keeper at the same time.
//!
//! The maker and the keeper wait for each other only by objects that no other child of the maker can inherit
//! ([`start`]).

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

/// Maximum number of bytes that one step of a copy moves.
const PIECE: usize = 4 << 10;
/// Maximum number of connections of one keeper.
const MOST: u64 = 1 << 10;
/// Number of a keeper's descriptors, besides three descriptors for each connection.
const FURTHER: u64 = 8;

/// Calls `visit` for each connection in turn, with a function that moves the connection's unread bytes to a keeper.
/// This function returns false and moves no bytes if there can be no keeper, or if a keeper may not take the bytes.
pub(crate) fn with_keepers(connections: &[(i32, Ref)], visit: &mut dyn FnMut(Keep<'_>)) {
    rest::nothing_at_hand();
    let (limit, _) = call::descriptor_limits();
    let may_take = processes::may_take_descriptors();
    let most = if may_take { MOST } else { rest::asking::STREAMS as u64 };
    let most = (limit.saturating_sub(FURTHER) / 3).clamp(1, most) as usize;
    // From here on, no signal handler of the program runs. So none can leave this function by `longjmp`.
    let _inside = section::inside();
    for some in connections.chunks(most) {
        let keeper = Waiting::new(some);
        let keep = |guard: &mut Guard<'_>, fd: i32| {
            keeper.as_ref().is_some_and(|keeper| keeper.keep(guard, fd).is_some())
        };
        some.iter().for_each(|_| visit(&keep));
        // At the end of this round, `keeper` is dropped and releases its lock. Then the keeper begins to serve.
    }
}

/// Returns the number of unread bytes of a connection, if a keeper may take these bytes.
fn unread(guard: &mut Guard<'_>, fd: i32) -> Option<usize> {
    let conn = guard.conn;
    // The peer must have finished, because bytes that came on TCP later would be missing behind the keeper's bytes.
    // `DEAD` may be set before the kernel has ended the socket.
    let has_finished = conn.has(flag::DEAD)
        || streams::kernel_socket_has_ended(fd)
        || streams::ending::is_all_on_vi(guard);
    let is_last = has_finished || conn.is_shut();
    // No receive may still be in the kernel, because this receive would take the next bytes.
    let is_free = conn.rx_pins.is_empty() && !conn.has(flag::REFLECTED | flag::CORRUPT);
    let are_told_apart = members::are_told_apart(conn.holders.load(Ordering::Acquire));
    if !is_last || !is_free || !are_told_apart {
        return None;
    }
    let mut unread = streams::unread(guard, fd).ok()?;
    if has_died_over_it(guard, fd) {
        // The VI holds all undelivered bytes, also those that the peer has already put on TCP. So the sum is an
        // upper bound of the unread bytes.
        unread += usize::try_from(streams::undelivered::look(guard).ok()?.bytes).ok()?;
    }
    Some(unread).filter(|&unread| unread > 0)
}

/// Fills `bytes` with unread bytes without consuming them, and returns their number. Returns `None` if there are
/// too few unread bytes.
fn copy(guard: &mut Guard<'_>, fd: i32, bytes: &mut [u8]) -> Option<usize> {
    let wanted = bytes.len();
    (streams::peek(guard, fd, bytes.into()) == Got::Bytes(wanted)).then_some(wanted)
}

/// Takes all unread bytes of a connection whose peer has died, and returns their number. A copy is impossible,
/// because the bytes on TCP must be taken before the bytes on the VI can be read.
fn take_all(guard: &mut Guard<'_>, fd: i32, bytes: &mut [u8]) -> usize {
    let mut taken = 0;
    while taken < bytes.len() {
        match streams::receive(guard, fd, (&mut bytes[taken..]).into()) {
            Got::Bytes(n @ 1..) => taken += n,
            // TCP has room again after the last receive. Wait for more bytes that the peer had sent on TCP.
            Got::Nothing if !streams::kernel_socket_has_ended(fd) => poll::wait(fd, libc::POLLIN),
            _ => break,
        }
    }
    taken
}

/// Returns true if the peer has not yet put all of the VI's unread bytes on TCP.
fn misses_a_part(guard: &Guard<'_>) -> bool {
    streams::leaving::awaits_on_tcp(guard) != Await::Nothing
}

/// Returns true if the peer has ended before it had put all of the VI's unread bytes on TCP.
fn has_died_over_it(guard: &Guard<'_>, fd: i32) -> bool {
    misses_a_part(guard) && (guard.conn.has(flag::DEAD) || streams::kernel_socket_has_ended(fd))
}

/// Returns true if a part of the stream is missing on TCP, or if the connection was reset and no call has reported
/// the reset. Clears the kernel's pending error of the socket.
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
    /// End of a Unix socket from which the unread bytes are read. The keeper has this end at the same descriptor
    /// number.
    end: Fd,
    /// End of the Unix socket into which the unread bytes go. The keeper has this end at the same descriptor
    /// number.
    source: Fd,
}

impl Candidate {
    fn new(at: Ref, kernel_socket: i32) -> Option<Candidate> {
        let unread = unread(&mut at.attached()?, kernel_socket)?;
        // Make the sockets in this process, because this process may be unable to take them from the keeper.
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        let (source, end) = Fd::pair(libc::AF_UNIX, kind).ok()?;
        // Request the largest buffer. Bytes that do not fit into the buffer at once must wait for the keeper.
        let _ = call::setsockopt(source.raw(), libc::SOL_SOCKET, libc::SO_SNDBUF, &(64 << 20));
        Some(Candidate { at, kernel_socket, unread, end, source })
    }

    fn descriptors(&self) -> [i32; 3] {
        [self.kernel_socket, self.end.raw(), self.source.raw()]
    }

    /// Stores the descriptors and inodes of both sockets in the shared memory, for the keeper.
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
        // Start no keeper in another PID namespace than the family's. There relatives would not know the keeper by
        // its id, and the keeper would end with the namespace's first process.
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

    /// Moves the unread bytes of a connection to the keeper. Returns `None` if the keeper cannot take the bytes.
    fn keep(&self, guard: &mut Guard<'_>, fd: i32) -> Option<()> {
        let conn = guard.conn;
        let is_it = |one: &Candidate| one.kernel_socket == fd && core::ptr::eq(one.at.conn, conn);
        let n = self.candidates.iter().position(is_it)?;
        let Candidate { end, source, .. } = &self.candidates[n];
        let place = self.shared.place(n);
        let (kept, outlet) = place.sockets(self.id)?;
        // Count the unread bytes again. After the first count, the connection's lock was released and the keeper
        // was started.
        let unread = unread(guard, fd)?;
        // SAFETY: the keeper uses these bytes only after this function has published them in `conn.rest` or by
        // `is_the_keepers`, and `bytes` is not used after that. No other thread of this process has the candidates.
        let bytes = unsafe { self.shared.bytes(n) }.get_mut(..unread)?;
        if conn.has(flag::NONBLOCK) {
            call::fcntl(end.raw(), libc::F_SETFL, libc::O_NONBLOCK as usize).ok()?;
        }
        // Keep a copy of the end in this process, from which the program gets its end.
        rest::is_at_hand(kept, end).ok()?;
        // If possible, copy the bytes without taking them. Copied bytes also stay in their old place until the
        // keeper is published, in case this process dies.
        let is_taken = has_died_over_it(guard, fd);
        let unread = match is_taken {
            true => take_all(guard, fd, bytes),
            false => copy(guard, fd, bytes)?,
        };
        // Put bytes into the socket now. If unread bytes were reported to the program, the program must find bytes
        // when it begins.
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

/// Replaces descriptors of connections by the Unix sockets from which a keeper's bytes are read. If all these bytes
/// have been read, the keeper may still have to put bytes on TCP that a program has written. Then this function
/// waits for the keeper, because later bytes must follow the written ones.
pub(crate) fn give(descriptors: &[(i32, Ref)]) {
    for &(fd, at) in descriptors {
        match rest::end_of(at.conn) {
            Ok(Some(end)) => {
                let how = call::fcntl(fd, libc::F_GETFD, 0).unwrap_or(0);
                // Replace the descriptor before the table changes: until then, calls on this descriptor query the
                // keeper.
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
