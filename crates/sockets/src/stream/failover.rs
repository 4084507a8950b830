//! Moves a connection to TCP after a NIC in software that carried the connection has died, or after the two hosts'
//! NICs have lost contact. The protocol is in [`sovia_proto::failover`].
//!
//! An end begins the failover when its NIC dies or reports the loss ([`begin`]), or when the peer's failover record
//! arrives on TCP ([`begin_on_record`]). The end waits for no answer.
//!
//! - The direction in which this end sends moves to TCP at once. This end first sends a failover record, then the
//!   bytes of the VI that the peer may not have received. Until all these bytes are on TCP, the program's sends
//!   find no room ([`super::returned`]).
//! - The direction in which this end receives stays on the VI until the program has read all bytes on the VI
//!   ([`leaves_vi`]). Then this end reads the peer's record on TCP, and skips the repeated bytes that the program
//!   already has ([`bring`]).
//!
//! Any thread may take these steps, under the connection's lock. The kernel's counts of bytes on TCP show which
//! steps are done. So if a thread dies in the middle, another thread continues.
//!
//! After the failover has begun, this end reads the unread bytes on the VI, but no other data from its NIC.

mod rest;
mod settle;

pub(crate) use rest::{Rest, RestProgress, rest};
pub(crate) use settle::{may_settle, settle};

use super::hold::scan;
use super::kernel_socket::kernel_socket_has_ended;
use super::undelivered::ListSource;
use super::{Errno, ending, listeners, rx, tx, uncounted, word};
use crate::conn::{Conn, Failover, Guard, HasEndpoint, flag};
use crate::{keepalive, kernel_sockets, stats};
use core::sync::atomic::{Ordering, compiler_fence};
use sovia_control::Reason;
use sovia_proto::failover::{
    self, FailoverRecord, FirstBytes, ReceiverAction, ReceiverKnowledge, ReceiverProgress,
    RingEntry, SenderAction, SentCounts, Tail,
};
use sovia_proto::packet::Immediate;
use sovia_proto::path::{CANCELLED, Rx, Switch, Tx};
use sovia_sys::call;

/// Length of a failover record on TCP, in bytes.
const RECORD: u64 = failover::LEN as u64;

/// Returns true if the connection has begun a failover.
#[inline]
pub(crate) fn is_on(guard: &Guard<'_>) -> bool {
    guard.failover.is_on
}

/// Begins the failover at this end. Returns false if a failover is impossible: bytes may be missing, or the other
/// host has timed out.
#[cold]
pub(super) fn begin(guard: &mut Guard<'_>) -> bool {
    let conn = guard.conn;
    if is_on(guard) {
        return true;
    }
    if super::reflected::has_timed_out(guard) {
        // The program has limited the wait for acknowledgements (TCP_USER_TIMEOUT), so the connection ends with
        // ETIMEDOUT.
        return false;
    }
    // `scan` takes packets that have arrived on the VI but were not read yet, so that `known` takes them into
    // account.
    if conn.has(flag::CORRUPT | flag::UNANSWERED) || guard.own.uncounted || scan(guard).is_err() {
        return false;
    }
    let receiving = failover::receiving(known(guard));
    if receiving == ReceiverAction::Lost {
        return false;
    }
    let tail = match sends(guard) {
        SenderAction::Lost => return false,
        SenderAction::Plain | SenderAction::TakeBack => None,
        SenderAction::FailoverRecord => match tail(guard) {
            Ok(tail) => Some(tail),
            Err(_) => return false,
        },
    };
    guard.failover = Failover {
        sends: tail.is_some(),
        awaits: matches!(receiving, ReceiverAction::FailoverRecord | ReceiverAction::RecordOrNot),
        or_not: receiving == ReceiverAction::RecordOrNot,
        doubts: matches!(receiving, ReceiverAction::Doubtful | ReceiverAction::RecordOrNot),
        is_plain: matches!(receiving, ReceiverAction::Plain | ReceiverAction::Doubtful),
        tail: tail.unwrap_or_default(),
        base: switched_at(guard),
        ..Failover::default()
    };
    compiler_fence(Ordering::SeqCst);
    keepalive::leave(guard);
    // A withheld error waits for a NIC to report that all bytes have arrived. No NIC will report this now.
    conn.report_withheld_error();
    // Stored last: if the process is killed before this store, the failover has not begun.
    guard.failover.is_on = true;
    apply(guard);
    record_reason(conn);
    if guard.handler.ready_list().is_some() {
        super::handler_queue::end(guard);
    }
    leaves_vi(guard);
    listeners::notify_all(guard);
    // The progress thread puts this end's unacknowledged VI bytes on TCP if the program makes no call.
    kernel_sockets::nudge();
    true
}

/// Decides how the direction in which this end sends moves to TCP. If the result is [`SenderAction::TakeBack`], this
/// function has cancelled the direction's switch to the VI.
fn sends(guard: &Guard<'_>) -> SenderAction {
    let conn = guard.conn;
    let owes = conn.has(flag::LEFT_VI) && !conn.has(flag::DRAINED);
    let of = |switch| failover::sending(conn.tx(), switch, guard.closing.fin_sent, owes);
    let word = &tx(guard).path.0[word::SWITCH];
    let switch = word.load(Ordering::Acquire);
    let sending = of(switch);
    if sending != SenderAction::TakeBack {
        return sending;
    }
    // This end's NIC may still be alive. At this moment the NIC may be storing the receiver's claim in the switch
    // word.
    match word.compare_exchange(switch, CANCELLED, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => sending,
        Err(now) => of(now),
    }
}

/// Returns true if this end's bytes on the VI go to TCP without a failover record. No record is needed if the
/// switch to the VI is cancelled, because the receiver has then read no byte on the VI.
fn takes_back(guard: &Guard<'_>) -> bool {
    tx(guard).path.load(word::SWITCH) == CANCELLED
}

/// Returns the source of the list of bytes that this end must put on TCP.
pub(super) fn list_source(guard: &Guard<'_>) -> ListSource {
    if takes_back(guard) { ListSource::BySender } else { ListSource::OfFailover }
}

/// Returns true if the peer's failover record may be on TCP although no NIC has reported a loss. This happens if
/// the peer's NIC has died and this end's NIC has not noticed.
pub(crate) fn may_have_record(guard: &Guard<'_>) -> bool {
    let conn = guard.conn;
    let is_silent =
        conn.has(flag::KERNEL_SOCKET) && conn.rx() == Rx::Vi && !conn.has(flag::CORRUPT);
    is_silent && super::reflected::is_reflected(guard) && !is_on(guard)
}

/// Begins the failover if the peer's failover record has arrived on TCP. Returns true if the record has arrived.
#[cold]
pub(crate) fn begin_on_record(guard: &mut Guard<'_>, fd: i32) -> bool {
    if !may_have_record(guard) {
        return false;
    }
    let mut record = [0; failover::LEN];
    let peek = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // Calls `recv` only if TCP has unread bytes. Without unread bytes, `recv` would consume the socket error, and
    // the program would not see it.
    let is_there = unread_on_tcp(guard.conn, fd) >= failover::LEN
        && call::recv(fd, &mut record, peek) == Ok(failover::LEN)
        && FailoverRecord::decode(&record).is_ok();
    if is_there && !begin(guard) {
        lost(guard, fd, libc::ECONNRESET);
    }
    is_there
}

/// Returns the number of unread bytes on TCP. If there are none and TCP has not ended, clears
/// [`flag::KERNEL_SOCKET`]. Then the progress thread waits for the next event of the kernel socket, and does not
/// poll in each round.
fn unread_on_tcp(conn: &Conn, fd: i32) -> usize {
    const END: u32 = flag::ENDED | flag::GONE | flag::DEAD;
    // Cleared before the system calls below, so that no event is lost. For bytes that arrive after this line, the
    // kernel reports a new event.
    conn.clear(flag::KERNEL_SOCKET);
    let unread = call::bytes_unread(fd);
    if unread != Ok(0) || conn.has(END) || kernel_socket_has_ended(fd) {
        conn.set(flag::KERNEL_SOCKET);
    }
    unread.unwrap_or(0)
}

/// Sets the paths and flags of the two directions for a failover that has begun. If the process dies in this
/// function, a forked relative calls it again.
fn apply(guard: &mut Guard<'_>) {
    let conn = guard.conn;
    let takes_back = conn.tx() == Tx::Vi && takes_back(guard);
    if (guard.failover.sends || takes_back) && !conn.has(flag::LEFT_VI) {
        (guard.drained, guard.drained_from) = (0, 0);
        conn.clear(flag::DRAINED);
        conn.set(flag::LEFT_VI);
    }
    conn.set_tx(Tx::Back);
    if guard.failover.is_plain {
        conn.set_rx(Rx::Back);
    }
    // Without REFLECTED, the end of TCP counts at once as the peer's end. With KERNEL_SOCKET, a receive that finds
    // no bytes on the VI looks at TCP.
    conn.clear(flag::REFLECTED | flag::DEAD | flag::GONE);
    conn.set(flag::KERNEL_SOCKET);
}

/// Returns the number of bytes that this end receives on TCP before the peer's failover record.
fn switched_at(guard: &Guard<'_>) -> u64 {
    match Switch::from_word(rx(guard).path.load(word::SWITCH)) {
        Switch::At(n) | Switch::Entered(n) => n,
        Switch::Not | Switch::Cancelled => guard.conn.rx_tcp.load(Ordering::Acquire),
    }
}

fn record_reason(conn: &Conn) {
    conn.stays(Reason::NicGone);
    stats::reason(Reason::NicGone);
}

fn known(guard: &Guard<'_>) -> ReceiverKnowledge {
    let direction = rx(guard);
    ReceiverKnowledge {
        rx: guard.conn.rx(),
        switch: direction.path.load(word::SWITCH),
        claimed: direction.reader.load(word::CLAIM) != 0,
        read: guard.conn.rx_tcp.load(Ordering::Acquire),
        fin: direction.writer.load(word::FIN),
        finished: ending::has_finished(guard),
        taken_back: direction.path.load(word::TAKEN) != 0,
        returning: guard.conn.has(flag::RETURNING),
    }
}

/// Returns the bytes that this end has put on the VI and that the peer may not have received.
fn tail(guard: &Guard<'_>) -> Result<Tail, sovia_proto::Violation> {
    let sender = &guard.endpoint_ref().tx;
    let sent = SentCounts {
        entries: sender.sent(),
        packets: guard.coalescer.packets,
        bytes: guard.bytes_sent,
        after: guard.own.after as u32,
        start: guard.own.start,
        tail: guard.coalescer.tail,
    };
    let line = &tx(guard).reader;
    // HEAD counts coalesced bytes that the peer has read, and TAKEN_BYTES counts bytes in packets. The peer reads
    // the packets first. So HEAD is loaded first: TAKEN_BYTES must not be the older value.
    let head = line.load(word::HEAD);
    let progress = ReceiverProgress { bytes: line.load(word::TAKEN_BYTES) as u32, head };
    failover::tail_of(&sent, &progress, |n| {
        let entry = sender.message(n).ok()?;
        let kind = Immediate::decode(entry.immediate).ok()?.kind;
        Some(RingEntry { len: entry.len, is_ordered: kind.is_ordered() })
    })
}

/// Returns the failover record that this end puts on TCP before any other byte of the failover.
pub(super) fn record(guard: &Guard<'_>) -> [u8; failover::LEN] {
    let Tail { position, bytes, .. } = guard.failover.tail;
    FailoverRecord { position, bytes }.encode()
}

/// Shuts down the sending half of TCP if the program has asked for this during the failover. Called once all owed
/// bytes are on TCP.
pub(super) fn has_paid(guard: &Guard<'_>, fd: i32) {
    if is_on(guard) && guard.conn.has(flag::SHUT_WR) {
        let _ = call::shutdown(fd, libc::SHUT_WR);
    }
}

/// Returns true if a shutdown of the sending half of TCP must wait until a failover has put this end's VI bytes on
/// TCP.
pub(crate) fn holds_shutdown(guard: &Guard<'_>) -> bool {
    let conn = guard.conn;
    is_on(guard) && conn.has(flag::LEFT_VI) && !conn.has(flag::DRAINED | flag::CORRUPT)
}

/// During a failover, moves the direction in which this end receives to TCP if no byte is unread on the VI. Returns
/// true if this call has moved the direction.
pub(super) fn leaves_vi(guard: &mut Guard<'_>) -> bool {
    guard.failover.awaits && guard.conn.rx() == Rx::Vi && leaves_vi_now(guard)
}

#[cold]
fn leaves_vi_now(guard: &mut Guard<'_>) -> bool {
    let conn = guard.conn;
    if scan(guard).is_err()
        || guard.held_first != guard.held_end
        || guard.borrowed
        || rx(guard).writer.load(word::TAIL) != guard.taker.head
    {
        return false;
    }
    conn.set_rx(Rx::Back);
    conn.set(flag::KERNEL_SOCKET);
    true
}

/// Result of [`bring`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BringResult {
    /// The next byte that TCP delivers is the program's next byte.
    Next,
    /// TCP has not yet delivered the whole failover record, or has not yet delivered all repeated bytes.
    Nothing,
    /// Bytes are missing, so this call has ended the connection with an error.
    Over,
}

/// Reads and discards the peer's failover record on TCP, and the repeated bytes after the record that the program
/// already has.
#[inline]
pub(super) fn bring(guard: &mut Guard<'_>, fd: i32) -> BringResult {
    leaves_switch(guard);
    let is_to_come = guard.failover.awaits && guard.conn.rx() == Rx::Back;
    if is_to_come { bring_now(guard, fd) } else { BringResult::Next }
}

/// Moves the receiving direction back to TCP at the sender's switch, if the sender may not have received this end's
/// claim of the switch. TCP must have been read up to the switch.
#[inline]
pub(super) fn leaves_switch(guard: &Guard<'_>) {
    let conn = guard.conn;
    if guard.failover.or_not
        && conn.rx() == Rx::Granted
        && conn.rx_tcp.load(Ordering::Acquire) >= guard.failover.base
    {
        conn.set_rx(Rx::Back);
    }
}

#[cold]
#[inline(never)]
fn bring_now(guard: &mut Guard<'_>, fd: i32) -> BringResult {
    let mut scrap = [0u8; 1 << 10];
    while guard.failover.awaits {
        if guard.conn.has(flag::CORRUPT) {
            return BringResult::Over;
        }
        let had = read(guard);
        if had == 0 {
            // Peeks first, so that the record is read only once it has arrived as a whole.
            let record = &mut scrap[..failover::LEN];
            let got = call::recv(fd, &mut *record, libc::MSG_PEEK | libc::MSG_DONTWAIT);
            if let Ok(n @ 1..) = got
                && guard.failover.or_not
                && failover::begins(&record[..n]) == FirstBytes::Data
            {
                (guard.failover.awaits, guard.failover.or_not) = (false, false);
                break;
            }
            match got {
                Ok(failover::LEN) if expects(guard, &scrap) => {}
                // A result of 0 need not be the end of TCP: the kernel also returns 0 if this end has shut its
                // receiving half.
                Ok(0..failover::LEN) if !super::kernel_socket_has_ended(fd) => {
                    return BringResult::Nothing;
                }
                Err(call::Errno::EAGAIN | call::Errno::EINTR) => return BringResult::Nothing,
                Ok(_) => return over(guard, fd, libc::ECONNRESET),
                Err(error) => return over(guard, fd, crate::errno(error)),
            }
        }
        let left = (RECORD + u64::from(guard.failover.skip)).saturating_sub(had);
        if left == 0 {
            guard.failover.awaits = false;
            break;
        }
        let wanted = match had {
            0 => failover::LEN,
            _ => scrap.len().min(usize::try_from(left).unwrap_or(usize::MAX)),
        };
        match call::recv(fd, &mut scrap[..wanted], libc::MSG_DONTWAIT) {
            Ok(n @ 1..) => {
                guard.conn.rx_tcp.fetch_add(n as u64, Ordering::AcqRel);
            }
            Err(call::Errno::EAGAIN | call::Errno::EINTR) => return BringResult::Nothing,
            Ok(_) if !super::kernel_socket_has_ended(fd) => return BringResult::Nothing,
            // TCP has ended within the repeated bytes. No byte is missing if the program already has all bytes that
            // the record announces.
            Ok(_) if has_all(guard) => guard.failover.awaits = false,
            Ok(_) => return over(guard, fd, libc::ECONNRESET),
            Err(error) => return over(guard, fd, crate::errno(error)),
        }
    }
    BringResult::Next
}

/// Returns true if the failover record has arrived and the program already has all bytes that the record announces.
/// The sender puts no newer byte on TCP before all announced bytes.
fn has_all(guard: &Guard<'_>) -> bool {
    let Failover { skip, bytes, .. } = guard.failover;
    read(guard) >= RECORD && skip == bytes
}

/// Clears [`flag::KERNEL_SOCKET`], unless unread bytes remain on the VI. Then the flag must stay, so that the
/// receive that empties the VI looks at TCP. Always returns false: during a failover, an event of the kernel socket
/// does not mean that the peer has gone.
pub(super) fn ask(guard: &Guard<'_>) -> bool {
    let is_on_vi = guard.failover.awaits && guard.conn.rx() == Rx::Vi;
    if !is_on_vi {
        guard.conn.clear(flag::KERNEL_SOCKET);
    }
    false
}

/// Returns the number of bytes that this end has read from TCP since the start of the failover record.
fn read(guard: &Guard<'_>) -> u64 {
    guard.conn.rx_tcp.load(Ordering::Acquire).saturating_sub(guard.failover.base)
}

/// Returns the position in the VI's stream up to which the program has read. The position wraps.
fn consumed(guard: &Guard<'_>) -> u32 {
    guard.bytes_taken.wrapping_add(guard.front).wrapping_add(guard.taker.head as u32)
}

/// Decodes the failover record at the start of `bytes`, and stores its contents. Returns false if there is no
/// record, or if the record's position lies after the program's next byte.
fn expects(guard: &mut Guard<'_>, bytes: &[u8]) -> bool {
    let Some(bytes) = bytes.first_chunk() else { return false };
    let consumed = consumed(guard);
    let Ok(record) = FailoverRecord::decode(bytes) else { return false };
    let Ok(skip) = failover::skip(&record, consumed) else { return false };
    (guard.failover.skip, guard.failover.bytes) = (skip, record.bytes);
    // The record says how many bytes follow it on TCP, so the failover is no longer in doubt.
    (guard.failover.or_not, guard.failover.doubts) = (false, false);
    true
}

/// Returns true if the peer must still put bytes of the VI on TCP before TCP may end.
pub(super) fn is_owed(guard: &Guard<'_>) -> bool {
    let Failover { is_on, awaits, bytes, .. } = guard.failover;
    let is_short = || read(guard) < RECORD + u64::from(bytes);
    is_on && (awaits || bytes != 0 && !has_all(guard) && is_short())
}

/// Returns true if an end of TCP now would not prove that the program has the whole stream.
pub(super) fn may_be_cut_off(guard: &Guard<'_>) -> bool {
    guard.failover.doubts || is_owed(guard)
}

/// Returns how many of the `unread` bytes on TCP are data for the program. A failover record and the bytes after it
/// do not count until this end has read the record.
pub(super) fn of_program(guard: &Guard<'_>, unread: usize) -> usize {
    if !guard.failover.awaits {
        return unread;
    }
    match guard.conn.rx() {
        Rx::Back => 0,
        _ => {
            let read = guard.conn.rx_tcp.load(Ordering::Acquire);
            let before = guard.failover.base.saturating_sub(read);
            unread.min(usize::try_from(before).unwrap_or(usize::MAX))
        }
    }
}

/// Place of the next bytes of the direction in which this end receives, during a failover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextBytes {
    /// The kernel has received all bytes that the failover repeats on TCP.
    OnTcp,
    /// The kernel has not yet received all bytes that the failover repeats on TCP.
    Waits,
    /// The next bytes are unread on the VI.
    OnVi,
}

/// Moves the direction in which this end receives as far towards TCP as possible, and returns the place of its next
/// bytes.
pub(crate) fn receives(guard: &mut Guard<'_>, fd: i32) -> NextBytes {
    leaves_vi(guard);
    if guard.conn.rx() != Rx::Back {
        match leaves_unread(guard, fd) {
            NextBytes::OnTcp => {}
            stands => return stands,
        }
    }
    if bring(guard, fd) == BringResult::Nothing {
        return NextBytes::Waits;
    }
    let here = call::bytes_unread(fd).unwrap_or(0) as u64;
    let all = RECORD + u64::from(guard.failover.bytes);
    match is_owed(guard) && read(guard) + here < all {
        // TCP may have ended instead. The next receive finds this out.
        true => NextBytes::Waits,
        false => NextBytes::OnTcp,
    }
}

/// Returns true if a program without Sovia must not get the socket. That program could read a failover record as
/// data, or take a cut-off stream for a complete one. Or it could send bytes before this end's owed bytes.
pub(crate) fn misleads(guard: &Guard<'_>) -> bool {
    let Failover { awaits, doubts, .. } = guard.failover;
    is_on(guard) && (awaits || doubts || holds_shutdown(guard))
}

/// Ends the connection with an error. Called if a program without Sovia gets a socket that would mislead it
/// ([`misleads`]).
pub(crate) fn end(guard: &Guard<'_>, fd: i32) {
    lost(guard, fd, libc::ECONNRESET);
}

/// Repeats the steps of a failover that a dead thread may have left undone. The thread may have read bytes from TCP
/// without counting them, so this function uses the kernel's count.
pub(super) fn repair(guard: &mut Guard<'_>, fd: i32) {
    if is_on(guard) {
        apply(guard);
        if guard.conn.rx() == Rx::Back {
            uncounted::count_read(guard.conn, fd);
        }
    }
}

/// Moves the direction to TCP if the failover record on TCP repeats the unread bytes of the VI. Removes the record,
/// because a program that inherits the connection does not know failover records.
fn leaves_unread(guard: &mut Guard<'_>, fd: i32) -> NextBytes {
    if !guard.failover.awaits || guard.conn.rx() != Rx::Vi || guard.borrowed {
        return NextBytes::OnVi;
    }
    let mut record = [0; failover::LEN];
    match call::recv(fd, &mut record, libc::MSG_PEEK | libc::MSG_DONTWAIT) {
        Ok(failover::LEN) if expects(guard, &record) => {
            guard.conn.set_rx(Rx::Back);
            guard.conn.set(flag::KERNEL_SOCKET);
            // `recv` returns the whole record: the record has arrived, and no other thread receives while this
            // thread holds the lock.
            if let Ok(n) = call::recv(fd, &mut record, libc::MSG_DONTWAIT) {
                guard.conn.rx_tcp.fetch_add(n as u64, Ordering::AcqRel);
            }
            NextBytes::OnTcp
        }
        // The record's position lies after the program's next byte, so only the VI has that byte.
        Ok(failover::LEN) => NextBytes::OnVi,
        _ if super::kernel_socket_has_ended(fd) => NextBytes::OnVi,
        _ => NextBytes::Waits,
    }
}

fn over(guard: &Guard<'_>, fd: i32, error: Errno) -> BringResult {
    lost(guard, fd, error);
    BringResult::Over
}

/// Ends a connection because bytes are missing. One call of this end's program fails with `error`, and the peer
/// gets a reset.
#[cold]
pub(super) fn lost(guard: &Guard<'_>, fd: i32, error: Errno) {
    if super::broken_off(guard.conn, fd, error) {
        listeners::notify_all(guard);
    }
}
