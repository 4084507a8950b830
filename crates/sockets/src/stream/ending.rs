//! Finds out how the peer's end came, and what to report to the program.
//!
//! A peer that closes sends a FIN on the VI, and closes the kernel socket. A peer that dies sends nothing on the VI.
//! The kernel then ends the kernel socket. If unread bytes or an earlier FIN hide this end, the progress thread learns
//! of the death in another way ([`flag::DEAD`]).
//!
//! This module decides what the kernel would have done. The kernel resets a connection whose receiver dies with unread
//! bytes, and otherwise ends it without an error. The kernel does not know the bytes on the VI, so this module emulates
//! the reset. The module reports the error once, to the first call or to SO_ERROR, like the kernel's `sk_err`.

use super::entering::switched;
use super::hold::scan;
use super::kernel_socket::{kernel_socket_has_ended, kernel_socket_news};
use super::{failover, listeners, peek, reflected, rx, state, tx, unanswered, word};
use crate::Errno;
use crate::conn::{Conn, Guard, HELD, flag};
use sovia_proto::packet::Kind;
use sovia_proto::path::{CANCELLED, Rx, Tx};
use sovia_sys::{call, poll};

/// Flags for events of the peer's end that no thread has looked at.
const NEWS: u32 = flag::KERNEL_SOCKET | flag::DEAD;

/// Returns true if the peer has died or has reset the connection. A peer that has only closed its sending half has not
/// gone.
#[inline]
pub(super) fn has_gone(guard: &mut Guard<'_>, fd: i32) -> bool {
    guard.conn.has(flag::PEER_GONE) || guard.conn.has(NEWS) && look(guard, fd)
}

/// Like [`has_gone`], but asks the kernel now. The progress thread may not have seen an event of the kernel socket yet.
#[cold]
pub(crate) fn has_gone_by_now(guard: &mut Guard<'_>, fd: i32) -> bool {
    guard.conn.set(flag::KERNEL_SOCKET);
    has_gone(guard, fd)
}

#[cold]
fn look(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    if unanswered::settle(guard) {
        // The kernel decides what has ended.
        return false;
    }
    if failover::is_on(guard) {
        return failover::ask(guard);
    }
    if failover::told(guard, fd) {
        return false;
    }
    if conn.has(flag::REFLECTED) && is_ended_here(guard, fd) {
        return true;
    }
    let dead = conn.has(flag::DEAD);
    let ended = kernel_socket_news(conn, fd) && reflected::tcp_tells_the_end(guard);
    if ended {
        conn.set(flag::ENDED);
        conn.tell_withheld_error();
    } else if conn.has(flag::KERNEL_SOCKET) {
        reflected::kernel_socket_ended(guard);
    }
    if conn.has(flag::REFLECTED) && reflected::end(guard) == reflected::End::Broken {
        return is_broken(guard, fd);
    }
    let reset = ended && is_reset(conn, fd);
    // A peer that sends on TCP announces its FIN, and may still read after it. A FIN on TCP without an announcement
    // means that the peer has died.
    let half_closed = ended && !is_on_vi(guard) && is_announced_on_tcp(guard);
    if !(dead || reset || ended && !half_closed) {
        // A later event is a new one.
        conn.clear(flag::KERNEL_SOCKET);
        return false;
    }
    // Everything that the peer put on the VI before its kernel socket ended is visible by now.
    if scan(guard).is_err() {
        return false;
    }
    let finished = has_finished(guard) || half_closed;
    // The peer may have closed just before this end put its last bytes on the VI.
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
        // Ready lists have been notified at most of an end, not of this reset.
        guard.own.is_end_reported = false;
        // From here on the kernel itself refuses sends and raises the signal.
        let _ = call::shutdown(fd, libc::SHUT_WR);
    }
    true
}

/// Returns true if this host's kernel has ended the kernel socket because the other host did not answer (keep-alive,
/// TCP_USER_TIMEOUT, retransmissions). As on TCP, no more bytes come then.
///
/// A reset by the peer's kernel may have overtaken bytes on the VI. Such an error is withheld until a NIC has reported
/// that all bytes are here.
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

/// Moves the connection to TCP after a NIC between the two ends has died. If the move is impossible, ends the
/// connection with an error, unless all bytes up to the peer's end have arrived. Returns true if the peer counts as
/// gone.
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

/// Returns the kernel's error on the kernel socket, such as ETIMEDOUT or an ICMP error if keep-alive probes found no
/// host. If there is none, returns the error that the kernel would have reported in the end.
fn error_of_break(guard: &Guard<'_>, fd: i32) -> Errno {
    match call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok(error) if error != 0 => error,
        _ if guard.conn.withholds_error() => guard.conn.error().unwrap_or(libc::ECONNRESET),
        _ if reflected::has_timed_out(guard) => libc::ETIMEDOUT,
        _ => libc::ECONNRESET,
    }
}

/// Returns true if the kernel has reset the kernel socket.
fn is_reset(conn: &Conn, fd: i32) -> bool {
    poll::probe(fd, 0) & libc::POLLERR != 0
        || conn.withholds_error()
        || call::tcp_state(fd).is_none_or(|state| state.is_closed()) && !conn.has(flag::SHUT_WR)
}

/// Returns true if the kernel socket has ended, and nothing that the peer published before can still arrive.
pub(crate) fn peer_has_ended(guard: &Guard<'_>, fd: i32) -> bool {
    kernel_socket_has_ended(fd) && reflected::tcp_tells_the_end(guard)
}

/// Returns true if the peer's FIN or its return to TCP has arrived on the VI, or if the program has read the end.
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
        // The kernel knows of all bytes, or this end's count is not reliable.
        return false;
    }
    guard.gatherer.tail != direction.reader.load(word::HEAD)
        || guard.bytes_sent != direction.reader.load(word::TAKEN_BYTES) as u32
}

/// Returns the error that a receive at the end of the stream reports once.
pub(crate) fn receive_error(conn: &Conn) -> Option<Errno> {
    // After a FIN the kernel's receive returns the end of the stream, and leaves the error for other calls.
    if conn.has(flag::EOF) || conn.error() == Some(libc::EPIPE) { None } else { conn.take_error() }
}

/// Returns the error that a send reports once. The kernel reports EPIPE, because it also raises the signal
/// ([`take_epipe`]).
pub(crate) fn send_error(conn: &Conn) -> Option<Errno> {
    if conn.error() == Some(libc::EPIPE) { None } else { conn.take_error() }
}

/// Removes a kept EPIPE after the kernel has returned EPIPE to a send.
pub(crate) fn take_epipe(guard: &Guard<'_>) {
    if guard.conn.error() == Some(libc::EPIPE) {
        guard.conn.take_error();
    }
}

/// Returns the kept error for `SO_ERROR` on an attached connection, once. The kernel keeps its own errors.
pub(crate) fn socket_error(guard: &mut Guard<'_>, fd: i32) -> Option<Errno> {
    has_gone(guard, fd);
    guard.conn.take_error()
}

/// Returns the events of the peer's end, and of errors.
pub(crate) fn events(guard: &mut Guard<'_>, fd: i32) -> i16 {
    const ENDS: i16 = libc::POLLHUP | libc::POLLRDHUP;
    let conn = guard.conn;
    has_gone(guard, fd);
    let mut events = poll::probe(fd, libc::POLLRDHUP) & (ENDS | libc::POLLERR);
    if !reflected::tcp_tells_the_end(guard) {
        // The peer's end is reported after the NIC has reported it; the program's own shutdown at once.
        events &= if conn.has(flag::SHUT_RD) { libc::POLLRDHUP } else { 0 };
    }
    if events & !libc::POLLRDHUP != 0 && !conn.has(flag::PEER_GONE) {
        // The program's next call must find what this call reports.
        has_gone_by_now(guard, fd);
    }
    let may_be_far = events & ENDS != 0 && !conn.has(flag::RESET | flag::SHUT_RD);
    // In a kernel socket, at most a receive buffer of bytes comes before the end.
    if may_be_far && !is_reset(conn, fd) && is_far(guard, fd) {
        events &= !ENDS;
        conn.set(flag::WITHHELD);
    }
    events | state::events(conn.flags())
}

/// Returns true if the peer has announced on the VI that it sends no more. Bytes may still be unread, and this end may
/// not have entered the VI.
pub(crate) fn is_announced(guard: &Guard<'_>) -> bool {
    is_on_vi(guard) && rx(guard).writer.load(word::FIN) == word::FIN_ON_VI
}

/// Returns true if the peer has announced that all of its stream is on the VI. The end of the kernel socket may come
/// later.
pub(crate) fn is_all_on_vi(guard: &Guard<'_>) -> bool {
    rx(guard).writer.load(word::FIN) == word::FIN_ON_VI
}

/// Returns true if the peer's last bytes came on the VI, as far as this end can see.
fn is_on_vi(guard: &Guard<'_>) -> bool {
    match guard.conn.rx() {
        Rx::Vi => true,
        Rx::Granted => switched(guard) != 0,
        _ => false,
    }
}

/// Returns true if the peer has announced that it sends no more on TCP. With a NIC in between, this always counts as
/// announced, because the announcement may still be on its way.
fn is_announced_on_tcp(guard: &Guard<'_>) -> bool {
    guard.conn.has(flag::REFLECTED) || rx(guard).writer.load(word::FIN) != 0
}

/// Returns true if the end that the peer has announced on the VI can be reported to the program.
pub(crate) fn shows_end(guard: &mut Guard<'_>, fd: i32) -> bool {
    if !is_announced(guard) {
        return false;
    }
    let far = is_far(guard, fd);
    if far {
        guard.conn.set(flag::WITHHELD);
    }
    !far
}

/// Returns true if more bytes are unread than the kernel socket's buffer would hold.
fn is_far(guard: &mut Guard<'_>, fd: i32) -> bool {
    let buffer = call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap_or(0);
    // The kernel uses half of the buffer for its own structures.
    peek::unread(guard, fd).is_ok_and(|n| n > buffer.max(0) as usize / 2)
}

/// Reports a withheld end of the peer if the program has read far enough.
#[cold]
pub(super) fn come_close(guard: &mut Guard<'_>, fd: i32) {
    if !is_far(guard, fd) {
        guard.conn.clear(flag::WITHHELD);
        listeners::tell_all(guard);
    }
}

/// Handles a NIC's report that nothing more comes from the peer.
pub(crate) fn gone(guard: &mut Guard<'_>) {
    if reflected::has_died(guard) {
        died(guard);
    } else if !(reflected::end(guard) == reflected::End::Broken && failover::begin(guard)) {
        listeners::tell_all(guard);
    }
}

/// Handles a death: no process holds the peer's end any more, or a NIC between the two ends has died.
pub(crate) fn died(guard: &mut Guard<'_>) {
    if reflected::is_without_nic(guard) && failover::begin(guard) {
        return;
    }
    // A process that has not answered the request does not have the other end, or not under Sovia.
    if !unanswered::settle(guard) {
        guard.conn.set(flag::DEAD);
        listeners::tell_all(guard);
    }
}
