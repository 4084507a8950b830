//! What differs where the other side of the segment is a NIC in software, which reflects the VI to the other end
//! of the connection.
//!
//! The words and the bytes are the same. Three things take longer than with a peer that shares the segment:
//!
//! - news travel only when the NIC is notified of them, also those that a peer would find by itself;
//! - TCP may overtake the VI: its end and its errors count only once the NIC has published all that the peer had
//!   published;
//! - what is settled by compare-exchange between the two ends is settled where the sender is. A receiver that enters
//!   the VI or goes back asks, and its next steps wait for the answer ([`sovia_proto::path::reflected`]).

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

/// Tells the NIC of news for which no bell is rung.
pub(crate) fn tell_nic(guard: &Guard<'_>) {
    if is_reflected(guard)
        && let Some(pair) = pair::of(guard)
    {
        pair.tell_nic(guard.conn.vi.load(Ordering::Relaxed));
    }
}

/// Whether the peer has not come onto the VI yet, as far as the NICs have told: it says its window when it does.
///
/// A NIC gives an end its VI when the other end has asked for it as well, but the other one takes it with its program's next call, or never if
/// that has forked meanwhile. A grant would be unanswered for as long, and a NIC's death then leaves this end in doubt of a
/// switch. So it waits.
pub(super) fn awaits_peer(guard: &Guard<'_>) -> bool {
    is_reflected(guard) && rx(guard).writer.load(word::WINDOW) == 0
}

/// Tells the NIC for how many milliseconds what this end sends may stay unacknowledged. It asks when it sends something.
pub(crate) fn say_user_timeout(guard: &Guard<'_>, milliseconds: u32) {
    if is_reflected(guard) {
        rx(guard).reader.store(word::USER_TIMEOUT, milliseconds.into());
    }
}

/// Why nothing comes on the VI any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Something may come.
    NotYet,
    /// All that the peer had published is here.
    Complete,
    /// Something may be missing: a NIC has died, or the NICs have lost each other.
    Broken,
}

/// Whether the peer publishes anything more.
pub(super) fn end(guard: &Guard<'_>) -> End {
    match rx(guard).writer.load(word::GONE) {
        // The other side of the segment is the NIC's.
        0 if guard.conn.has(flag::DEAD) => End::Broken,
        0 => End::NotYet,
        word::ENDED | word::DIED => End::Complete,
        _ => End::Broken,
    }
}

/// Whether a death that is found is that of the NIC, before it had told of the peer's end; or was.
pub(super) fn is_without_nic(guard: &Guard<'_>) -> bool {
    let is_told = rx(guard).writer.load(word::GONE) != 0;
    super::failover::is_on(guard) || is_reflected(guard) && !is_told
}

/// Whether what TCP says of the peer's end is all there is: nothing that the peer has published before it is on
/// its way still.
pub(super) fn tcp_tells_the_end(guard: &Guard<'_>) -> bool {
    !is_reflected(guard)
        || publishes_no_more(guard)
        // It never had leave to switch.
        || guard.conn.rx() == Rx::Tcp
        // What comes is thrown away.
        || guard.conn.is_shut()
}

/// What the receiver of a direction does next that has granted the VI.
pub(super) fn next(guard: &Guard<'_>) -> Next {
    // First: the switch that is seen after it is the sender's last word.
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

/// Whether a receive that has read TCP up to the sender's switch goes on on the VI at once. Where it would have to claim the
/// switch, claims it: a program that looks until there is more receives nothing before.
pub(super) fn goes_on_behind_switch(guard: &Guard<'_>) -> bool {
    if !is_reflected(guard) {
        return true;
    }
    if next(guard) == Next::Claim {
        claim(guard);
    }
    // First: the switch that is seen after it is the sender's last word.
    let gone = publishes_no_more(guard);
    path::reflected::is_settled(rx(guard).path.load(word::SWITCH), gone)
}

/// Whether the sender of the direction in which this end receives moves it no more, and all that it has published is here.
fn publishes_no_more(guard: &Guard<'_>) -> bool {
    rx(guard).writer.load(word::FIN) != 0 || end(guard) != End::NotYet
}

/// What a receiver that has revoked does next.
pub(super) fn revoked(guard: &Guard<'_>) -> Revoked {
    let gone = publishes_no_more(guard);
    let claimed = rx(guard).reader.load(word::CLAIM) != 0;
    let confirmed = rx(guard).writer.load(word::ANSWER) & word::CONFIRMED != 0;
    let switch = rx(guard).path.load(word::SWITCH);
    path::reflected::revoke(guard.conn.rx(), switch, claimed, confirmed, gone)
}

/// Returns the word of what is returned as it stands at the sender: 0 while the sender's NIC has not answered. And true if it answers
/// no more.
fn answered(guard: &Guard<'_>) -> (u64, bool) {
    let proposed = rx(guard).path.load(word::RETURNED);
    if !is_reflected(guard) {
        return (proposed, false);
    }
    // First: the NIC publishes the answer before the end.
    let gone = end(guard) != End::NotYet;
    let answer = rx(guard).writer.load(word::ANSWER);
    let verdict = match answer & (word::ACCEPTED | word::REFUSED) {
        0 => 0,
        word::ACCEPTED => proposed,
        _ => REFUSED,
    };
    (verdict, gone)
}

/// Returns the sender's answer to a request of this end's to put unread bytes on TCP. Nothing is read while that is pending.
pub(crate) fn verdict(guard: &Guard<'_>) -> Verdict {
    if !guard.conn.has(flag::RETURNING) {
        return Verdict::None;
    }
    let (verdict, gone) = answered(guard);
    path::reflected::verdict(rx(guard).path.load(word::RETURNED), verdict, gone)
}

/// Decides what becomes of so many unread bytes, by the word that this end found before it put its own there.
pub(super) fn rest(guard: &Guard<'_>, seen: Seen, unread: u64, found: u64) -> Rest {
    let (verdict, gone) = answered(guard);
    path::reflected::rest(seen, unread, found, verdict, gone)
}

/// What a receive finds without a look at the VI or TCP, where the flags say that it may be so.
#[inline]
pub(super) fn instead(guard: &Guard<'_>) -> Option<Got> {
    if guard.conn.has(flag::RETURNING | flag::SHUT_RD) { found_instead(guard) } else { None }
}

#[cold]
fn found_instead(guard: &Guard<'_>) -> Option<Got> {
    let conn = guard.conn;
    if conn.has(flag::RETURNING) && conn.rx() == Rx::Vi {
        // What this end returns has not been answered: until it is, nothing is read anywhere.
        return Some(Got::Nothing);
    }
    let had = amount(guard.bytes_taken.wrapping_add(guard.front), guard.taker.head);
    let is_over = conn.is_shut() && is_reflected(guard);
    // What has come since both halves were shut TCP would have thrown away.
    (is_over && rx(guard).path.load(word::SHUT) == had).then_some(Got::End)
}

/// The peer's end, for the thread that answers in the place of the program: whether it is news.
pub(crate) fn note_end(guard: &Guard<'_>) -> bool {
    if is_reflected(guard) {
        reset_for_what_came_late(guard);
    }
    is_reflected(guard)
        && !guard.conn.has(flag::GONE)
        && rx(guard).writer.load(word::GONE) != 0
        && guard.conn.set(flag::GONE | flag::KERNEL_SOCKET) & flag::GONE == 0
}

/// How much of a stream there is, as one word: bytes in packets, bytes gathered. Never 0 or 1.
fn amount(packets: u32, gathered: u64) -> u64 {
    1 << 63 | u64::from(packets & (u32::MAX >> 1)) << 32 | u64::from(gathered as u32)
}

/// What this end says when it has shut both halves: how much had come by then. 1: that is not known.
pub(super) fn shut_word(guard: &mut Guard<'_>) -> u64 {
    if !is_reflected(guard) || guard.conn.is_handled() || scan(guard).is_err() {
        return 1;
    }
    let held = (guard.held_first..guard.held_end).map(|n| guard.held[n as usize % HELD].len);
    let packets = held.fold(guard.bytes_taken, u32::wrapping_add);
    amount(packets, rx(guard).writer.load(word::TAIL))
}

/// The receiver has shut both halves, and what this end has sent since, before it heard of that, lies on the VI. TCP would
/// have reset the connection for it: the kernel does, for a byte that it is given here.
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

/// The kernel socket has ended: the NICs find out whether the peer holds its end.
pub(crate) fn kernel_socket_ended(guard: &Guard<'_>) {
    if is_reflected(guard) && rx(guard).reader.load(word::ENDED_ON_TCP) == 0 {
        rx(guard).reader.store(word::ENDED_ON_TCP, word::ENDED_THERE);
        tell_nic(guard);
    }
}

/// This host's kernel has ended the kernel socket: the NICs let the other end know.
pub(super) fn ended_here(guard: &Guard<'_>) {
    rx(guard).reader.store(word::ENDED_ON_TCP, word::ENDED_HERE);
    tell_nic(guard);
}

/// Whether the NICs have lost each other because the other host has not answered for too long.
pub(super) fn has_timed_out(guard: &Guard<'_>) -> bool {
    rx(guard).writer.load(word::GONE) == word::TIMED_OUT
}

/// Whether the peer has died, rather than left.
pub(super) fn has_died(guard: &Guard<'_>) -> bool {
    rx(guard).writer.load(word::GONE) == word::DIED
}
