//! How the peer's end of a connection came, and what is reported of it to the program.
//!
//! A peer that closes sends a FIN on the VI, and closes the kernel socket. One that dies sends nothing: its
//! kernel socket's end is delivered by the kernel, or, where that stands behind unread bytes or had come before,
//! the progress thread learns of the death by other means ([`flag::DEAD`]). What the kernel would then
//! have done is decided here: it resets a connection whose receiver dies with bytes unread, and ends it
//! quietly otherwise. Since the kernel knows nothing of the bytes on the VI, the reset is emulated:
//! its error is reported once, to the first call or SO_ERROR, as `sk_err` is.

use super::entering::switched;
use super::hold::scan;
use super::kernel_socket::{kernel_socket_has_ended, kernel_socket_news};
use super::{failover, listeners, peek, reflected, rx, state, tx, unanswered, word};
use crate::Errno;
use crate::conn::{Conn, Guard, HELD, flag};
use sovia_proto::packet::Kind;
use sovia_proto::path::{CANCELLED, Rx, Tx};
use sovia_sys::{call, poll};

/// News of the peer's end that have not been looked at.
const NEWS: u32 = flag::KERNEL_SOCKET | flag::DEAD;

/// Whether the peer has gone: died, or reset the connection. One that has only closed its sending half
/// has not.
#[inline]
pub(super) fn has_gone(guard: &mut Guard<'_>, fd: i32) -> bool {
    guard.conn.has(flag::PEER_GONE) || guard.conn.has(NEWS) && look(guard, fd)
}

/// The same, asked of the kernel now: the thread that watches the kernel socket may not have come to it.
#[cold]
pub(crate) fn has_gone_by_now(guard: &mut Guard<'_>, fd: i32) -> bool {
    guard.conn.set(flag::KERNEL_SOCKET);
    has_gone(guard, fd)
}

#[cold]
fn look(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    if unanswered::settle(guard) {
        // What has ended, or not, is the kernel's to say.
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
    // A FIN of the kernel socket says nothing of a peer whose bytes come on TCP and that has announced it: it may have closed
    // one half, and read on. One that has died has announced nothing.
    let half_closed = ended && !is_on_vi(guard) && is_announced_on_tcp(guard);
    if !(dead || reset || ended && !half_closed) {
        // The next news are other ones.
        conn.clear(flag::KERNEL_SOCKET);
        return false;
    }
    // What it had put on the VI before its kernel socket ended is seen by now.
    if scan(guard).is_err() {
        return false;
    }
    let finished = has_finished(guard) || half_closed;
    // It may have closed just before the last bytes were put on the VI for it.
    let refused = tx(guard).path.load(word::GRANT) == word::LEFT && leaves_unread(guard);
    if !dead && !reset && !refused && finished {
        conn.clear(flag::KERNEL_SOCKET);
        return false;
    }
    conn.set(flag::PEER_GONE);
    // Where both have said that they send no more, the kernel has closed its socket, and a reset finds none.
    let both_closed = finished && conn.has(flag::SHUT_WR);
    if !reset && !both_closed && leaves_unread(guard) {
        // The kernel says EPIPE where a FIN has come before the reset.
        let error = if finished { libc::EPIPE } else { libc::ECONNRESET };
        conn.keep_error(error);
        conn.set(flag::RESET);
        // Ready lists have been notified of an end at most.
        guard.own.is_end_reported = false;
        // From here on the kernel refuses to send by itself, and raises the signal.
        let _ = call::shutdown(fd, libc::SHUT_WR);
    }
    true
}

/// Whether this host's kernel has ended the kernel socket, since nothing answered there (keep-alive, TCP_USER_TIMEOUT, bytes sent again
/// in vain). Nothing more comes then, as it would not by TCP. A reset by the peer's kernel may have overtaken what is on the VI: what
/// the kernel has said of that is told when a NIC has said that all is here.
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

/// A NIC between the two ends has died: the connection goes over to TCP. Where it cannot, it is an error, unless what the
/// peer had sent is all here, to its end.
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

/// The error with which the kernel has ended the kernel socket (ETIMEDOUT or what it had heard of the way, where keep-alive has found
/// the other host missing); else the one that it would have told in the end.
fn error_of_break(guard: &Guard<'_>, fd: i32) -> Errno {
    match call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok(error) if error != 0 => error,
        _ if guard.conn.withholds_error() => guard.conn.error().unwrap_or(libc::ECONNRESET),
        _ if reflected::has_timed_out(guard) => libc::ETIMEDOUT,
        _ => libc::ECONNRESET,
    }
}

/// Whether the kernel has reset the kernel socket.
fn is_reset(conn: &Conn, fd: i32) -> bool {
    poll::probe(fd, 0) & libc::POLLERR != 0
        || conn.withholds_error()
        || call::tcp_state(fd).is_none_or(|state| state.is_closed()) && !conn.has(flag::SHUT_WR)
}

/// Whether the kernel socket has ended, and nothing that the peer had published before is on its way still.
pub(crate) fn peer_has_ended(guard: &Guard<'_>, fd: i32) -> bool {
    kernel_socket_has_ended(fd) && reflected::tcp_tells_the_end(guard)
}

/// Whether the peer has announced on the VI that it sends no more there.
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

/// Whether bytes that this end has put on the VI have not been read at the other.
fn leaves_unread(guard: &Guard<'_>) -> bool {
    let direction = tx(guard);
    let taken_back = direction.path.load(word::SWITCH) == CANCELLED;
    let drained = direction.path.load(word::DRAINED) != 0;
    if guard.conn.tx() == Tx::Tcp || taken_back || drained || guard.own.uncounted {
        // The kernel knows of all bytes; or they have not been counted.
        return false;
    }
    guard.gatherer.tail != direction.reader.load(word::HEAD)
        || guard.bytes_sent != direction.reader.load(word::TAKEN_BYTES) as u32
}

/// The error that a receive at the end of the stream returns, once.
pub(crate) fn receive_error(conn: &Conn) -> Option<Errno> {
    // After a FIN the kernel's receive gives the end of the stream, and leaves the error for others.
    if conn.has(flag::EOF) || conn.error() == Some(libc::EPIPE) { None } else { conn.take_error() }
}

/// The error that a send returns, once. EPIPE is left to the kernel, which raises the signal as well ([`take_epipe`]).
pub(crate) fn send_error(conn: &Conn) -> Option<Errno> {
    if conn.error() == Some(libc::EPIPE) { None } else { conn.take_error() }
}

/// Takes a kept EPIPE: the kernel has returned it to a send.
pub(crate) fn take_epipe(guard: &Guard<'_>) {
    if guard.conn.error() == Some(libc::EPIPE) {
        guard.conn.take_error();
    }
}

/// What `SO_ERROR` returns for an attached connection, if it is none of the kernel's errors.
pub(crate) fn socket_error(guard: &mut Guard<'_>, fd: i32) -> Option<Errno> {
    has_gone(guard, fd);
    guard.conn.take_error()
}

/// The events of the peer's end, and of errors.
pub(crate) fn events(guard: &mut Guard<'_>, fd: i32) -> i16 {
    const ENDS: i16 = libc::POLLHUP | libc::POLLRDHUP;
    let conn = guard.conn;
    has_gone(guard, fd);
    let mut events = poll::probe(fd, libc::POLLRDHUP) & (ENDS | libc::POLLERR);
    if !reflected::tcp_tells_the_end(guard) {
        // The end is reported once the NIC has reported it; the program's own shutdown at once.
        events &= if conn.has(flag::SHUT_RD) { libc::POLLRDHUP } else { 0 };
    }
    if events & !libc::POLLRDHUP != 0 && !conn.has(flag::PEER_GONE) {
        // The program's next call must find what is reported here.
        has_gone_by_now(guard, fd);
    }
    let may_be_far = events & ENDS != 0 && !conn.has(flag::RESET | flag::SHUT_RD);
    // In a kernel socket the end stands behind no more than the receive buffer holds.
    if may_be_far && !is_reset(conn, fd) && is_far(guard, fd) {
        events &= !ENDS;
        conn.set(flag::WITHHELD);
    }
    events | state::events(conn.flags())
}

/// Whether the peer has announced on the VI that it sends no more, however much of what it sent is unread, and whether
/// this end has come to the VI or not: the announcement is told once.
pub(crate) fn is_announced(guard: &Guard<'_>) -> bool {
    is_on_vi(guard) && rx(guard).writer.load(word::FIN) == word::FIN_ON_VI
}

/// Returns true if the peer has announced that all of its stream is on the VI. The end of the kernel socket may come later.
pub(crate) fn is_all_on_vi(guard: &Guard<'_>) -> bool {
    rx(guard).writer.load(word::FIN) == word::FIN_ON_VI
}

/// Whether the last that the peer has sent came on the VI, as far as this end can see.
fn is_on_vi(guard: &Guard<'_>) -> bool {
    match guard.conn.rx() {
        Rx::Vi => true,
        Rx::Granted => switched(guard) != 0,
        _ => false,
    }
}

/// Whether the peer has announced that it sends no more on TCP. What a NIC is still to pass on counts as announced.
fn is_announced_on_tcp(guard: &Guard<'_>) -> bool {
    guard.conn.has(flag::REFLECTED) || rx(guard).writer.load(word::FIN) != 0
}

/// Whether the end that the peer has announced on the VI is to be reported to the program.
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

/// Whether more is unread than the kernel socket's buffer would have held.
fn is_far(guard: &mut Guard<'_>, fd: i32) -> bool {
    let buffer = call::getsockopt::<i32>(fd, libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap_or(0);
    // Half of it is for the kernel's own use.
    peek::unread(guard, fd).is_ok_and(|n| n > buffer.max(0) as usize / 2)
}

/// The program has read, and the peer's end has not been reported to it: reports it once it has come close.
#[cold]
pub(super) fn come_close(guard: &mut Guard<'_>, fd: i32) {
    if !is_far(guard, fd) {
        guard.conn.clear(flag::WITHHELD);
        listeners::tell_all(guard);
    }
}

/// A NIC has published that nothing comes any more from the peer.
pub(crate) fn gone(guard: &mut Guard<'_>) {
    if reflected::has_died(guard) {
        died(guard);
    } else if !(reflected::end(guard) == reflected::End::Broken && failover::begin(guard)) {
        listeners::tell_all(guard);
    }
}

/// No process holds the peer's end any more; or a NIC between the two has died.
pub(crate) fn died(guard: &mut Guard<'_>) {
    if reflected::is_without_nic(guard) && failover::begin(guard) {
        return;
    }
    // A process that has not answered has not got the other end, or not under Sovia.
    if !unanswered::settle(guard) {
        guard.conn.set(flag::DEAD);
        listeners::tell_all(guard);
    }
}
