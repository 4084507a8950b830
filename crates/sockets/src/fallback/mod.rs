//! Fallback: moves a connection from its VI back to TCP, because only the kernel can perform some operations on a
//! socket.
//!
//! Both directions of a connection return to the kernel socket ([`sovia_proto::path`], steps 4 and 5). A fallback
//! comes before the exec of a program that cannot join the family ([`crate::exec`]), and before a descriptor goes to
//! another process. A call that Sovia does not carry also causes a fallback.
//!
//! - In the sending direction, this end stops sending on the VI, and sends on TCP from then on.
//! - In the receiving direction, this end revokes the grant, and the peer stops sending on the VI. The kernel must
//!   now deliver the bytes that the program has not read yet, and only the peer can put these bytes on TCP. The
//!   peer's next call, or its progress thread, copies these bytes from the VI to the peer's kernel socket, before
//!   newer bytes. No thread takes the bytes off the VI for that. So the bytes are still on the VI if the peer dies
//!   meanwhile.
//! - The peer may be unable to put the bytes on TCP, because it is dead or has closed its side. Or the peer may be
//!   stopped for more than two seconds. Then a relay takes over: a small forked process that keeps the connection.
//!   A Unix socket to the relay replaces the program's descriptors. If forked relatives share the connection, there
//!   is no relay. The connection stays unchanged, and the relatives read the bytes on the VI. But if another program
//!   gets the connection, a relay lends the unread bytes to this program (`relay/loan.rs`).
//!
//! Any thread can continue a fallback: see `step`.

pub(crate) mod answer;
mod cause;
mod hand_over;
mod patience;
mod pending;
mod settle;
mod step;
mod wait;

pub use cause::Cause;
pub(crate) use hand_over::{Processes, helped_by, put_unread, replace_by_error};
pub(crate) use pending::{
    continue_pending, is_still_pending, needs_keeper, pause, soon, start_keeper,
};
pub(crate) use settle::{
    await_peer, concerns, go_on, go_on_under, is_bringing, settle, settle_in_epoll_sets,
};
pub(crate) use wait::all;

use crate::conn::{Conn, Guard, Phase, flag};
use crate::pair;
use crate::pair::lent::{self, LeaveKind};
use crate::stream::{self, leaving, listeners};
use crate::table::{self, Ref};
use crate::{
    epoll_sets, family, keepalive, kernel_sockets, other_families, process, rendezvous, stats,
};
use core::sync::atomic::Ordering;
use patience::Patience;
use sovia_control::Reason;
use sovia_proto::path::{self, Rx, Tx};
use step::FallbackState;

/// Moves a connection back to TCP for good. When this function returns, system calls on the descriptor do what they
/// would have done without Sovia.
pub fn now(fd: i32, at: Ref, cause: Cause) {
    take_back(fd, at, cause);
}

/// Moves a connection back to TCP before the descriptor `fd` is sent to another process on the socket `channel`. If
/// the connection has had no VI, the receiving process may give the connection a VI ([`other_families`]).
pub fn before_passing(channel: i32, fd: i32, at: Ref) {
    let is_on_record = other_families::pass(channel, fd, at);
    now(fd, at, if is_on_record { Cause::PassedOnRecord } else { Cause::Passed });
}

fn take_back(fd: i32, at: Ref, cause: Cause) {
    let conn = at.conn;
    if cause.spreads() {
        // A program that has inherited the connection does not learn of this cause. So keep that program from
        // giving the connection a VI.
        conn.spread();
    }
    if conn.phase() == Phase::Eligible && conn.is_generation(at.generation) && conn.stay_plain() {
        rendezvous::withdraw(at);
        conn.count_stay(cause.reason());
        return;
    }
    if begin(fd, at, cause) {
        wait::finish(fd, at, cause, Patience::begin());
    }
}

/// Moves only the sending direction back to TCP. The peer reads the VI's bytes first and then TCP, so this function
/// need not wait for the peer.
pub(crate) fn sending(fd: i32, at: Ref) {
    let Some(mut guard) = at.attached() else { return };
    let fd = table::current(fd, at);
    if at.conn.tx() != Tx::Vi || at.conn.has(flag::CORRUPT | flag::FALLING_BACK) {
        return;
    }
    if !leave_sending(&mut guard, fd) {
        return;
    }
    stats::reason(Reason::FallbackCall);
    kernel_sockets::watch_room(&guard, fd);
    // Wake the threads that wait for room on the VI.
    listeners::notify_all(&guard);
}

/// Moves the sending direction from the VI to TCP. Returns false if the segment is corrupt.
fn leave_sending(guard: &mut Guard<'_>, fd: i32) -> bool {
    let left = leaving::leave_sending(guard).is_ok();
    if !left {
        stream::corrupt(guard.conn, fd);
    }
    left
}

/// Begins a fallback, which any thread may continue. Returns false if there is nothing to continue: the connection
/// is back on TCP already, or stays on its VI.
fn begin(fd: i32, at: Ref, cause: Cause) -> bool {
    let conn = at.conn;
    let Some(mut guard) = at.attached() else { return false };
    let fd = table::current(fd, at);
    keepalive::leave(&guard);
    // While a fallback or a failover is under way, the words are not as the check expects.
    let is_going_back = conn.is_going_back();
    let is_on_its_way = is_going_back || stream::failover::is_on(&guard);
    if conn.has(flag::CORRUPT) || !is_on_its_way && !stream::audit::is_whole(&mut guard, true) {
        // The words in the segment that say which path each direction uses cannot be trusted.
        stream::corrupt(conn, fd);
        drop(guard);
        detach(fd, at);
        return false;
    }
    if is_going_back {
        return true;
    }
    if stream::kernel_socket_has_ended(fd) {
        // If the peer died with unread bytes on the VI, the connection counts as reset. Find that out here, because
        // TCP does not know of the unread bytes.
        stream::ending::has_gone_by_now(&mut guard, fd);
    }
    if stream::unanswered::settle(&mut guard) {
        // The other end has not taken the VI, so there is no peer to wait for.
        conn.leaves_for.store(cause.reason() as u32 + 1, Ordering::Relaxed);
        drop(guard);
        detach(fd, at);
        return false;
    }
    if cause == Cause::EpollSet && must_stay(&mut guard, fd) {
        leave_to_epoll_set(&mut guard, fd);
        drop(guard);
        epoll_sets::detached(at);
        return false;
    }
    conn.leaves_for.store(cause.reason() as u32 + 1, Ordering::Relaxed);
    conn.set(flag::FALLING_BACK);
    kernel_sockets::watch_at_once(conn);
    true
}

/// Records why the connection is on TCP, and if a new rendezvous may follow. A rendezvous may follow if the reason
/// can end, or if another process may hold the other end by now.
fn record_reason(guard: &Guard<'_>) {
    let conn = guard.conn;
    if conn.has(flag::CORRUPT) || stream::failover::is_on(guard) {
        // The reason has been recorded already.
        return;
    }
    let asked = conn.leaves_for.load(Ordering::Relaxed).checked_sub(1);
    let reason = asked.and_then(Reason::of).unwrap_or(Reason::FallbackPeer);
    let is_for_now = matches!(
        reason,
        Reason::FallbackPeer
            | Reason::PacketFilter
            | Reason::NoFilterAgent
            | Reason::SwitchedOff
            | Reason::NotTaken
    );
    conn.again.store(u32::from(is_for_now), Ordering::Relaxed);
    conn.stays(reason);
    // Count the reason only if the connection was accelerated. Any other connection is counted when it ends.
    if conn.has(flag::COUNTED) {
        stats::reason(reason);
    }
}

/// Ends a fallback that cannot be completed now. The connection stays on its VI, or on TCP where unread bytes still
/// arrive.
fn give_up(guard: &mut Guard<'_>, came: FallbackState) {
    if came == FallbackState::Stays {
        guard.conn.leaves_for.store(0, Ordering::Relaxed);
    }
    guard.conn.clear(flag::FALLING_BACK);
    // Receive the messages that the handler thread left on the ring during the fallback.
    stream::handler_queue::handle(guard);
    listeners::notify_all(guard);
}

/// Lets calls use a connection normally again after a relay has taken the connection over. On a connection between
/// hosts, it may be undecided if the other host will return the unread bytes. Then the fallback continues: a later
/// step finds the decision, and until then no receive takes bytes.
pub(crate) fn goes_on_in_relay(at: Ref) {
    let conn = at.conn;
    // Take the connection's lock, under which threads take steps of a fallback. A connection that has ended has no
    // lock.
    let _guard = at.attached();
    if !conn.has(flag::RETURNING) || conn.rx() == Rx::Back {
        conn.clear(flag::FALLING_BACK);
    }
    conn.relaying.store(0, Ordering::Release);
}

/// Returns true if forked relatives share the connection.
fn is_others(conn: &Conn) -> bool {
    family::is_shared(conn) || process::is_borrowed()
}

/// Returns true if a connection must stay on its VI because of unread bytes that the peer cannot put on TCP. The
/// peer has finished, or this end no longer receives on TCP. A relay cannot take the bytes either, because a forked
/// relative shares the connection and may have to read them.
fn must_stay(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    is_others(conn)
        && matches!(conn.rx(), Rx::Vi | Rx::Granted)
        && stream::unread(guard, fd).is_ok_and(|n| n > 0)
        && (stream::kernel_socket_has_ended(fd) || conn.is_shut())
}

/// Lets the kernel's epoll instance report events of a connection that must stay on its VI. The kernel socket has
/// ended, so the kernel reports it as readable, which is right for the unread bytes on the VI. The program's sends
/// go over TCP, so the kernel's report of room is right as well.
fn leave_to_epoll_set(guard: &mut Guard<'_>, fd: i32) {
    leave_sending(guard, fd);
    guard.conn.set(flag::LEFT_TO_EPOLL_SETS);
}

/// Like [`now`], but the peer falls back first. So the bytes that the peer has not read yet are on TCP before bytes
/// that this end sends later. Used for urgent data, which has a position in the stream.
pub fn with_peer(fd: i32, at: Ref, cause: Cause) {
    at.conn.spread();
    if at.attached().is_some_and(|mut guard| {
        stream::ending::has_gone_by_now(&mut guard, table::current(fd, at))
    }) {
        // No process holds the other end. The kernel will refuse the program's call, so unread bytes need not move
        // to TCP.
        return;
    }
    if at.conn.phase() == Phase::Attached && at.conn.tx() == Tx::Vi {
        // Revoke the receiving direction first. Once the peer has fallen back as well, no process would put this
        // end's unread bytes on TCP.
        revoke(fd, at);
        answer::ask_peer(fd, at, Patience::begin());
    }
    now(fd, at, cause);
}

/// Revokes the grant of the receiving direction. If the peer falls back afterwards, the peer first waits for this
/// end's report of unread bytes.
fn revoke(fd: i32, at: Ref) {
    let Some(mut guard) = at.attached() else { return };
    if path::revokes(at.conn.rx()) && leaving::revoke(&mut guard).is_err() {
        stream::corrupt(at.conn, table::current(fd, at));
    }
}

/// Moves the connection of the socket `fd` back to TCP, if this process has the connection under any descriptor.
pub fn of_socket(fd: i32) {
    if let Some((own, at)) = table::conn_of_socket(fd) {
        now(own, at, Cause::Passed);
    }
}

/// Ends a fallback: turns a connection with both directions on TCP into an ordinary socket. `fd` is a descriptor of the
/// connection. Does nothing if another thread has closed or detached the connection.
fn detach(fd: i32, at: Ref) {
    let conn = at.conn;
    let (index, pair, vi, loans, how) = {
        let Some(mut guard) = at.attached() else { return };
        keepalive::leave(&guard);
        kernel_sockets::watch_no_more(table::current(fd, at), at);
        guard.settle_traffic();
        record_reason(&guard);
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
        // Wake all threads that wait for the connection, which find it on TCP. Also notify relatives, because their
        // epoll sets must drop the connection.
        listeners::notify_of_leaving(&guard);
        conn.set_phase(Phase::Plain);
        conn.use_memory(0);
        (index, pair, vi, loans, LeaveKind::Ended { used })
    };
    // Call this only after the phase has changed. Then the next call on an epoll set finds the events that the
    // kernel reports for the socket.
    epoll_sets::detached(at);
    if let Some(pair) = pair {
        lent::leave(&pair, index, at, vi, loans, how);
    }
}
