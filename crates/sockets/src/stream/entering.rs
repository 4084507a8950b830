//! The receiver's steps from TCP to the VI: it grants, and at the sender's switch it enters.

use super::{Fault, failover, handled, reflected, rx, tell_writer, uncounted, word};
use crate::conn::{Guard, WINDOW_MAX, flag};
use crate::kernel_sockets;
use core::sync::atomic::Ordering;
use sovia_proto::path::reflected::Next;
use sovia_proto::path::{self, CANCELLED, ENTERED, Grant, Rx, Source};
use via_shm::Corrupt;

/// Publishes a grant, or its end.
pub(super) fn say_grant(guard: &mut Guard<'_>, grant: u64) {
    guard.own.grant = grant;
    super::rx(guard).path.store(word::GRANT, grant);
}

/// The sender's switch, or 0 if it has not switched or has taken it back.
pub(super) fn switched(guard: &Guard<'_>) -> u64 {
    match rx(guard).path.load(word::SWITCH) {
        CANCELLED => 0,
        word => word,
    }
}

/// Says to the sender that what it has put on the VI is this end's to read, or to return. False if the sender has
/// just taken the switch back.
///
/// # Errors
/// [`Fault::Corrupt`] if the switch has become another one: a sender switches once.
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
    // The peer has published its window before it switched.
    let window = rx(guard).writer.load(word::WINDOW).min(u64::from(WINDOW_MAX));
    guard.flow.face(window as u16);
    Ok(true)
}

/// The same for a receiver that goes back to TCP. TCP may not have been read up to the switch: until it has,
/// the direction is on TCP for readers.
pub(super) fn claim(guard: &mut Guard<'_>, switch: u64) -> Result<bool, Corrupt> {
    claim_at(guard, switch).map_err(|_| Corrupt("an unexpected change of the path"))
}

/// TCP has been read up to the switch: goes over to the VI. False if the sender has just taken the
/// switch back.
///
/// # Errors
/// As for [`claim_at`].
fn enter(guard: &mut Guard<'_>, switch: u64) -> Result<bool, Fault> {
    if !claim_at(guard, switch)? {
        return Ok(false);
    }
    guard.conn.set_rx(Rx::Vi);
    if reflected::is_reflected(guard) {
        // The peer may have gone over to TCP meanwhile: the thread that watches kernel sockets was told of bytes there, and has not looked.
        guard.conn.set(flag::KERNEL_SOCKET);
        kernel_sockets::nudge();
    }
    if guard.own.grant == Grant::Granted as u64 {
        say_grant(guard, Grant::Entered as u64);
    }
    tell_writer(guard);
    // What came before has been counted as unread, also where a thread of Sovia's handles messages.
    handled::handle(guard);
    Ok(true)
}

/// Where a receiver finds the next bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// On the VI, which it has just entered.
    Vi,
    /// On TCP, at most so many.
    Tcp(usize),
    /// Nowhere: TCP has been read up to a switch that the sender's NIC has not settled, or behind which what lies has been
    /// proposed to be returned, and that NIC has not answered.
    Nowhere,
}

/// Where a receiver that has not entered the VI finds the next bytes: if TCP has been read up to the switch, it
/// enters.
///
/// # Errors
/// As for [`enter`]; also if the switch lies before what has been read.
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

/// The same where a NIC is between the two ends.
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
        // What lies there has been proposed to be returned. Unless the sender refuses that, it comes on TCP.
        Next::Vi if guard.conn.has(flag::RETURNING) => Ok(Origin::Nowhere),
        Next::Vi => {
            let switch = switched(guard);
            enter(guard, switch).map(|_| Origin::Vi)
        }
    }
}

/// Grants the VI, unless another thread is inside a kernel receive, or the peer is behind a NIC and has no VI yet.
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
