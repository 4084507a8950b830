//! Finds out whether the peer has closed, reset the connection or died, and decides what to report to the program.
//!
//! A peer that closes sends a FIN on the VI, and closes its kernel socket. A peer that dies sends nothing on the
//! VI, but the kernel closes the peer's kernel socket. Unread bytes on TCP or an earlier FIN can hide that this
//! socket is closed. Then the progress thread detects the death in another way, and sets [`flag::DEAD`].
//!
//! TCP resets a connection if a receiver dies with unread bytes, and otherwise ends the connection without an
//! error. The kernel does not know the unread bytes on the VI, so this module emulates the reset. The error is
//! reported once, to the first call or to SO_ERROR, as by the kernel.

use super::entering::switched;
use super::hold::scan;
use super::kernel_socket::{examine_kernel_socket, kernel_socket_has_ended};
use super::{failover, listeners, peek, reflected, rx, state, tx, unanswered, word};
use crate::Errno;
use crate::conn::{Conn, Guard, HELD, flag};
use sovia_proto::packet::Kind;
use sovia_proto::path::{CANCELLED, Rx, Tx};
use sovia_sys::{call, poll};

/// Flags for a possible close or death of the peer, which no thread has examined yet.
const UNEXAMINED: u32 = flag::KERNEL_SOCKET | flag::DEAD;

/// Records that a receive has got the connection's error from the kernel, which reports an error only once. For a
/// connection between hosts, a NIC reports the end.
pub(super) fn end_by_error(conn: &Conn) {
    if !conn.has(flag::REFLECTED) {
        conn.set(flag::ENDED | flag::PEER_GONE);
    }
}

/// Returns true if the peer has died, or has reset the connection. Returns false for a peer that has only closed
/// its sending half.
#[inline]
pub(super) fn has_gone(guard: &mut Guard<'_>, fd: i32) -> bool {
    guard.conn.has(flag::PEER_GONE) || guard.conn.has(UNEXAMINED) && look(guard, fd)
}

/// Like [`has_gone`], but always asks the kernel. Use it if the progress thread may not have seen the latest event
/// of the kernel socket.
#[cold]
pub(crate) fn has_gone_by_now(guard: &mut Guard<'_>, fd: i32) -> bool {
    guard.conn.set(flag::KERNEL_SOCKET);
    has_gone(guard, fd)
}

#[cold]
fn look(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    if unanswered::settle(guard) {
        // The connection is on TCP now, so the kernel reports the peer's end.
        return false;
    }
    if failover::is_on(guard) {
        return failover::ask(guard);
    }
    if failover::begin_on_record(guard, fd) {
        return false;
    }
    if conn.has(flag::REFLECTED) && is_ended_here(guard, fd) {
        return true;
    }
    let dead = conn.has(flag::DEAD);
    let ended = examine_kernel_socket(conn, fd) && reflected::tcp_reports_the_end(guard);
    if ended {
        conn.set(flag::ENDED);
        conn.report_withheld_error();
    } else if conn.has(flag::KERNEL_SOCKET) {
        reflected::kernel_socket_ended(guard);
    }
    if conn.has(flag::REFLECTED) && reflected::end(guard) == reflected::End::Broken {
        return is_broken(guard, fd);
    }
    let reset = ended && is_reset(conn, fd);
    // A peer that sends on TCP announces in the segment that it will send a FIN on TCP. Such a peer may still read.
    // A FIN on TCP without an announcement means that the peer has died.
    let half_closed = ended && !is_on_vi(guard) && is_announced_on_tcp(guard);
    if !(dead || reset || ended && !half_closed) {
        // The event of the kernel socket has been examined. A later event sets the flag again.
        conn.clear(flag::KERNEL_SOCKET);
        return false;
    }
    // Everything that the peer put on the VI before its kernel socket ended is visible by now, so `scan` finds it.
    if scan(guard).is_err() {
        return false;
    }
    let finished = has_finished(guard) || half_closed;
    // The peer may have closed just before this end put its last bytes on the VI. TCP would reset the connection
    // for such bytes.
    let refused = tx(guard).path.load(word::GRANT) == word::LEFT && leaves_unread(guard);
    if !dead && !reset && !refused && finished {
        conn.clear(flag::KERNEL_SOCKET);
        return false;
    }
    conn.set(flag::PEER_GONE);
    // If both ends have finished sending, the kernel has already closed the peer's socket, and would send no reset.
    let both_closed = finished && conn.has(flag::SHUT_WR);
    if !reset && !both_closed && leaves_unread(guard) {
        // The kernel reports EPIPE if a FIN came before the reset.
        let error = if finished { libc::EPIPE } else { libc::ECONNRESET };
        conn.keep_error(error);
        conn.set(flag::RESET);
        // Ready lists may have been notified of the end of the kernel socket, but not of this reset.
        guard.own.is_end_reported = false;
        // After this shutdown, the kernel itself refuses the program's sends with EPIPE and raises SIGPIPE.
        let _ = call::shutdown(fd, libc::SHUT_WR);
    }
    true
}

/// Returns true if this host's kernel has closed the kernel socket because the other host did not answer
/// (keep-alive, TCP_USER_TIMEOUT, retransmissions). Then this call has ended the connection with the kernel's
/// error.
///
/// A reset by the peer's kernel may have overtaken bytes on the VI. So ECONNRESET and EPIPE are withheld until a
/// NIC has reported that all bytes of the peer have arrived.
fn is_ended_here(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    if conn.has(flag::CORRUPT) || !call::tcp_has_closed_unanswered(fd) {
        return false;
    }
    match call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0) {
        0 => false,
        error @ (libc::ECONNRESET | libc::EPIPE) => {
            conn.withhold_error(error);
            false
        }
        error => {
            super::broken_off(conn, fd, error);
            reflected::ended_here(guard);
            conn.set(flag::PEER_GONE);
            true
        }
    }
}

/// Moves the connection to TCP after a NIC between the two ends has died, and returns false. If the move is
/// impossible, returns true: the peer counts as gone. Also ends the connection with an error then, unless all of
/// the peer's bytes up to its FIN have arrived.
fn is_broken(guard: &mut Guard<'_>, fd: i32) -> bool {
    if failover::begin(guard) {
        return false;
    }
    let conn = guard.conn;
    let is_complete = scan(guard).is_ok() && (has_finished(guard) || conn.rx() == Rx::Back);
    if !is_complete {
        failover::lost(guard, fd, error_of_break(guard, fd));
    }
    conn.set(flag::PEER_GONE);
    true
}

/// Returns the error for a connection that has lost its NIC and cannot move to TCP. This is the error of the kernel
/// socket, such as ETIMEDOUT, if the kernel has stored one. Otherwise this is the error that TCP would have
/// reported.
fn error_of_break(guard: &Guard<'_>, fd: i32) -> Errno {
    match call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok(error) if error != 0 => error,
        _ if guard.conn.withholds_error() => guard.conn.error().unwrap_or(libc::ECONNRESET),
        _ if reflected::has_timed_out(guard) => libc::ETIMEDOUT,
        _ => libc::ECONNRESET,
    }
}

/// Returns true if the connection was reset on TCP.
fn is_reset(conn: &Conn, fd: i32) -> bool {
    poll::probe(fd, 0) & libc::POLLERR != 0
        || conn.withholds_error()
        || call::tcp_state(fd).is_none_or(|state| state.is_closed()) && !conn.has(flag::SHUT_WR)
}

/// Returns true if the kernel socket has ended, and no byte or word that the peer published on the VI can still
/// arrive.
pub(crate) fn peer_has_ended(guard: &Guard<'_>, fd: i32) -> bool {
    kernel_socket_has_ended(fd) && reflected::tcp_reports_the_end(guard)
}

/// Returns true if the peer's last packet on the VI (FIN or ToTcp) has arrived. The program may already have read
/// this packet.
pub(super) fn has_finished(guard: &Guard<'_>) -> bool {
    let mut n = guard.held_first;
    while n != guard.held_end {
        if guard.held[n as usize % HELD].kind != Kind::Data as u8 {
            return true;
        }
        n = n.wrapping_add(1);
    }
    guard.conn.has(flag::EOF)
}

/// Returns true if the peer has not read all bytes that this end has put on the VI.
fn leaves_unread(guard: &Guard<'_>) -> bool {
    let direction = tx(guard);
    let taken_back = direction.path.load(word::SWITCH) == CANCELLED;
    let drained = direction.path.load(word::DRAINED) != 0;
    if guard.conn.tx() == Tx::Tcp || taken_back || drained || guard.own.uncounted {
        // No byte is on the VI only, or this end's count of bytes is not reliable.
        return false;
    }
    guard.coalescer.tail != direction.reader.load(word::HEAD)
        || guard.bytes_sent != direction.reader.load(word::TAKEN_BYTES) as u32
}

/// Returns the error for a receive at the end of the stream, if there is one. Removes the error, because it is
/// reported once.
pub(crate) fn receive_error(conn: &Conn) -> Option<Errno> {
    // After a FIN, a receive on TCP returns the end of the stream, and leaves the error for other calls.
    if conn.has(flag::EOF) || conn.error() == Some(libc::EPIPE) { None } else { conn.take_error() }
}

/// Returns the error for a send, if there is one, and removes the error. Leaves EPIPE to the kernel, which returns
/// EPIPE and raises SIGPIPE ([`take_epipe`]).
pub(crate) fn send_error(conn: &Conn) -> Option<Errno> {
    if conn.error() == Some(libc::EPIPE) { None } else { conn.take_error() }
}

/// Removes a stored EPIPE. Called after the kernel has returned EPIPE to the program's send.
pub(crate) fn take_epipe(guard: &Guard<'_>) {
    if guard.conn.error() == Some(libc::EPIPE) {
        guard.conn.take_error();
    }
}

/// Returns and removes the stored error, for `SO_ERROR` on an attached connection. Does not return errors that the
/// kernel has stored on the socket: the caller then takes such an error from the kernel.
pub(crate) fn socket_error(guard: &mut Guard<'_>, fd: i32) -> Option<Errno> {
    // Look first. Without the error, the socket does not show that the peer has reset the connection.
    has_gone_by_now(guard, fd);
    guard.conn.take_error()
}

/// Returns the `poll` events that report an error or the peer's end (POLLERR, POLLHUP, POLLRDHUP).
pub(crate) fn events(guard: &mut Guard<'_>, fd: i32) -> i16 {
    const ENDS: i16 = libc::POLLHUP | libc::POLLRDHUP;
    let conn = guard.conn;
    has_gone(guard, fd);
    let mut events = poll::probe(fd, libc::POLLRDHUP) & (ENDS | libc::POLLERR);
    if !reflected::tcp_reports_the_end(guard) {
        // A NIC has not confirmed the peer's end, so no event reports it. Only POLLRDHUP for the program's own
        // shutdown is kept.
        events &= if conn.has(flag::SHUT_RD) { libc::POLLRDHUP } else { 0 };
    }
    if events & !libc::POLLRDHUP != 0 && !conn.has(flag::PEER_GONE) {
        // The program's next call must find the end or error that this call reports.
        has_gone_by_now(guard, fd);
    }
    let has_end = events & ENDS != 0 && !conn.has(flag::RESET | flag::SHUT_RD);
    // On TCP, the FIN of the peer arrives only if the unread bytes before the FIN fit into the receive buffer. So this
    // function withholds the end while more bytes than that are unread on the VI.
    if has_end && !is_reset(conn, fd) && must_withhold_end(guard, fd) {
        events &= !ENDS;
        conn.set(flag::WITHHELD);
    }
    events | state::events(conn.flags())
}

/// Returns true if the peer has announced that its stream ends on the VI. Bytes before the end may still be unread.
pub(crate) fn is_announced(guard: &Guard<'_>) -> bool {
    is_on_vi(guard) && rx(guard).writer.load(word::FIN) == word::FIN_ON_VI
}

/// Returns true if this end receives on the VI, or will receive there after the sender's switch.
fn is_on_vi(guard: &Guard<'_>) -> bool {
    match guard.conn.rx() {
        Rx::Vi => true,
        Rx::Granted => switched(guard) != 0,
        _ => false,
    }
}

/// Returns true if the peer has announced that it sends no more on TCP. Always returns true if a NIC is between the
/// two ends, because the announcement may still be on its way.
fn is_announced_on_tcp(guard: &Guard<'_>) -> bool {
    guard.conn.has(flag::REFLECTED) || rx(guard).writer.load(word::FIN) != 0
}

/// Returns true if `poll` may report the end that the peer has announced on the VI. Otherwise withholds the end,
/// because too many unread bytes lie before it.
pub(crate) fn shows_end(guard: &mut Guard<'_>, fd: i32) -> bool {
    if !is_announced(guard) {
        return false;
    }
    let withholds = must_withhold_end(guard, fd);
    if withholds {
        guard.conn.set(flag::WITHHELD);
    }
    !withholds
}

/// Returns true if more bytes are unread than the kernel socket's receive buffer could hold.
fn must_withhold_end(guard: &mut Guard<'_>, fd: i32) -> bool {
    let buffer = call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap_or(0);
    // The kernel uses half of the buffer for its own structures.
    peek::unread(guard, fd).is_ok_and(|n| n > buffer.max(0) as usize / 2)
}

/// Reports the peer's end, which was withheld, if the remaining unread bytes would fit into the kernel socket's
/// receive buffer.
#[cold]
pub(super) fn come_close(guard: &mut Guard<'_>, fd: i32) {
    if !must_withhold_end(guard, fd) {
        guard.conn.clear(flag::WITHHELD);
        listeners::notify_all(guard);
    }
}

/// Handles a NIC's report that no more bytes come from the peer.
pub(crate) fn gone(guard: &mut Guard<'_>) {
    if reflected::has_died(guard) {
        died(guard);
    } else if !(reflected::end(guard) == reflected::End::Broken && failover::begin(guard)) {
        listeners::notify_all(guard);
    }
}

/// Handles the death of the last process that held the peer's end, or of a NIC between the two ends.
pub(crate) fn died(guard: &mut Guard<'_>) {
    if reflected::is_without_nic(guard) && failover::begin(guard) {
        return;
    }
    // If the peer has not answered this end's request for a VI, the dead process may not be the peer. `settle` then
    // takes the request back.
    if !unanswered::settle(guard) {
        guard.conn.set(flag::DEAD);
        if is_announced(guard) && !leaves_unread(guard) {
            // The program has been notified of the peer's end. Its death changes nothing that an epoll set reports.
            listeners::wake_all(guard);
        } else {
            listeners::notify_all(guard);
        }
    }
}
