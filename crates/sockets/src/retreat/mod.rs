//! Back to TCP: for what only the kernel can do with a socket.
//!
//! Before an exec, before a descriptor becomes standard input or travels to another process, and
//! for calls that Sovia does not carry, both directions of a connection return to the anchor
//! ([`sovia_proto::path`], steps 4 and 5).
//!
//! - Our own direction just ends its part on the VI.
//! - For the other we recall the grant and read the VI to its end. Bytes that the program has
//!   not had yet must now come out of the kernel, and only the peer can put them in: they go back
//!   through the segment, and the peer (its next call, or its progress thread) writes
//!   them to its anchor before anything newer.
//! - A peer that cannot (it has died, or closed its side) or does not (stopped, for longer than two
//!   seconds) leaves one way: a relay, a small relative of this process that keeps the connection, and
//!   a Unix socket to it in the place of the program's descriptors.

pub(crate) mod answer;
mod recall;
mod work;

use crate::conn::{Guard, Phase, flag};
use crate::pair;
use crate::pair::lent::{self, How};
use crate::stream::{self, returned, tell_reader, word};
use crate::table::{self, Ref};
use crate::{family, meeting, process, sets, stats};
use core::sync::atomic::Ordering;
pub(crate) use recall::Left;
use recall::{Asked, Verdict};
use sovia_control::Reason;
use sovia_proto::packet::Kind;
use sovia_proto::path::{self, CANCELLED, Leave, Rx, Tx};
use sovia_sys::{call, diag, poll};
use std::sync::OnceLock;
use via_shm::Damaged;
use work::{Begun, Work};

/// Why a connection goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It is inherited by another program.
    Exec,
    /// It becomes standard input, output or error.
    Stdio,
    /// It becomes a stdio stream, or libc prints to it.
    Stream,
    /// The kernel is to process the stream.
    Ulp,
    /// It is sent to another process.
    Passed,
    /// A call that Sovia does not carry.
    Call,
    /// It is in an epoll instance that others wait for as well, or wait for itself: of that the kernel alone
    /// can tell.
    Set,
    /// The process changes its user or its rights.
    Credentials,
    /// The process limits its address space.
    AddressSpace,
    /// The process puts itself under a filter of system calls.
    Filter,
    /// The peer asks for it.
    Peer,
}

impl Cause {
    pub(crate) fn reason(self) -> Reason {
        match self {
            Cause::Exec => Reason::RetreatExec,
            Cause::Stdio => Reason::RetreatStdio,
            Cause::Stream => Reason::RetreatStream,
            Cause::Ulp => Reason::RetreatUlp,
            Cause::Passed => Reason::RetreatPassed,
            Cause::Call | Cause::Set => Reason::RetreatCall,
            Cause::Credentials => Reason::RetreatCredentials,
            Cause::AddressSpace => Reason::AddressSpace,
            Cause::Filter => Reason::Filter,
            Cause::Peer => Reason::RetreatPeer,
        }
    }
}

/// Bytes that a sender takes back onto TCP from a VI that its receiver has not entered.
const UNENTERED_MAX: u64 = 1 << 20;
/// One step of waiting for it.
const STEP_NS: u64 = 10_000_000;

/// Takes a connection back to TCP, for good. When this returns, the kernel's calls on the
/// descriptor do what they would have done without Sovia.
pub fn now(fd: i32, at: Ref, cause: Cause) {
    let conn = at.conn;
    if conn.phase() == Phase::Candidate && conn.is_generation(at.generation) && conn.stay_plain() {
        let _ = meeting::closed(at);
        conn.count_stay(cause.reason());
        return;
    }
    let (work, mut guard) = match Work::begin(at) {
        Begun::Mine(work, guard) => (work, guard),
        Begun::Others => return await_other(at),
        Begun::Over => return,
    };
    if conn.has(flag::DAMAGED) || !stream::audit::is_whole(&mut guard, true) {
        // Nothing that the segment says of the two paths is to be believed.
        stream::damaged(conn, fd);
        drop(guard);
        return detach(&work);
    }
    if cause == Cause::Exec && must_stay(&mut guard, fd) {
        return work.give_up(&mut guard);
    }
    if cause == Cause::Set && must_stay(&mut guard, fd) {
        leave_to_set(work, guard, fd);
        return sets::detached(at);
    }
    // So much waits on the VI for a receiver that has not come there yet, or for room on TCP that a
    // receiver has returned, that TCP would not take it now.
    let is_much =
        stream::unentered(&guard) > UNENTERED_MAX || returned::refuse_or_pump(&mut guard, fd);
    let is_relatives = cause == Cause::Exec && family::is_shared(conn);
    if is_much && (process::is_borrowed() || is_relatives) {
        // A relay would take the place of the caller's descriptors, and not of its relatives', which are the
        // likelier ones to read.
        return work.give_up(&mut guard);
    }
    let verdict = if is_much {
        // The connection stays as it is, behind a relay.
        drop(guard);
        Verdict::Relay(Left::default())
    } else if leave_sending(&mut guard, fd).is_err() {
        stream::damaged(conn, fd);
        drop(guard);
        Verdict::OnTcp
    } else {
        let asked = recall::ask(&mut guard);
        drop(guard);
        match asked {
            Asked::OnTcp => Verdict::OnTcp,
            Asked::AwaitTaken => recall::await_taken(fd, at),
            Asked::Drain => recall::finish(fd, at),
        }
    };
    let tell = |reason| {
        conn.stays(reason);
        stats::reason(reason);
    };
    match verdict {
        Verdict::OnTcp => {
            tell(cause.reason());
            detach(&work);
        }
        // Another thread has closed it meanwhile.
        Verdict::Relay(_) if at.attached().is_none() => tell(cause.reason()),
        Verdict::Relay(left) if relay(fd, at, &left) => {
            tell(Reason::Relayed);
            work.leave();
        }
        Verdict::Relay(_) => {
            tell(cause.reason());
            // No process to be had: what was accepted cannot be delivered, and must not look
            // as if nothing were missing.
            let _ = call::shutdown(fd, libc::SHUT_RDWR);
            detach(&work);
        }
    }
}

/// Puts a relay in the place of every descriptor of a connection; false if none can be had.
pub(crate) type Relay = fn(i32, Ref, &Left) -> bool;

static RELAY: OnceLock<Relay> = OnceLock::new();

/// Has `relay` start relays: they stand on the program's calls, which are above. Said once, at the start.
pub(crate) fn relayed_by(relay: Relay) {
    let _ = RELAY.set(relay);
}

fn relay(fd: i32, at: Ref, left: &Left) -> bool {
    RELAY.get().is_some_and(|relay| relay(fd, at, left))
}

/// Whether a connection must stay on its VI, because a relative has the same descriptor, and bytes that the
/// peer cannot put on TCP any more, because it has finished, are still unread: one of the two only could
/// have them.
///
/// Of a forked process that execs, a descriptor that merely leaks into the new program is by far the
/// likelier case than one that both read, so the relative keeps the connection.
fn must_stay(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    (family::is_shared(conn) || process::is_borrowed())
        && matches!(conn.rx(), Rx::Vi | Rx::Granted)
        && stream::unread(guard, fd).is_ok_and(|n| n > 0)
        && stream::anchor_has_ended(fd)
}

/// The kernel watches a connection that must stay on its VI. What it says of the anchor, which has ended, holds
/// for what is unread on the VI as well; what is sent goes over TCP, so that the room is TCP's.
fn leave_to_set(work: Work, mut guard: Guard<'_>, fd: i32) {
    let is_sending = guard.conn.tx() == Tx::Vi
        && stream::unentered(&guard) <= UNENTERED_MAX
        && !returned::refuse_or_pump(&mut guard, fd);
    if is_sending && leave_sending(&mut guard, fd).is_err() {
        stream::damaged(guard.conn, fd);
    }
    guard.conn.set(flag::LEFT_TO_SETS);
    work.give_up(&mut guard);
}

/// Like [`now`], and the peer does the same first: what it has not read yet is on TCP before
/// anything that this end sends afterwards. For urgent data, which has a place in the stream.
pub fn with_peer(fd: i32, at: Ref, cause: Cause) {
    if at.conn.phase() == Phase::Attached && at.conn.tx() == Tx::Vi {
        answer::ask_peer(fd, at);
    }
    now(fd, at, cause);
}

/// Takes back the connection of this process's whose socket `fd` is, by whatever way it has come to it.
pub fn of_socket(fd: i32) {
    let Ok(cookie) = diag::cookie(fd) else { return };
    let mut same = Vec::new();
    table::for_each_conn(|own, at| {
        if own != fd && diag::cookie(own) == Ok(cookie) {
            same.push((own, at));
        }
    });
    for (own, at) in same {
        now(own, at, Cause::Passed);
    }
}

/// Waits for another thread, or a relative, that is taking the connection back.
fn await_other(at: Ref) {
    let conn = at.conn;
    let goes_on = || conn.phase() == Phase::Attached && conn.has(flag::RETREATING);
    while conn.is_generation(at.generation) && goes_on() {
        if let Some(work) = Work::inherit(at) {
            return detach(&work);
        }
        call::sched_yield();
    }
}

/// Everything that a new program would inherit goes back to TCP.
pub fn before_exec() {
    let mut inherited = Vec::new();
    let look = |fd, at: Ref| {
        let flags = call::fcntl(fd, libc::F_GETFD, 0).unwrap_or(libc::FD_CLOEXEC as usize);
        if flags & libc::FD_CLOEXEC as usize == 0 && at.conn.phase() == Phase::Attached {
            inherited.push((fd, at));
        }
    };
    if process::is_borrowed() {
        table::for_each_conn_elsewhere(look);
    } else {
        table::for_each_conn(look);
    }
    for (fd, at) in inherited {
        now(fd, at, Cause::Exec);
    }
}

/// Ends our sending direction's part on the VI.
fn leave_sending(guard: &mut Guard<'_>, fd: i32) -> Result<(), Damaged> {
    let conn = guard.conn;
    let path = &guard.endpoint_ref().tx.direction().path;
    let switch = &path.0[word::SWITCH];
    let how = path::leave(conn.tx(), switch.load(Ordering::Acquire), guard.closing.fin_sent);
    conn.set_tx(Tx::Back);
    let cancelled = match how {
        Leave::Quietly => return Ok(()),
        Leave::End => false,
        Leave::Cancel(seen) => {
            switch.compare_exchange(seen, CANCELLED, Ordering::AcqRel, Ordering::Acquire).is_ok()
        }
    };
    if cancelled {
        // The receiver has seen nothing of the VI: the bytes go to TCP after all. Until they are
        // all there, a receiver that finds TCP at its end takes them from the VI.
        let bytes = stream::take_own_back(guard)?;
        write_all(fd, &bytes);
        stream::store(&guard.endpoint_ref().tx.direction().path, word::TAKEN, 1);
    } else {
        stream::send_control(guard, Kind::ToTcp);
    }
    tell_reader(guard);
    Ok(())
}

fn write_all(fd: i32, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match call::send(fd, bytes, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
            Ok(n) => bytes = &bytes[n..],
            Err(call::Errno::EINTR) => {}
            Err(call::Errno::EAGAIN) => {
                let mut fds = [poll::PollFd { fd, events: libc::POLLOUT, revents: 0 }];
                let _ = poll::ppoll(&mut fds, None, None);
            }
            Err(_) => return,
        }
    }
}

/// The connection is on TCP in both directions: it is an ordinary socket from here on. Nothing happens if
/// another thread has closed it meanwhile; nor while the peer needs the VI still.
fn detach(work: &Work) {
    let at = work.connection();
    let conn = at.conn;
    let (pair, vi, loans, large) = {
        let Some(mut guard) = at.attached() else { return };
        if recall::awaits_pump(&guard) && !conn.has(flag::DAMAGED) {
            return;
        }
        guard.settle_traffic();
        conn.set_rx(Rx::Back);
        conn.set_tx(Tx::Back);
        let loans = conn.loans.swap(0, Ordering::AcqRel);
        let large = stream::backlog::is_large(&guard);
        let pair = pair::get(conn.pair.load(Ordering::Relaxed));
        (pair, conn.vi.load(Ordering::Relaxed), loans, large)
    };
    sets::detached(at);
    let index = {
        let Some(guard) = at.attached() else { return };
        if let Some(pair) = &pair {
            pair.leaving(vi);
        }
        conn.set_phase(Phase::Plain);
        conn.use_memory(0);
        // They find that it is on TCP, whatever becomes of the VI.
        stream::wake_all(&guard);
        conn.pair.load(Ordering::Relaxed)
    };
    // What another thread has put into a set since.
    sets::detached(at);
    if let Some(pair) = pair {
        lent::leave(&pair, index, vi, loans, How::Ended { large });
    }
}

/// After a call: if the peer has taken both directions back, the connection becomes an ordinary
/// socket at this end, too.
pub(crate) fn settle(at: Ref) {
    let conn = at.conn;
    if conn.has(flag::LEFT_TO_SETS) {
        // By a relative, perhaps.
        sets::detached(at);
    }
    if conn.is_back()
        && let Begun::Mine(work, guard) = Work::begin(at)
        && conn.has_nothing_to_move()
        && !recall::awaits_pump(&guard)
    {
        drop(guard);
        conn.stays(Reason::RetreatPeer);
        stats::reason(Reason::RetreatPeer);
        detach(&work);
    }
}
