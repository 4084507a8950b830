//! Handles the differences of a connection whose segment is shared with a NIC in software. The NIC reflects the VI to
//! the other end.
//!
//! The words and the bytes are the same. Three things take longer than with a peer that shares the segment:
//!
//! - Events travel only after the NIC is notified, even events that a peer would notice without a notification.
//! - TCP may overtake the VI. So TCP's end and TCP's errors count only after the NIC has published everything that the
//!   peer had published.
//! - A compare-exchange between the two ends is decided in the sender's segment. A receiver that enters the VI or
//!   returns to TCP asks, and its next steps wait for the answer ([`sovia_proto::path::reflected`]).

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

/// Notifies the NIC of an event that wakes no thread.
pub(crate) fn tell_nic(guard: &Guard<'_>) {
    if is_reflected(guard)
        && let Some(pair) = pair::of(guard)
    {
        pair.tell_nic(guard.conn.vi.load(Ordering::Relaxed));
    }
}

/// Returns true if the NICs have not reported that the peer has taken its VI. The peer publishes its window when it
/// takes the VI.
///
/// A NIC gives this end its VI when both ends have asked for it. But the peer takes its VI only at its program's next
/// call, or never if that program has forked in between. Until then a grant would stay unanswered, and the death of a
/// NIC would leave this end unsure of the switch. So this end does not grant yet.
pub(super) fn awaits_peer(guard: &Guard<'_>) -> bool {
    is_reflected(guard) && rx(guard).writer.load(word::WINDOW) == 0
}

/// Publishes for the NIC how many milliseconds this end's bytes may stay unacknowledged. The NIC reads the word when it
/// sends.
pub(crate) fn say_user_timeout(guard: &Guard<'_>, milliseconds: u32) {
    if is_reflected(guard) {
        rx(guard).reader.store(word::USER_TIMEOUT, milliseconds.into());
    }
}

/// Reason why nothing more comes on the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// More may come.
    NotYet,
    /// Everything that the peer had published is here.
    Complete,
    /// Bytes may be missing: a NIC has died, or the NICs have lost each other.
    Broken,
}

/// Returns whether the peer can publish anything more, and why not.
pub(super) fn end(guard: &Guard<'_>) -> End {
    match rx(guard).writer.load(word::GONE) {
        // This end shares the segment with the NIC, so the dead process is the NIC.
        0 if guard.conn.has(flag::DEAD) => End::Broken,
        0 => End::NotYet,
        word::ENDED | word::DIED => End::Complete,
        _ => End::Broken,
    }
}

/// Returns true if a reported death is the death of the NIC. Then the NIC has not reported the peer's end, or the
/// connection has begun a failover.
pub(super) fn is_without_nic(guard: &Guard<'_>) -> bool {
    let is_told = rx(guard).writer.load(word::GONE) != 0;
    super::failover::is_on(guard) || is_reflected(guard) && !is_told
}

/// Returns true if TCP's report of the peer's end is final: nothing that the peer published before its end can still
/// arrive.
pub(super) fn tcp_tells_the_end(guard: &Guard<'_>) -> bool {
    !is_reflected(guard)
        || publishes_no_more(guard)
        // This end has never granted the VI, so the sender has not switched.
        || guard.conn.rx() == Rx::Tcp
        // Bytes that come are discarded.
        || guard.conn.is_shut()
}

/// Returns the next step of a receiver that has granted the VI.
pub(super) fn next(guard: &Guard<'_>) -> Next {
    // Loaded before the switch: if nothing more comes, the switch word that is loaded next is final.
    let gone = publishes_no_more(guard);
    let read = guard.conn.rx_tcp.load(Ordering::Acquire);
    let claimed = rx(guard).reader.load(word::CLAIM) != 0;
    path::reflected::next(rx(guard).path.load(word::SWITCH), read, claimed, gone)
}

/// Claims the sender's switch.
pub(super) fn claim(guard: &Guard<'_>) {
    rx(guard).reader.store(word::CLAIM, 1);
    tell_nic(guard);
}

/// Returns true if a receive that has read TCP up to the switch may continue on the VI at once. If the switch is
/// unclaimed, this claims it: a program that polls for more bytes makes no receive that would claim.
pub(super) fn goes_on_behind_switch(guard: &Guard<'_>) -> bool {
    if !is_reflected(guard) {
        return true;
    }
    if next(guard) == Next::Claim {
        claim(guard);
    }
    // Loaded before the switch: if nothing more comes, the switch word that is loaded next is final.
    let gone = publishes_no_more(guard);
    path::reflected::is_settled(rx(guard).path.load(word::SWITCH), gone)
}

/// Returns true if the peer's words of the receiving direction are final, and everything that the peer has published is
/// here.
fn publishes_no_more(guard: &Guard<'_>) -> bool {
    rx(guard).writer.load(word::FIN) != 0 || end(guard) != End::NotYet
}

/// Returns the next step of a receiver that has revoked.
pub(super) fn revoked(guard: &Guard<'_>) -> Revoked {
    let gone = publishes_no_more(guard);
    let claimed = rx(guard).reader.load(word::CLAIM) != 0;
    let confirmed = rx(guard).writer.load(word::ANSWER) & word::CONFIRMED != 0;
    let switch = rx(guard).path.load(word::SWITCH);
    path::reflected::revoke(guard.conn.rx(), switch, claimed, confirmed, gone)
}

/// Returns the returned word as it stands at the sender, or 0 while the sender's NIC has not answered. The second value
/// is true if no answer will come.
fn answered(guard: &Guard<'_>) -> (u64, bool) {
    let proposed = rx(guard).path.load(word::RETURNED);
    if !is_reflected(guard) {
        return (proposed, false);
    }
    // Loaded before the answer: the NIC publishes the answer before the end.
    let gone = end(guard) != End::NotYet;
    let answer = rx(guard).writer.load(word::ANSWER);
    let verdict = match answer & (word::ACCEPTED | word::REFUSED) {
        0 => 0,
        word::ACCEPTED => proposed,
        _ => REFUSED,
    };
    (verdict, gone)
}

/// Returns the sender's answer to this end's request to put unread bytes on TCP. Nothing is read while the answer is
/// pending.
pub(crate) fn verdict(guard: &Guard<'_>) -> Verdict {
    if !guard.conn.has(flag::RETURNING) {
        return Verdict::None;
    }
    let (verdict, gone) = answered(guard);
    path::reflected::verdict(rx(guard).path.load(word::RETURNED), verdict, gone)
}

/// Decides what becomes of `unread` bytes. `found` is the word that this end found when it stored its own.
pub(super) fn rest(guard: &Guard<'_>, seen: Seen, unread: u64, found: u64) -> Rest {
    let (verdict, gone) = answered(guard);
    path::reflected::rest(seen, unread, found, verdict, gone)
}

/// Returns the result of a receive that must not look at the VI or TCP; `None` if the receive may look.
#[inline]
pub(super) fn instead(guard: &Guard<'_>) -> Option<Got> {
    if guard.conn.has(flag::RETURNING | flag::SHUT_RD) { found_instead(guard) } else { None }
}

#[cold]
fn found_instead(guard: &Guard<'_>) -> Option<Got> {
    let conn = guard.conn;
    if conn.has(flag::RETURNING) && conn.rx() == Rx::Vi {
        // The sender has not answered this end's request. Until it answers, nothing is read on any path.
        return Some(Got::Nothing);
    }
    let had = amount(guard.bytes_taken.wrapping_add(guard.front), guard.taker.head);
    let is_over = conn.is_shut() && is_reflected(guard);
    // TCP would have discarded bytes that come after both halves are shut.
    (is_over && rx(guard).path.load(word::SHUT) == had).then_some(Got::End)
}

/// Notes the NIC's report of the peer's end, for the progress thread. Returns true if the report is new.
pub(crate) fn note_end(guard: &Guard<'_>) -> bool {
    if is_reflected(guard) {
        reset_for_what_came_late(guard);
    }
    is_reflected(guard)
        && !guard.conn.has(flag::GONE)
        && rx(guard).writer.load(word::GONE) != 0
        && guard.conn.set(flag::GONE | flag::KERNEL_SOCKET) & flag::GONE == 0
}

/// Encodes a position in a stream as one word: bytes in packets, and coalesced bytes. The word is never 0 or 1.
fn amount(packets: u32, gathered: u64) -> u64 {
    1 << 63 | u64::from(packets & (u32::MAX >> 1)) << 32 | u64::from(gathered as u32)
}

/// Returns the word that this end publishes when it has shut both halves: the position up to which bytes had arrived. 1
/// means that the position is unknown.
pub(super) fn shut_word(guard: &mut Guard<'_>) -> u64 {
    if !is_reflected(guard) || guard.conn.is_handled() || scan(guard).is_err() {
        return 1;
    }
    let held = (guard.held_first..guard.held_end).map(|n| guard.held[n as usize % HELD].len);
    let packets = held.fold(guard.bytes_taken, u32::wrapping_add);
    amount(packets, rx(guard).writer.load(word::TAIL))
}

/// Resets the connection if this end has sent bytes on the VI after the receiver shut both halves. TCP would have reset
/// the connection for those bytes. So this sends a byte on TCP, for which the kernel resets the connection.
fn reset_for_what_came_late(guard: &Guard<'_>) {
    let said = tx(guard).path.load(word::SHUT);
    let sent = amount(guard.bytes_sent, guard.gatherer.tail);
    if said > 1
        && said != sent
        && guard.conn.tx() == Tx::Vi
        && !guard.closing.fin_sent
        && guard.conn.set(flag::LATE) & flag::LATE == 0
        && let Some(fd) = table::descriptor_of(guard.conn)
    {
        let _ = call::send(fd, &[0], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    }
}

/// Makes the NICs find out whether the peer still holds its end, after the kernel socket has ended.
pub(crate) fn kernel_socket_ended(guard: &Guard<'_>) {
    if is_reflected(guard) && rx(guard).reader.load(word::ENDED_ON_TCP) == 0 {
        rx(guard).reader.store(word::ENDED_ON_TCP, word::ENDED_THERE);
        tell_nic(guard);
    }
}

/// Makes the NICs report to the other end that this host's kernel has ended the kernel socket.
pub(super) fn ended_here(guard: &Guard<'_>) {
    rx(guard).reader.store(word::ENDED_ON_TCP, word::ENDED_HERE);
    tell_nic(guard);
}

/// Returns true if the NICs have lost each other because the other host has not answered for too long.
pub(super) fn has_timed_out(guard: &Guard<'_>) -> bool {
    rx(guard).writer.load(word::GONE) == word::TIMED_OUT
}

/// Returns true if the peer has died, rather than left.
pub(super) fn has_died(guard: &Guard<'_>) -> bool {
    rx(guard).writer.load(word::GONE) == word::DIED
}
