//! Back to TCP: for what only the kernel can do with a socket.
//!
//! Before an exec, before a descriptor becomes standard input or travels to another process, and
//! for calls that Sovia does not carry, both directions of a connection return to the kernel socket
//! ([`sovia_proto::path`], steps 4 and 5).
//!
//! - Our own direction just ends its part on the VI.
//! - For the other we revoke the grant, and the peer ends its part there. Bytes that the program has
//!   not had yet must now come out of the kernel, and only the peer can put them in: it (its next call, or
//!   its progress thread) reads them where they lie on the VI and writes them to its kernel socket before anything
//!   newer. No thread takes them off the VI for that: if the peer dies meanwhile, they are there still.
//! - A peer that cannot (it has died, or closed its side) or does not (stopped, for longer than two
//!   seconds) leaves one way: a relay, a small relative of this process that keeps the connection, and
//!   a Unix socket to it in the place of the program's descriptors. Where relatives share the connection it
//!   stays as it is, and they read on the VI what is there; a program that one of them becomes, or starts, shares it
//!   with them by a keeper (`rest`).
//!
//! No thread owns a retreat: see `step`.

pub(crate) mod answer;
mod cause;
mod coming;
mod hand_over;
mod inherited;
mod patience;
mod settle;
mod step;
mod wait;

pub use cause::Cause;
pub(crate) use coming::{before_close, go_on_coming, is_still_coming, pause, soon};
pub(crate) use hand_over::{Keep, Processes, helped_by};
pub use inherited::{before_exec, before_spawn};
pub(crate) use settle::{concerns, go_on, go_on_under, is_bringing, settle, settle_in_sets};
pub(crate) use wait::{all, give};

use crate::conn::{Conn, Guard, Phase, flag};
use crate::pair;
use crate::pair::lent::{self, How};
use crate::stream::{self, leaving, listeners};
use crate::table::{self, Ref};
use crate::{family, inheritance, keepalive, kernel_sockets, meeting, process, sets, stats};
use core::sync::atomic::Ordering;
use patience::Patience;
use sovia_control::Reason;
use sovia_proto::path::{self, Rx, Tx};
use step::Step;

/// Takes a connection back to TCP, for good. When this returns, the kernel's calls on the
/// descriptor do what they would have done without Sovia.
pub fn now(fd: i32, at: Ref, cause: Cause) {
    take_back(fd, at, cause);
    wait::give(&[(fd, at)], cause);
}

/// A descriptor of a connection is about to be sent to another process on `channel`, which may put it on a VI if it has not
/// had one ([`inheritance`]).
pub fn before_passing(channel: i32, fd: i32, at: Ref) {
    let is_on_record = inheritance::pass(channel, fd, at);
    now(fd, at, if is_on_record { Cause::PassedOnRecord } else { Cause::Passed });
}

fn take_back(fd: i32, at: Ref, cause: Cause) {
    let conn = at.conn;
    if cause.spreads() {
        // What a program that has inherited it would have to know as well.
        conn.spread();
    }
    if conn.phase() == Phase::Candidate && conn.is_generation(at.generation) && conn.stay_plain() {
        meeting::withdraw(at);
        conn.count_stay(cause.reason());
        return;
    }
    if begin(fd, at, cause) {
        wait::finish(fd, at, cause, Patience::begin());
    }
}

/// The direction in which the process sends is the kernel's from here on. The peer reads on the VI what is there, and
/// then what comes on TCP: nothing waits for it.
pub(crate) fn sending(fd: i32, at: Ref) {
    let Some(mut guard) = at.attached() else { return };
    if at.conn.tx() != Tx::Vi || at.conn.has(flag::CORRUPT | flag::FALLING_BACK) {
        return;
    }
    if !leave_sending(&mut guard, fd) {
        return;
    }
    stats::reason(Reason::RetreatCall);
    kernel_sockets::watch_room(&guard, fd);
    // Threads that wait for room on the VI.
    listeners::tell_all(&guard);
}

/// Ends this end's part on the VI in the direction in which it sends; false if the segment holds nonsense.
fn leave_sending(guard: &mut Guard<'_>, fd: i32) -> bool {
    let left = leaving::leave_sending(guard).is_ok();
    if !left {
        stream::corrupt(guard.conn, fd);
    }
    left
}

/// Has the connection taken back from here on, by whichever thread comes by. False if it is back, or stays as it is.
fn begin(fd: i32, at: Ref, cause: Cause) -> bool {
    let conn = at.conn;
    let Some(mut guard) = at.attached() else { return false };
    keepalive::leave(&guard);
    if conn.has(flag::CORRUPT) || !stream::audit::is_whole(&mut guard, true) {
        // Nothing that the segment says of the two paths is to be believed.
        stream::corrupt(conn, fd);
        drop(guard);
        detach(at);
        return false;
    }
    if conn.has(flag::FALLING_BACK) {
        return true;
    }
    if stream::kernel_socket_has_ended(fd) {
        // A peer that has died with bytes unread on the VI has reset the connection. TCP knows nothing of that.
        stream::ending::has_gone_by_now(&mut guard, fd);
    }
    if stream::unanswered::settle(&mut guard) {
        // No other end has come to the VI: there is none to wait for.
        conn.leaves_for.store(cause.reason() as u32 + 1, Ordering::Relaxed);
        drop(guard);
        detach(at);
        return false;
    }
    if cause == Cause::Set && must_stay(&mut guard, fd) {
        leave_to_set(&mut guard, fd);
        drop(guard);
        sets::detached(at);
        return false;
    }
    conn.leaves_for.store(cause.reason() as u32 + 1, Ordering::Relaxed);
    conn.set(flag::FALLING_BACK);
    true
}

/// Records why the connection is on TCP. After some reasons it may meet again. What keeps it may end. A peer that has taken it
/// back may have become another program, or have sent its end to another process. Another process may have the other end than
/// the one that was asked.
fn say_why(guard: &Guard<'_>) {
    let conn = guard.conn;
    if conn.has(flag::CORRUPT) || stream::failover::is_on(guard) {
        // That has been recorded as the reason.
        return;
    }
    let asked = conn.leaves_for.load(Ordering::Relaxed).checked_sub(1);
    let reason = asked.and_then(Reason::of).unwrap_or(Reason::RetreatPeer);
    let is_for_now = matches!(
        reason,
        Reason::RetreatPeer
            | Reason::PacketFilter
            | Reason::NoFilterAgent
            | Reason::SwitchedOff
            | Reason::PeerPlain
    );
    conn.again.store(u32::from(is_for_now), Ordering::Relaxed);
    conn.stays(reason);
    // The end counts one that has never been accelerated.
    if conn.has(flag::COUNTED) {
        stats::reason(reason);
    }
}

/// The connection stays as it is: on its VI, or while the peer still puts on TCP what was unread there.
fn give_up(guard: &mut Guard<'_>, came: Step) {
    if came == Step::Stays {
        guard.conn.leaves_for.store(0, Ordering::Relaxed);
    }
    guard.conn.clear(flag::FALLING_BACK);
    // What a thread of Sovia's has left alone meanwhile.
    stream::handled::handle(guard);
    listeners::tell_all(guard);
}

/// A relay has the connection, and calls on it are as always again. Where the far end has yet to answer what becomes of unread bytes
/// (between hosts), the retreat goes on: until then no receive takes anything, and a step finds the answer.
pub(crate) fn goes_on_in_relay(at: Ref) {
    let conn = at.conn;
    // Under the lock, under which steps are taken. A connection that has ended has none.
    let _guard = at.attached();
    if !conn.has(flag::RETURNING) || conn.rx() == Rx::Back {
        conn.clear(flag::FALLING_BACK);
    }
    conn.relaying.store(0, Ordering::Release);
}

/// Whether relatives have the connection as well.
fn is_others(conn: &Conn) -> bool {
    family::is_shared(conn) || process::is_borrowed()
}

/// Whether a connection must stay on its VI, because a relative has the same descriptor, and bytes that the
/// peer cannot put on TCP any more, because it has finished or this end takes none, are still unread: only one
/// of the two could have them.
fn must_stay(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    is_others(conn)
        && matches!(conn.rx(), Rx::Vi | Rx::Granted)
        && stream::unread(guard, fd).is_ok_and(|n| n > 0)
        && (stream::kernel_socket_has_ended(fd) || conn.is_shut())
}

/// The kernel watches a connection that must stay on its VI. What it says of the kernel socket, which has ended, holds
/// for what is unread on the VI as well; what is sent goes over TCP, so that the room is TCP's.
fn leave_to_set(guard: &mut Guard<'_>, fd: i32) {
    leave_sending(guard, fd);
    guard.conn.set(flag::LEFT_TO_SETS);
}

/// Like [`now`], and the peer does the same first: what it has not read yet is on TCP before
/// anything that this end sends afterwards. For urgent data, which has a place in the stream.
pub fn with_peer(fd: i32, at: Ref, cause: Cause) {
    at.conn.spread();
    if at.attached().is_some_and(|mut guard| stream::ending::has_gone_by_now(&mut guard, fd)) {
        // No process reads it, and what is unread here need not move: the kernel refuses the call.
        return;
    }
    if at.conn.phase() == Phase::Attached && at.conn.tx() == Tx::Vi {
        // First: the peer goes back as well. Once it has, no process would put on TCP what is unread here.
        revoke(fd, at);
        answer::ask_peer(fd, at, Patience::begin());
    }
    now(fd, at, cause);
}

/// Revokes the grant of the direction in which the process receives. A sender that goes back from here on waits for what is unread.
fn revoke(fd: i32, at: Ref) {
    let Some(mut guard) = at.attached() else { return };
    if path::revokes(at.conn.rx()) && leaving::revoke(&mut guard).is_err() {
        stream::corrupt(at.conn, fd);
    }
}

/// Takes back the connection of this process's whose socket `fd` is, by whatever way it has come to it.
pub fn of_socket(fd: i32) {
    if let Some((own, at)) = table::conn_of_socket(fd) {
        now(own, at, Cause::Passed);
    }
}

/// The connection is on TCP in both directions: it is an ordinary socket from here on. Nothing happens if
/// another thread has closed it meanwhile, or has done this.
fn detach(at: Ref) {
    let conn = at.conn;
    let (index, pair, vi, loans, how) = {
        let Some(mut guard) = at.attached() else { return };
        keepalive::leave(&guard);
        guard.settle_traffic();
        say_why(&guard);
        conn.set_rx(Rx::Back);
        conn.set_tx(Tx::Back);
        let loans = conn.loans.swap(0, Ordering::AcqRel);
        let used = stream::backlog::used(&guard);
        let index = conn.pair.load(Ordering::Relaxed);
        let pair = pair::get(index);
        let vi = conn.vi.load(Ordering::Relaxed);
        if let Some(pair) = &pair {
            pair.leaving(vi);
        }
        // They find that it is on TCP, whatever becomes of the VI; relatives' sets, too, which it is to leave.
        listeners::tell_of_leaving(&guard);
        conn.set_phase(Phase::Plain);
        conn.use_memory(0);
        (index, pair, vi, loans, How::Ended { used })
    };
    // After that: the next call finds what the kernel reports of it.
    sets::detached(at);
    if let Some(pair) = pair {
        lent::leave(&pair, index, at, vi, loans, how);
    }
}
