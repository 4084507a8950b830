//! Takes the receiver's steps from TCP to the VI. The receiver grants the VI, and enters the VI after it has read
//! TCP up to the sender's switch.

use super::kernel_socket::kernel_socket_has_ended;
use super::{Fault, failover, handler_queue, notify_writer, reflected, rx, uncounted, word};
use crate::conn::{Guard, WINDOW_MAX, flag};
use crate::kernel_sockets;
use core::sync::atomic::Ordering;
use sovia_proto::path::reflected::Next;
use sovia_proto::path::{self, CANCELLED, ENTERED, Grant, Rx, Source};
use sovia_ring::Corrupt;

/// Publishes the receiver's state: the value `grant` of the GRANT word.
pub(super) fn publish_grant(guard: &mut Guard<'_>, grant: u64) {
    guard.own.grant = grant;
    super::rx(guard).path.store(word::GRANT, grant);
}

/// Returns the sender's switch word, or 0 if the sender has not switched or has cancelled its switch.
pub(super) fn switched(guard: &Guard<'_>) -> u64 {
    match rx(guard).path.load(word::SWITCH) {
        CANCELLED => 0,
        word => word,
    }
}

/// Claims the bytes that the sender has put on the VI: after this, the sender can no longer move them to TCP by
/// itself. Returns false if the sender has just cancelled its switch.
///
/// # Errors
/// [`Fault::Corrupt`] if the switch word has changed to any other value.
fn claim_at(guard: &mut Guard<'_>, switch: u64) -> Result<bool, Fault> {
    let word = &rx(guard).path.0[word::SWITCH];
    let entered = switch | ENTERED;
    if switch != entered && !reflected::is_reflected(guard) {
        match word.compare_exchange(switch, entered, Ordering::AcqRel, Ordering::Acquire) {
            Err(CANCELLED) => return Ok(false),
            Err(_) => return Err(Fault::Corrupt),
            Ok(_) => {}
        }
    }
    // The window is valid here, because the peer publishes its window before it switches.
    let window = rx(guard).writer.load(word::WINDOW).min(u64::from(WINDOW_MAX));
    guard.flow.face(window as u16);
    Ok(true)
}

/// Like [`claim_at`], for a receiver that may not have read TCP up to the switch. Does not move the direction to
/// the VI.
pub(super) fn claim(guard: &mut Guard<'_>, switch: u64) -> Result<bool, Corrupt> {
    claim_at(guard, switch).map_err(|_| Corrupt("an unexpected change of the path"))
}

/// Moves the receiving direction to the VI. TCP must have been read up to the switch. Returns false if the sender
/// has just cancelled its switch.
///
/// # Errors
/// The errors of [`claim_at`].
fn enter(guard: &mut Guard<'_>, switch: u64) -> Result<bool, Fault> {
    if !claim_at(guard, switch)? {
        return Ok(false);
    }
    guard.conn.set_rx(Rx::Vi);
    if reflected::is_reflected(guard) {
        // The peer may have begun a failover, and may have put its record on TCP. The progress thread ignores such
        // an event of the kernel socket before the direction is on the VI. So the progress thread is woken to look
        // again.
        guard.conn.set(flag::KERNEL_SOCKET);
        kernel_sockets::nudge();
    }
    if guard.own.grant == Grant::Granted as u64 {
        publish_grant(guard, Grant::Entered as u64);
    }
    notify_writer(guard);
    // Queues messages that FIONREAD has already counted as unread, so that receives find them.
    handler_queue::handle(guard);
    Ok(true)
}

/// Source of a receiver's next bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The VI, which the receiver has just entered.
    Vi,
    /// TCP. At most `limit` bytes may be read there. `shows_end`: an end of TCP proves that the peer has ended its
    /// stream ([`reflected::tcp_reports_the_end`]).
    Tcp { limit: usize, shows_end: bool },
    /// None for now. TCP has been read up to the switch, and this end waits for an answer of the sender's NIC. The
    /// answer is about this end's claim of the switch, or about bytes that this end wants to return.
    Nowhere,
}

/// Returns the source of the next bytes for a receiver that has not entered the VI. Enters the VI if TCP has been
/// read up to the sender's switch.
///
/// # Errors
/// The errors of [`enter`]. Also [`Fault::Corrupt`] if this end has read more bytes on TCP than came before the
/// switch.
pub(super) fn next_from(guard: &mut Guard<'_>) -> Result<Origin, Fault> {
    failover::leaves_switch(guard);
    if guard.conn.rx() != Rx::Granted {
        return Ok(tcp_up_to(u64::MAX, reflected::tcp_reports_the_end(guard)));
    }
    if reflected::is_reflected(guard) {
        return next_by_nic(guard);
    }
    let switch = switched(guard);
    match path::source(switch, guard.conn.rx_tcp.load(Ordering::Acquire)) {
        Source::Vi if enter(guard, switch)? => Ok(Origin::Vi),
        Source::Vi | Source::Tcp => Ok(tcp_up_to(u64::MAX, true)),
        Source::TcpUpTo(n) => Ok(tcp_up_to(n, true)),
        Source::Impossible => Err(Fault::Corrupt),
    }
}

fn tcp_up_to(n: u64, shows_end: bool) -> Origin {
    Origin::Tcp { limit: usize::try_from(n).unwrap_or(usize::MAX), shows_end }
}

/// Like [`next_from`], for a connection with a NIC between the two ends.
#[cold]
fn next_by_nic(guard: &mut Guard<'_>) -> Result<Origin, Fault> {
    if reflected::next(guard) == Next::Claim {
        reflected::claim(guard);
    }
    // Loaded before the switch word: if the peer publishes no more, the switch word that is loaded below is final.
    let shows_end = reflected::tcp_reports_the_end(guard);
    match reflected::next(guard) {
        Next::Tcp => Ok(tcp_up_to(u64::MAX, shows_end)),
        Next::TcpUpTo(n) => Ok(tcp_up_to(n, shows_end)),
        Next::Claim | Next::Await => Ok(Origin::Nowhere),
        Next::Impossible => Err(Fault::Corrupt),
        // This end has requested that the sender put the bytes of the VI on TCP. Until the sender answers, this end
        // does not know on which path these bytes come.
        Next::Vi if guard.conn.has(flag::RETURNING) => Ok(Origin::Nowhere),
        Next::Vi => {
            let switch = switched(guard);
            enter(guard, switch).map(|_| Origin::Vi)
        }
    }
}

/// Grants the VI to the sender. Does nothing while another thread is inside a kernel receive, because that thread
/// may still read bytes on TCP. Also does nothing while a peer on another host has no VI yet.
pub(crate) fn grant(guard: &mut Guard<'_>, fd: i32) {
    let conn = guard.conn;
    if conn.rx() != Rx::Tcp || conn.has(flag::FALLING_BACK) || reflected::awaits_peer(guard) {
        return;
    }
    // Between hosts, an end of TCP is the end of the stream only before the grant. The program may have seen this end
    // already, so a grant must not hide it.
    if reflected::is_reflected(guard) && kernel_socket_has_ended(fd) {
        return;
    }
    conn.set_rx(Rx::Granted);
    core::sync::atomic::fence(Ordering::SeqCst);
    if !conn.rx_pins.is_empty() || !uncounted::is_read_counted(conn, fd) {
        conn.set_rx(Rx::Tcp);
        return;
    }
    publish_grant(guard, Grant::Granted as u64);
    reflected::notify_nic(guard);
}
