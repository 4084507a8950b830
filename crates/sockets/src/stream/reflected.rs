//! Handles a connection whose peer is on another host. This end shares its segment with a NIC in software, which
//! reflects the VI to the peer's segment.
//!
//! The segment has the same layout as with a peer on this host, but differs in three ways:
//!
//! - The NIC must be notified of every event. A peer that shares the segment finds some events without a
//!   notification.
//! - TCP may overtake the VI. So the end of TCP and errors on TCP take effect only after the NIC has published
//!   everything that the peer had published.
//! - Each compare-exchange between the two ends is executed in the sender's segment, by the sender's NIC. A
//!   receiver that enters the VI or returns to TCP must wait for the NIC's answer
//!   ([`sovia_proto::path::reflected`]).

use super::hold::scan;
use super::{Got, rx, tx, word};
use crate::conn::{Guard, HELD, flag};
use crate::{pair, table};
use core::sync::atomic::Ordering;
use sovia_proto::path::reflected::{Next, Rest, Revoked, Verdict};
use sovia_proto::path::{self, REFUSED, Rx, Seen, Tx};
use sovia_sys::call;

#[inline]
pub(super) fn is_reflected(guard: &Guard<'_>) -> bool {
    guard.conn.has(flag::REFLECTED)
}

/// Notifies the NIC that this end has changed a word in the segment. Does nothing if the peer shares the segment.
pub(crate) fn notify_nic(guard: &Guard<'_>) {
    if is_reflected(guard)
        && let Some(pair) = pair::of(guard)
    {
        pair.notify_nic(guard.conn.vi.load(Ordering::Relaxed));
    }
}

/// Returns true while no NIC has reported that the peer has taken its VI. The peer publishes its window when it
/// takes the VI.
///
/// Until then this end must not grant the VI. A NIC gives this end its VI when both ends have asked for a VI. But
/// the peer takes its VI only at its program's next call, or never if the program has forked meanwhile. So a grant
/// might stay unanswered. If a NIC then died, this end would not know whether the peer has switched.
pub(super) fn awaits_peer(guard: &Guard<'_>) -> bool {
    is_reflected(guard) && rx(guard).writer.load(word::WINDOW) == 0
}

/// Publishes TCP_USER_TIMEOUT for the NIC: the time in milliseconds that this end's bytes may stay unacknowledged.
/// The NIC reads this time when it sends.
pub(crate) fn publish_user_timeout(guard: &Guard<'_>, milliseconds: u32) {
    if is_reflected(guard) {
        rx(guard).reader.store(word::USER_TIMEOUT, milliseconds.into());
    }
}

/// State of the bytes and words that the peer publishes on the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// More bytes may arrive.
    NotYet,
    /// No more bytes come: everything that the peer published has arrived.
    Complete,
    /// No more bytes come, and some may be missing: a NIC has died, or the two NICs have lost contact.
    Broken,
}

/// Returns whether more bytes can arrive on the VI, and if not, whether bytes may be missing.
pub(super) fn end(guard: &Guard<'_>) -> End {
    match rx(guard).writer.load(word::GONE) {
        // DEAD means that the process that shares the segment has died. This process is the NIC.
        0 if guard.conn.has(flag::DEAD) => End::Broken,
        0 => End::NotYet,
        word::ENDED | word::DIED => End::Complete,
        _ => End::Broken,
    }
}

/// Called when a death has been detected. Returns true if the dead process is the NIC and not the peer. Then the
/// NIC has not reported the peer's end, or the connection has begun a failover.
pub(super) fn is_without_nic(guard: &Guard<'_>) -> bool {
    let is_reported = rx(guard).writer.load(word::GONE) != 0;
    super::failover::is_on(guard) || is_reflected(guard) && !is_reported
}

/// Returns true if an end of TCP proves that the peer has ended its stream. Returns false while bytes that the peer
/// sent on the VI may still arrive.
pub(super) fn tcp_reports_the_end(guard: &Guard<'_>) -> bool {
    !is_reflected(guard)
        || publishes_no_more(guard)
        // This end has never granted the VI, so the sender has not switched.
        || guard.conn.rx() == Rx::Tcp
        // This end has shut both halves, so it discards bytes that still arrive.
        || guard.conn.is_shut()
}

/// Returns the next step of a receiver that has granted the VI.
pub(super) fn next(guard: &Guard<'_>) -> Next {
    // Loaded before the switch word: if the peer publishes no more, the switch word that is loaded below is final.
    let gone = publishes_no_more(guard);
    let read = guard.conn.rx_tcp.load(Ordering::Acquire);
    let claimed = rx(guard).reader.load(word::CLAIM) != 0;
    path::reflected::next(rx(guard).path.load(word::SWITCH), read, claimed, gone)
}

/// Requests a claim of the sender's switch. The sender's NIC executes the claim.
pub(super) fn claim(guard: &Guard<'_>) {
    rx(guard).reader.store(word::CLAIM, 1);
    notify_nic(guard);
}

/// Returns true if a receive that has read TCP up to the sender's switch may continue on the VI at once. Also
/// requests a claim of the switch, if no claim was requested. Otherwise a program that only polls for more bytes
/// would wait forever, because no receive would claim the switch.
pub(super) fn goes_on_behind_switch(guard: &Guard<'_>) -> bool {
    if !is_reflected(guard) {
        return true;
    }
    if next(guard) == Next::Claim {
        claim(guard);
    }
    // Loaded before the switch word: if the peer publishes no more, the switch word that is loaded below is final.
    let gone = publishes_no_more(guard);
    path::reflected::is_settled(rx(guard).path.load(word::SWITCH), gone)
}

/// Returns true if the peer will publish nothing more in the direction in which this end receives, and everything
/// that it published has arrived.
fn publishes_no_more(guard: &Guard<'_>) -> bool {
    rx(guard).writer.load(word::FIN) != 0 || end(guard) != End::NotYet
}

/// Returns the next step of a receiver that has revoked the VI.
pub(super) fn revoked(guard: &Guard<'_>) -> Revoked {
    let gone = publishes_no_more(guard);
    let claimed = rx(guard).reader.load(word::CLAIM) != 0;
    let confirmed = rx(guard).writer.load(word::ANSWER) & word::CONFIRMED != 0;
    let switch = rx(guard).path.load(word::SWITCH);
    path::reflected::revoke(guard.conn.rx(), switch, claimed, confirmed, gone)
}

/// Returns the value of the RETURNED word in the sender's segment, or 0 while the sender's NIC has not answered.
/// The second value is true if the NIC's answer will never come.
fn answered(guard: &Guard<'_>) -> (u64, bool) {
    let proposed = rx(guard).path.load(word::RETURNED);
    if !is_reflected(guard) {
        return (proposed, false);
    }
    // Loaded before the answer, because the NIC publishes its answer before it reports the peer's end.
    let gone = end(guard) != End::NotYet;
    let answer = rx(guard).writer.load(word::ANSWER);
    let verdict = match answer & (word::ACCEPTED | word::REFUSED) {
        0 => 0,
        word::ACCEPTED => proposed,
        _ => REFUSED,
    };
    (verdict, gone)
}

/// Returns the sender's answer to this end's request to put unread bytes on TCP. While the answer is pending, this
/// end must not read on the VI or TCP.
pub(crate) fn verdict(guard: &Guard<'_>) -> Verdict {
    if !guard.conn.has(flag::RETURNING) {
        return Verdict::None;
    }
    let (verdict, gone) = answered(guard);
    path::reflected::verdict(rx(guard).path.load(word::RETURNED), verdict, gone)
}

/// Returns whether the sender will put the `unread` bytes on TCP. `found` is the value of the RETURNED word before
/// this end stored its answer there.
pub(super) fn rest(guard: &Guard<'_>, seen: Seen, unread: u64, found: u64) -> Rest {
    let (verdict, gone) = answered(guard);
    path::reflected::rest(seen, unread, found, verdict, gone)
}

/// Returns the result of a receive that must not read the VI or TCP; `None` if the receive may read.
#[inline]
pub(super) fn instead(guard: &Guard<'_>) -> Option<Got> {
    if guard.conn.has(flag::RETURNING | flag::SHUT_RD) { found_instead(guard) } else { None }
}

#[cold]
fn found_instead(guard: &Guard<'_>) -> Option<Got> {
    let conn = guard.conn;
    if conn.has(flag::RETURNING) && conn.rx() == Rx::Vi {
        // This end has requested that the sender put unread bytes on TCP. Until the sender answers, this end must
        // not read on the VI or TCP.
        return Some(Got::Nothing);
    }
    let had = amount(guard.bytes_taken.wrapping_add(guard.front), guard.taker.head);
    let is_over = conn.is_shut() && is_reflected(guard);
    // Bytes that arrive after this end has shut both halves are discarded, as on TCP.
    (is_over && rx(guard).path.load(word::SHUT) == had).then_some(Got::End)
}

/// Called by the progress thread. Records that the NIC has reported the peer's end. Returns true if the report is
/// new.
pub(crate) fn note_end(guard: &Guard<'_>) -> bool {
    if is_reflected(guard) {
        reset_for_what_came_late(guard);
    }
    is_reflected(guard)
        && !guard.conn.has(flag::GONE)
        && rx(guard).writer.load(word::GONE) != 0
        && guard.conn.set(flag::GONE | flag::KERNEL_SOCKET) & flag::GONE == 0
}

/// Encodes two counts as one word that is never 0 or 1: the number of bytes in packets, and the number of coalesced
/// bytes.
fn amount(packets: u32, coalesced: u64) -> u64 {
    1 << 63 | u64::from(packets & (u32::MAX >> 1)) << 32 | u64::from(coalesced as u32)
}

/// Returns the value of the SHUT word that this end publishes when it has shut both halves. The value counts the
/// bytes that had arrived before ([`amount`]), or is 1 if this number is unknown.
pub(super) fn shut_word(guard: &mut Guard<'_>) -> u64 {
    if !is_reflected(guard) || guard.conn.has_handler() || scan(guard).is_err() {
        return 1;
    }
    let held = (guard.held_first..guard.held_end).map(|n| guard.held[n as usize % HELD].len);
    let packets = held.fold(guard.bytes_taken, u32::wrapping_add);
    amount(packets, rx(guard).writer.load(word::TAIL))
}

/// Resets the connection if the receiver shut both halves before it had received all bytes of this end. TCP would
/// also reset such a connection. To cause the reset, this function sends a byte on TCP. The peer's kernel socket is
/// shut, so the kernel answers with a reset.
fn reset_for_what_came_late(guard: &Guard<'_>) {
    let shut = tx(guard).path.load(word::SHUT);
    let sent = amount(guard.bytes_sent, guard.coalescer.tail);
    if shut > 1
        && shut != sent
        && guard.conn.tx() == Tx::Vi
        && !guard.closing.fin_sent
        && guard.conn.set(flag::LATE) & flag::LATE == 0
        && let Some(fd) = table::descriptor_of(guard.conn)
    {
        let _ = call::send(fd, &[0], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    }
}

/// Asks the NICs whether a process still holds the peer's end. Called after the kernel socket has ended.
pub(crate) fn kernel_socket_ended(guard: &Guard<'_>) {
    if is_reflected(guard) && rx(guard).reader.load(word::ENDED_ON_TCP) == 0 {
        rx(guard).reader.store(word::ENDED_ON_TCP, word::ENDED_THERE);
        notify_nic(guard);
    }
}

/// Makes the NICs report to the peer that this host's kernel has ended the kernel socket.
pub(super) fn ended_here(guard: &Guard<'_>) {
    rx(guard).reader.store(word::ENDED_ON_TCP, word::ENDED_HERE);
    notify_nic(guard);
}

/// Returns true if the two NICs have lost contact because the other host did not answer in time.
pub(super) fn has_timed_out(guard: &Guard<'_>) -> bool {
    rx(guard).writer.load(word::GONE) == word::TIMED_OUT
}

/// Returns true if a NIC has reported that the peer has died.
pub(super) fn has_died(guard: &Guard<'_>) -> bool {
    rx(guard).writer.load(word::GONE) == word::DIED
}
