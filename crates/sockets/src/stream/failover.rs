//! The NIC that carries a connection has died, or the two NICs have lost each other for good: the connection goes on on TCP
//! ([`sovia_proto::failover`]).
//!
//! Each end does its part when it finds out ([`begin`]), from its NIC or by the peer's record ([`told`]), and waits for no answer. The direction in which it sends is back on
//! TCP from then on: a record goes first, then what the peer may not have got of the VI, as room comes; until all of that
//! is there sends find no room ([`super::returned`]). The direction in which it receives stays on the VI while something is
//! unread there ([`leaves_vi`]); then the record is awaited on TCP, and what the program has had is passed over
//! ([`bring`]). All of it is done under the connection's lock by whichever thread comes by, and what has been done shows
//! in counts that the kernel keeps as well, so a thread or a process may end over it.
//!
//! From the beginning on the NIC is no part of it: no word that it publishes is looked at but what is unread.

mod rest;
mod settle;

pub(crate) use rest::{Rest, Went, rest};
pub(crate) use settle::{may_settle, settle};

use super::hold::scan;
use super::kernel_socket::kernel_socket_has_ended;
use super::undelivered::Said;
use super::{Errno, ending, listeners, rx, tx, uncounted, word};
use crate::conn::{Conn, Failover, Guard, HasEndpoint, flag};
use crate::{keepalive, kernel_sockets, stats};
use core::sync::atomic::{Ordering, compiler_fence};
use sovia_control::Reason;
use sovia_proto::failover::{
    self, Begins, Heard, Kept, Known, Receiving, Record, Sending, Sent, Tail,
};
use sovia_proto::packet::Immediate;
use sovia_proto::path::{CANCELLED, Rx, Switch, Tx};
use sovia_sys::call;

/// Bytes of a record on TCP.
const RECORD: u64 = failover::LEN as u64;

/// Whether the connection is on its way to TCP because its NIC has died.
#[inline]
pub(crate) fn is_on(guard: &Guard<'_>) -> bool {
    guard.failover.is_on
}

/// The NIC has died, or says that it has lost the other one: goes over to TCP. False where something may be missing.
#[cold]
pub(super) fn begin(guard: &mut Guard<'_>) -> bool {
    let conn = guard.conn;
    if is_on(guard) {
        return true;
    }
    if super::reflected::has_timed_out(guard) {
        // The program has said how long it waits.
        return false;
    }
    // What has come is for the program, whatever the word of the NIC's death has overtaken.
    if conn.has(flag::CORRUPT | flag::UNANSWERED) || guard.own.uncounted || scan(guard).is_err() {
        return false;
    }
    let receiving = failover::receiving(known(guard));
    if receiving == Receiving::Lost {
        return false;
    }
    let tail = match sends(guard) {
        Sending::Lost => return false,
        Sending::Plain | Sending::TakeBack => None,
        Sending::Record => match tail(guard) {
            Ok(tail) => Some(tail),
            Err(_) => return false,
        },
    };
    guard.failover = Failover {
        sends: tail.is_some(),
        awaits: matches!(receiving, Receiving::Record | Receiving::RecordOrNot),
        or_not: receiving == Receiving::RecordOrNot,
        doubts: matches!(receiving, Receiving::Doubtful | Receiving::RecordOrNot),
        is_plain: matches!(receiving, Receiving::Plain | Receiving::Doubtful),
        tail: tail.unwrap_or_default(),
        base: switched_at(guard),
        ..Failover::default()
    };
    compiler_fence(Ordering::SeqCst);
    keepalive::leave(guard);
    // The kernel's error is told by nothing else from now on.
    conn.tell_withheld_error();
    // Behind what it says: a process may be killed between any two stores.
    guard.failover.is_on = true;
    apply(guard);
    say_why(conn);
    if guard.handler.ready_list().is_some() {
        super::handled::end(guard);
    }
    leaves_vi(guard);
    listeners::tell_all(guard);
    // The thread that watches kernel sockets puts on TCP what goes there, if no call does.
    kernel_sockets::nudge();
    true
}

/// What becomes of the direction in which this end sends. A switch that is to be taken back has been.
fn sends(guard: &Guard<'_>) -> Sending {
    let conn = guard.conn;
    let owes = conn.has(flag::LEFT_VI) && !conn.has(flag::DRAINED);
    let of = |switch| failover::sending(conn.tx(), switch, guard.closing.fin_sent, owes);
    let word = &tx(guard).path.0[word::SWITCH];
    let switch = word.load(Ordering::Acquire);
    let sending = of(switch);
    if sending != Sending::TakeBack {
        return sending;
    }
    // This end's NIC may be alive, and hear just now that the receiver has claimed it.
    match word.compare_exchange(switch, CANCELLED, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => sending,
        Err(now) => of(now),
    }
}

/// Whether what this end has put on the VI goes on TCP as it is, since the receiver has seen nothing of it.
fn takes_back(guard: &Guard<'_>) -> bool {
    tx(guard).path.load(word::SWITCH) == CANCELLED
}

/// Whose word it is what of this end's goes on TCP.
pub(super) fn said(guard: &Guard<'_>) -> Said {
    if takes_back(guard) { Said::BySender } else { Said::OfFailover }
}

/// Whether the peer's record may be on TCP, though no NIC has said anything: the peer's own has died, and this end's does not know it.
pub(crate) fn may_be_told(guard: &Guard<'_>) -> bool {
    let conn = guard.conn;
    let is_silent =
        conn.has(flag::KERNEL_SOCKET) && conn.rx() == Rx::Vi && !conn.has(flag::CORRUPT);
    is_silent && super::reflected::is_reflected(guard) && !is_on(guard)
}

/// Goes over to TCP if the peer has: its record is there.
#[cold]
pub(crate) fn told(guard: &mut Guard<'_>, fd: i32) -> bool {
    if !may_be_told(guard) {
        return false;
    }
    let mut record = [0; failover::LEN];
    let peek = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // Where nothing is there, to receive would take the kernel's error, which is the program's.
    let is_there = unread_news(guard.conn, fd) >= failover::LEN
        && call::recv(fd, &mut record, peek) == Ok(failover::LEN)
        && Record::decode(&record).is_ok();
    if is_there && !begin(guard) {
        lost(guard, fd, libc::ECONNRESET);
    }
    is_there
}

/// Bytes that are unread on TCP. Where there are none, and no end is known, the kernel socket has no news until it tells of some: it is not
/// asked again in each round of the thread that watches kernel sockets.
fn unread_news(conn: &Conn, fd: i32) -> usize {
    const END: u32 = flag::ENDED | flag::GONE | flag::DEAD;
    // First: what comes from here on the kernel tells of.
    conn.clear(flag::KERNEL_SOCKET);
    let unread = call::bytes_unread(fd);
    if unread != Ok(0) || conn.has(END) || kernel_socket_has_ended(fd) {
        conn.set(flag::KERNEL_SOCKET);
    }
    unread.unwrap_or(0)
}

/// Moves both directions to where they are from the beginning on. Done again by a relative of a process that has died over it.
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
    // What TCP says counts at once; while the VI is read, a receive that finds nothing there looks further.
    conn.clear(flag::REFLECTED | flag::DEAD | flag::GONE);
    conn.set(flag::KERNEL_SOCKET);
}

/// What is read of TCP before the VI, and before the record.
fn switched_at(guard: &Guard<'_>) -> u64 {
    match Switch::from_word(rx(guard).path.load(word::SWITCH)) {
        Switch::At(n) | Switch::Entered(n) => n,
        Switch::Not | Switch::Cancelled => guard.conn.rx_tcp.load(Ordering::Acquire),
    }
}

fn say_why(conn: &Conn) {
    conn.stays(Reason::NicGone);
    stats::reason(Reason::NicGone);
}

fn known(guard: &Guard<'_>) -> Known {
    let direction = rx(guard);
    Known {
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

/// What this end has put on the VI and may not have arrived.
fn tail(guard: &Guard<'_>) -> Result<Tail, sovia_proto::Violation> {
    let sender = &guard.endpoint_ref().tx;
    let sent = Sent {
        entries: sender.sent(),
        packets: guard.gatherer.packets,
        bytes: guard.bytes_sent,
        after: guard.own.after as u32,
        start: guard.own.start,
        tail: guard.gatherer.tail,
    };
    let line = &tx(guard).reader;
    // In this order: no less of the packets than went before what is known to be taken of the gathered bytes.
    let head = line.load(word::HEAD);
    let heard = Heard { bytes: line.load(word::TAKEN_BYTES) as u32, head };
    failover::kept(&sent, &heard, |n| {
        let entry = sender.message(n).ok()?;
        let kind = Immediate::decode(entry.immediate).ok()?.kind;
        Some(Kept { len: entry.len, is_ordered: kind.is_ordered() })
    })
}

/// The record that goes on TCP before anything else of this end's.
pub(super) fn record(guard: &Guard<'_>) -> [u8; failover::LEN] {
    let Tail { position, bytes, .. } = guard.failover.tail;
    Record { position, bytes }.encode()
}

/// All of it is on TCP: what waited for that is done.
pub(super) fn has_paid(guard: &Guard<'_>, fd: i32) {
    if is_on(guard) && guard.conn.has(flag::SHUT_WR) {
        let _ = call::shutdown(fd, libc::SHUT_WR);
    }
}

/// Whether TCP is to be shut in the direction in which this end sends only when what goes there first is there.
pub(crate) fn holds_shutdown(guard: &Guard<'_>) -> bool {
    let conn = guard.conn;
    is_on(guard) && conn.has(flag::LEFT_VI) && !conn.has(flag::DRAINED | flag::CORRUPT)
}

/// Whether the direction in which this end receives is on TCP now: nothing is unread on the VI.
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

/// What TCP has for the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brought {
    /// Whatever comes next there.
    Next,
    /// Nothing yet: the record, or bytes that the program has had, are to come.
    Nothing,
    /// Nothing ever: something is missing, and the connection has ended with an error.
    Over,
}

/// Takes off TCP what comes before the program's next byte.
#[inline]
pub(super) fn bring(guard: &mut Guard<'_>, fd: i32) -> Brought {
    leaves_switch(guard);
    let is_to_come = guard.failover.awaits && guard.conn.rx() == Rx::Back;
    if is_to_come { bring_now(guard, fd) } else { Brought::Next }
}

/// TCP has been read up to a switch of which the sender may not have heard that it was claimed: what comes next is on TCP.
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
fn bring_now(guard: &mut Guard<'_>, fd: i32) -> Brought {
    let mut scrap = [0u8; 1 << 10];
    while guard.failover.awaits {
        if guard.conn.has(flag::CORRUPT) {
            return Brought::Over;
        }
        let had = read(guard);
        if had == 0 {
            // The record is looked at before it is taken, in one piece.
            let record = &mut scrap[..failover::LEN];
            let got = call::recv(fd, &mut *record, libc::MSG_PEEK | libc::MSG_DONTWAIT);
            if let Ok(n @ 1..) = got
                && guard.failover.or_not
                && failover::begins(&record[..n]) == Begins::Data
            {
                (guard.failover.awaits, guard.failover.or_not) = (false, false);
                break;
            }
            match got {
                Ok(failover::LEN) if expects(guard, &scrap) => {}
                // Where this end has shut its receiving half the kernel says so as long as nothing is there.
                Ok(0..failover::LEN) if !super::kernel_socket_has_ended(fd) => {
                    return Brought::Nothing;
                }
                Err(call::Errno::EAGAIN | call::Errno::EINTR) => return Brought::Nothing,
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
            Err(call::Errno::EAGAIN | call::Errno::EINTR) => return Brought::Nothing,
            Ok(_) if !super::kernel_socket_has_ended(fd) => return Brought::Nothing,
            // It has ended in the middle of what the program has had.
            Ok(_) if has_all(guard) => guard.failover.awaits = false,
            Ok(_) => return over(guard, fd, libc::ECONNRESET),
            Err(error) => return over(guard, fd, crate::errno(error)),
        }
    }
    Brought::Next
}

/// Whether the record has come, and the program has had all that it announces: the sender has put nothing else on TCP before
/// all of that was there.
fn has_all(guard: &Guard<'_>) -> bool {
    let Failover { skip, bytes, .. } = guard.failover;
    read(guard) >= RECORD && skip == bytes
}

/// The kernel socket has news: they are the next receive's. False: nothing follows from them for the other calls.
pub(super) fn ask(guard: &Guard<'_>) -> bool {
    let is_on_vi = guard.failover.awaits && guard.conn.rx() == Rx::Vi;
    if !is_on_vi {
        guard.conn.clear(flag::KERNEL_SOCKET);
    }
    false
}

/// Bytes of TCP that have been read since the VI was left.
fn read(guard: &Guard<'_>) -> u64 {
    guard.conn.rx_tcp.load(Ordering::Acquire).saturating_sub(guard.failover.base)
}

/// Bytes of the VI's stream that the program has had.
fn consumed(guard: &Guard<'_>) -> u32 {
    guard.bytes_taken.wrapping_add(guard.front).wrapping_add(guard.taker.head as u32)
}

/// Notes what the record at the beginning of `bytes` says; false if there is none, or bytes are missing before it.
fn expects(guard: &mut Guard<'_>, bytes: &[u8]) -> bool {
    let Some(bytes) = bytes.first_chunk() else { return false };
    let consumed = consumed(guard);
    let Ok(record) = Record::decode(bytes) else { return false };
    let Ok(skip) = failover::skip(&record, consumed) else { return false };
    (guard.failover.skip, guard.failover.bytes) = (skip, record.bytes);
    // It says how much is to come.
    (guard.failover.or_not, guard.failover.doubts) = (false, false);
    true
}

/// Whether bytes of the VI's are still to come on TCP, which it must not end before.
pub(super) fn is_owed(guard: &Guard<'_>) -> bool {
    let Failover { is_on, awaits, bytes, .. } = guard.failover;
    let is_short = || read(guard) < RECORD + u64::from(bytes);
    is_on && (awaits || bytes != 0 && !has_all(guard) && is_short())
}

/// Whether TCP's end may come before that of the stream.
pub(super) fn may_be_cut_off(guard: &Guard<'_>) -> bool {
    guard.failover.doubts || is_owed(guard)
}

/// The bytes that TCP has for the program, of `unread` that are there.
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

/// How far the direction in which this end receives has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stands {
    /// The kernel has all that is to come.
    OnTcp,
    /// Something is to come that the kernel has not got.
    Waits,
    /// Something is unread on the VI.
    OnVi,
}

/// How far the direction in which this end receives has come; takes it on.
pub(crate) fn receives(guard: &mut Guard<'_>, fd: i32) -> Stands {
    leaves_vi(guard);
    if guard.conn.rx() != Rx::Back {
        match leaves_unread(guard, fd) {
            Stands::OnTcp => {}
            stands => return stands,
        }
    }
    if bring(guard, fd) == Brought::Nothing {
        return Stands::Waits;
    }
    let here = call::bytes_unread(fd).unwrap_or(0) as u64;
    let all = RECORD + u64::from(guard.failover.bytes);
    match is_owed(guard) && read(guard) + here < all {
        // Where TCP has ended, the next receive finds that.
        true => Stands::Waits,
        false => Stands::OnTcp,
    }
}

/// Whether a program that gets the socket, and no word of it, would take for data what is none, or what it writes would come before
/// what is owed.
pub(crate) fn misleads(guard: &Guard<'_>) -> bool {
    let Failover { awaits, doubts, .. } = guard.failover;
    is_on(guard) && (awaits || doubts || holds_shutdown(guard))
}

/// Ends the connection with an error, for such a program.
pub(crate) fn end(guard: &Guard<'_>, fd: i32) {
    lost(guard, fd, libc::ECONNRESET);
}

/// A thread has died over it. It may have taken bytes off TCP and not counted them: the kernel has.
pub(super) fn repair(guard: &mut Guard<'_>, fd: i32) {
    if is_on(guard) {
        apply(guard);
        if guard.conn.rx() == Rx::Back {
            uncounted::count_read(guard.conn, fd);
        }
    }
}

/// What is unread on the VI comes on TCP as well, as a rule: then the direction is on TCP from here on. A program that inherits the
/// connection knows nothing of a record.
fn leaves_unread(guard: &mut Guard<'_>, fd: i32) -> Stands {
    if !guard.failover.awaits || guard.conn.rx() != Rx::Vi || guard.borrowed {
        return Stands::OnVi;
    }
    let mut record = [0; failover::LEN];
    match call::recv(fd, &mut record, libc::MSG_PEEK | libc::MSG_DONTWAIT) {
        Ok(failover::LEN) if expects(guard, &record) => {
            guard.conn.set_rx(Rx::Back);
            guard.conn.set(flag::KERNEL_SOCKET);
            // It is there, and the only thread that receives is this one.
            if let Ok(n) = call::recv(fd, &mut record, libc::MSG_DONTWAIT) {
                guard.conn.rx_tcp.fetch_add(n as u64, Ordering::AcqRel);
            }
            Stands::OnTcp
        }
        // It begins behind the next byte of the VI's, which is there alone.
        Ok(failover::LEN) => Stands::OnVi,
        _ if super::kernel_socket_has_ended(fd) => Stands::OnVi,
        _ => Stands::Waits,
    }
}

fn over(guard: &Guard<'_>, fd: i32, error: Errno) -> Brought {
    lost(guard, fd, error);
    Brought::Over
}

/// Something is missing: the connection ends with that error here, which is told once, and with a reset at the other end.
#[cold]
pub(super) fn lost(guard: &Guard<'_>, fd: i32, error: Errno) {
    if super::broken_off(guard.conn, fd, error) {
        listeners::tell_all(guard);
    }
}
