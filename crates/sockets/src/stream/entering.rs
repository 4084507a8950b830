//! Takes the receiver's steps from TCP to the VI: the receiver grants the VI, and enters it at the sender's switch.

use super::{Fault, failover, handled, reflected, rx, tell_writer, uncounted, word};
use crate::conn::{Guard, WINDOW_MAX, flag};
use crate::kernel_sockets;
use core::sync::atomic::Ordering;
use sovia_proto::path::reflected::Next;
use sovia_proto::path::{self, CANCELLED, ENTERED, Grant, Rx, Source};
use via_shm::Corrupt;

/// Publishes a grant, or the end of a grant.
pub(super) fn say_grant(guard: &mut Guard<'_>, grant: u64) {
    guard.own.grant = grant;
    super::rx(guard).path.store(word::GRANT, grant);
}

/// Returns the sender's switch word, or 0 if the sender has not switched or has taken the switch back.
pub(super) fn switched(guard: &Guard<'_>) -> u64 {
    match rx(guard).path.load(word::SWITCH) {
        CANCELLED => 0,
        word => word,
    }
}

/// Claims the bytes that the sender has put on the VI: this end will read or return them. Returns false if the sender
/// has just taken the switch back.
///
/// # Errors
/// [`Fault::Corrupt`] if the switch word has changed in another way: a sender switches only once.
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
    // The peer publishes its window before it switches.
    let window = rx(guard).writer.load(word::WINDOW).min(u64::from(WINDOW_MAX));
    guard.flow.face(window as u16);
    Ok(true)
}

/// Like [`claim_at`], for a receiver that moves back to TCP. TCP may not have been read up to the switch. Until then,
/// the direction counts as on TCP for readers.
pub(super) fn claim(guard: &mut Guard<'_>, switch: u64) -> Result<bool, Corrupt> {
    claim_at(guard, switch).map_err(|_| Corrupt("an unexpected change of the path"))
}

/// Enters the VI after TCP has been read up to the switch. Returns false if the sender has just taken the switch back.
///
/// # Errors
/// The errors of [`claim_at`].
fn enter(guard: &mut Guard<'_>, switch: u64) -> Result<bool, Fault> {
    if !claim_at(guard, switch)? {
        return Ok(false);
    }
    guard.conn.set_rx(Rx::Vi);
    if reflected::is_reflected(guard) {
        // The peer may have begun a failover to TCP. The progress thread may have ignored an event of the peer's bytes
        // on TCP, because the direction was not on the VI.
        guard.conn.set(flag::KERNEL_SOCKET);
        kernel_sockets::nudge();
    }
    if guard.own.grant == Grant::Granted as u64 {
        say_grant(guard, Grant::Entered as u64);
    }
    tell_writer(guard);
    // FIONREAD has counted earlier messages as unread, also those that the handler thread has not queued.
    handled::handle(guard);
    Ok(true)
}

/// Source of a receiver's next bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The VI, which the receiver has just entered.
    Vi,
    /// TCP, up to this number of bytes.
    Tcp(usize),
    /// None. TCP has been read up to a switch that the sender's NIC has not settled. Or this end has proposed to return
    /// the bytes after the switch, and the NIC has not answered.
    Nowhere,
}

/// Returns the source of the next bytes for a receiver that has not entered the VI. Enters the VI if TCP has been read
/// up to the switch.
///
/// # Errors
/// The errors of [`enter`]. Also [`Fault::Corrupt`] if the switch lies before bytes that have been read.
pub(super) fn next_from(guard: &mut Guard<'_>) -> Result<Origin, Fault> {
    failover::leaves_switch(guard);
    if guard.conn.rx() != Rx::Granted {
        return Ok(Origin::Tcp(usize::MAX));
    }
    if reflected::is_reflected(guard) {
        return next_by_nic(guard);
    }
    let switch = switched(guard);
    match path::source(switch, guard.conn.rx_tcp.load(Ordering::Acquire)) {
        Source::Vi if enter(guard, switch)? => Ok(Origin::Vi),
        Source::Vi | Source::Tcp => Ok(Origin::Tcp(usize::MAX)),
        Source::TcpUpTo(n) => Ok(Origin::Tcp(usize::try_from(n).unwrap_or(usize::MAX))),
        Source::Impossible => Err(Fault::Corrupt),
    }
}

/// Like [`next_from`], if a NIC is between the two ends.
#[cold]
fn next_by_nic(guard: &mut Guard<'_>) -> Result<Origin, Fault> {
    if reflected::next(guard) == Next::Claim {
        reflected::claim(guard);
    }
    match reflected::next(guard) {
        Next::Tcp => Ok(Origin::Tcp(usize::MAX)),
        Next::TcpUpTo(n) => Ok(Origin::Tcp(usize::try_from(n).unwrap_or(usize::MAX))),
        Next::Claim | Next::Await => Ok(Origin::Nowhere),
        Next::Impossible => Err(Fault::Corrupt),
        // This end has proposed to return the bytes on the VI. Unless the sender refuses, these bytes come on TCP.
        Next::Vi if guard.conn.has(flag::RETURNING) => Ok(Origin::Nowhere),
        Next::Vi => {
            let switch = switched(guard);
            enter(guard, switch).map(|_| Origin::Vi)
        }
    }
}

/// Grants the VI. Does not grant while another thread is inside a kernel receive. Does not grant while the peer is
/// behind a NIC and has no VI yet.
pub(crate) fn grant(guard: &mut Guard<'_>, fd: i32) {
    let conn = guard.conn;
    if conn.rx() != Rx::Tcp || conn.has(flag::FALLING_BACK) || reflected::awaits_peer(guard) {
        return;
    }
    conn.set_rx(Rx::Granted);
    core::sync::atomic::fence(Ordering::SeqCst);
    if !conn.rx_pins.is_empty() || !uncounted::is_read_counted(conn, fd) {
        conn.set_rx(Rx::Tcp);
        return;
    }
    say_grant(guard, Grant::Granted as u64);
    reflected::tell_nic(guard);
}
