//! Sending: to TCP until the receiver has granted the VI, then over the VI, in packets while the
//! window allows, and beyond it by gathering.

use super::hold::look;
use super::kernel_socket::{acknowledge, push};
use super::state::{self, Receiver, Sends};
use super::{
    Fault, Put, backlog, failed, returned, rx, send_control, tell_reader, transfer, tx, word,
};
use super::{combine, ending, listeners, reflected, uncounted};
use crate::Errno;
use crate::conn::{Conn, Guard, HasEndpoint, flag};
use core::ops::RangeInclusive;
use core::sync::atomic::Ordering;
use sovia_proto::order::Next;
use sovia_proto::packet::Kind;
use sovia_proto::path::{CANCELLED, Grant, Rx, Tx};
use sovia_sys::UserSlice;
use via_shm::endpoint::Area;
use via_shm::ring::INLINE;

/// Lengths of messages for whose successors the lines are fetched. Their fences would wait for the
/// lines of one message at a time; larger messages have enough lines to fetch by themselves.
const CLAIMED: RangeInclusive<usize> = INLINE + 1..=1 << 10;
/// More packets than this that are not acknowledged make a stream: an answer carries what is owed.
const STREAM: u16 = 4;

/// Sends as many of `bytes` as there is room for.
#[inline]
pub fn send(guard: &mut Guard<'_>, fd: i32, bytes: UserSlice<'_>) -> Put {
    if let Some(put) = cannot(guard, fd) {
        return put;
    }
    let allowed = backlog::allowed(guard, bytes.len());
    let sent = send_vi_here(guard, bytes.first(allowed));
    said(guard, fd, bytes, sent)
}

/// What comes of a send on the VI.
#[inline(always)]
pub(super) fn said(
    guard: &mut Guard<'_>,
    fd: i32,
    bytes: UserSlice<'_>,
    sent: Result<usize, Fault>,
) -> Put {
    match sent {
        Ok(0) if !bytes.is_empty() => {
            // Room comes only from a receiver that has been told.
            combine::tell(guard);
            Put::Full
        }
        Ok(n) => {
            if n == bytes.len() && combine::wants(guard, n) {
                guard.traffic.bytes_sent += n as u64;
                combine::wait(guard, n);
            } else {
                is_told(guard, n);
            }
            Put::Bytes(n)
        }
        Err(fault) => Put::Failed(failed(guard.conn, fd, fault)),
    }
}

/// A message of `n` bytes has been sent, of which the reader is told now.
#[inline(always)]
pub(super) fn is_told(guard: &mut Guard<'_>, n: usize) {
    guard.traffic.bytes_sent += n as u64;
    guard.untold = 0;
    if !guard.endpoint_ref().tx.has_no_listener() {
        tell_reader(guard);
    }
    if CLAIMED.contains(&n) && is_stream(guard) {
        guard.endpoint_ref().tx.claim_ahead(n);
    }
}

/// A packet of `n` bytes has been posted.
#[inline(always)]
pub(super) fn posted(guard: &mut Guard<'_>, n: usize) {
    guard.count_sent(1);
    guard.bytes_sent = guard.bytes_sent.wrapping_add(n as u32);
    guard.traffic.messages_sent += 1;
}

/// Whether packet goes after packet, without an answer in between.
#[inline]
fn is_stream(guard: &Guard<'_>) -> bool {
    guard.flow.unacked() > STREAM && !guard.gatherer.is_gathering()
}

/// Why a send cannot go over the VI now, if it cannot.
#[inline(always)]
pub(super) fn cannot(guard: &mut Guard<'_>, fd: i32) -> Option<Put> {
    let conn = guard.conn;
    if conn.tx() == Tx::Tcp {
        switch(guard, fd);
    }
    let mut flags = conn.flags() & state::SENDS;
    if flags != 0 {
        if let Some(error) = asked(guard, fd) {
            return Some(Put::Failed(error));
        }
        flags = conn.flags();
    }
    match state::sends(flags, conn.tx(), receiver(guard)) {
        Sends::OverVi => return None,
        Sends::Revoked => returned::revoked(guard),
        Sends::OnTcp => {}
        Sends::Left => {
            conn.set(flag::PEER_GONE);
            return Some(Put::AskKernel);
        }
        // If the receiver has shut both halves, the kernel socket is shut, too: what the kernel is given there it resets the
        // connection for.
        Sends::Over => return Some(Put::AskKernel),
    }
    Some(if returned::holds_back(guard, fd) { Put::Full } else { Put::AskKernel })
}

/// What the receiver of the direction says in the segment.
#[inline]
pub(super) fn receiver(guard: &Guard<'_>) -> Receiver {
    if has_shut(guard) {
        return Receiver::HasShut;
    }
    match tx(guard).path.load(word::GRANT) {
        word::LEFT => Receiver::HasLeft,
        grant if Grant::from_word(grant) == Grant::Revoked => Receiver::Revokes,
        _ => Receiver::Listens,
    }
}

/// Whether the program's sends go over the VI, as far as this end knows: the receiver's words are not looked at.
#[inline]
pub(crate) fn goes_over_vi(conn: &Conn) -> bool {
    state::sends(conn.flags(), conn.tx(), Receiver::Listens) == Sends::OverVi
}

/// Which way the bytes of a send go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Over the VI, or after what must go before them: there may be no room now.
    Vi,
    /// The kernel is to be asked.
    Kernel,
    /// None: an error for the program.
    Failed(Errno),
}

/// Which way the next send goes. Nothing is sent; the direction is moved to the VI if it may be.
pub(crate) fn way(guard: &mut Guard<'_>, fd: i32) -> Way {
    match cannot(guard, fd) {
        Some(Put::AskKernel) => Way::Kernel,
        Some(Put::Failed(error)) => Way::Failed(error),
        Some(Put::Bytes(_) | Put::Full) | None => Way::Vi,
    }
}

/// Whether the receiver has shut both halves ([`shut`]).
#[inline]
pub(super) fn has_shut(guard: &Guard<'_>) -> bool {
    tx(guard).path.load(word::SHUT) != 0
}

/// This end has shut both halves, of the kernel socket as well: nothing that the peer sends is welcome.
pub fn shut(guard: &mut Guard<'_>) {
    let shut = reflected::shut_word(guard);
    rx(guard).path.store(word::SHUT, shut);
    // Wakes threads that wait for room. Others have been notified of the end.
    listeners::wake_asleep(&rx(guard).room);
    reflected::tell_nic(guard);
}

/// Finds out whether the peer has gone; the error that the send then returns, if there is one.
#[cold]
fn asked(guard: &mut Guard<'_>, fd: i32) -> Option<Errno> {
    ending::has_gone(guard, fd);
    ending::send_error(guard.conn)
}

/// Moves the sending direction to the VI if the receiver has granted it.
pub(super) fn switch(guard: &mut Guard<'_>, fd: i32) {
    let conn = guard.conn;
    if Grant::from_word(tx(guard).path.load(word::GRANT)) != Grant::Granted
        || conn.has(flag::SHUT_WR | flag::FALLING_BACK | flag::CORRUPT)
    {
        return;
    }
    conn.set_tx(Tx::Vi);
    core::sync::atomic::fence(Ordering::SeqCst);
    if !conn.tx_pins.is_empty() || !uncounted::is_sent_counted(conn, fd) {
        conn.set_tx(Tx::Tcp);
        return;
    }
    // From here on no data of this end follows on TCP that would push what is held back there, or
    // carry the acknowledgement of what the peer has sent there.
    push(fd);
    if conn.rx() != Rx::Vi {
        acknowledge(fd);
    }
    let sent = conn.tx_tcp.load(Ordering::Acquire);
    let switch = sovia_proto::path::switch_word(sent);
    (guard.own.from, guard.own.switch) = (sent, switch);
    let path = &tx(guard).path;
    path.store(word::FROM, sent);
    path.store(word::SWITCH, switch);
    core::sync::atomic::fence(Ordering::SeqCst);
    let grant = Grant::from_word(path.load(word::GRANT));
    if !sovia_proto::path::keeps_switch(grant) {
        // The receiver may have looked before the switch was there. Nothing is on the VI yet.
        path.store(word::TAKEN, 1);
        let word = &path.0[word::SWITCH];
        if word.compare_exchange(switch, CANCELLED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            conn.set_tx(Tx::Back);
        }
    }
    backlog::bound(guard);
    tell_reader(guard);
}

pub(super) fn send_vi(guard: &mut Guard<'_>, bytes: UserSlice<'_>) -> Result<usize, Fault> {
    send_vi_here(guard, bytes)
}

/// The same, in its caller.
#[inline(always)]
fn send_vi_here(guard: &mut Guard<'_>, bytes: UserSlice<'_>) -> Result<usize, Fault> {
    let mut done = 0;
    match put(guard, bytes, &mut done) {
        // What came before the bad address has been sent.
        Err(Fault::BadAddress) if done > 0 => Ok(done),
        result => result.map(|()| done),
    }
}

/// Sends as many of `bytes` as there is room for, and counts them in `done` one by one.
#[inline(always)]
fn put(guard: &mut Guard<'_>, bytes: UserSlice<'_>, done: &mut usize) -> Result<(), Fault> {
    if guard.gatherer.is_gathering() {
        let taken = tx(guard).reader.load(word::HEAD);
        if guard.gatherer.next(taken) == Next::Gather {
            return gather(guard, bytes, done);
        }
    }
    if combine::wants(guard, bytes.len()) {
        return gather(guard, bytes, done);
    }
    let most = guard.protocol.chunk as usize;
    while *done < bytes.len() {
        if !guard.flow.can_send() {
            look(guard)?;
            if !guard.flow.can_send() {
                return gather(guard, bytes, done);
            }
        }
        let left = bytes.skip(*done);
        let chunk = left.first(left.len().min(most));
        let packet = guard.flow.send(Kind::Data);
        match transfer::post(guard, packet.encode(), chunk) {
            Ok(true) => {}
            Ok(false) => {
                guard.flow.unsend(packet);
                if backlog::more_pool(guard) {
                    continue;
                }
                return gather(guard, bytes, done);
            }
            Err(unsent) => {
                guard.flow.unsend(packet);
                return Err(unsent.into());
            }
        }
        posted(guard, chunk.len());
        *done += chunk.len();
        if *done < bytes.len() {
            // The receiver copies the first chunk while we copy the next.
            tell_reader(guard);
        }
    }
    Ok(())
}

/// Puts what is left of `bytes` where the receiver takes it by itself.
fn gather(guard: &mut Guard<'_>, bytes: UserSlice<'_>, sent: &mut usize) -> Result<(), Fault> {
    let bytes = bytes.skip(*sent);
    let mut gatherer = guard.gatherer;
    if !gatherer.is_gathering() {
        // A new gathering starts at the area's beginning, where the cache is warm.
        guard.own.after = u64::from(gatherer.packets);
        guard.own.start = gatherer.tail;
        let line = &tx(guard).writer;
        line.0[word::AFTER].store(guard.own.after, Ordering::Relaxed);
        line.0[word::START].store(guard.own.start, Ordering::Relaxed);
    }
    let start = guard.own.start;
    let gathered = gatherer.tail.wrapping_sub(start);
    let total = backlog::room(guard, gathered, gatherer.waiting(), bytes.len());
    let mut done = 0;
    while done < total {
        let at = (gatherer.tail.wrapping_sub(start) % Area::LEN as u64) as usize;
        // In steps, so that the receiver copies one while we copy the next.
        let n = (total - done).min(Area::LEN - at).min(guard.protocol.chunk as usize);
        if !guard.endpoint_ref().tx.area().write(at, bytes.skip(done).first(n)) {
            // The place is within the area: it is the program's bytes that are not there.
            return Err(Fault::BadAddress);
        }
        gatherer.tail += n as u64;
        tx(guard).writer.store(word::TAIL, gatherer.tail);
        guard.gatherer = gatherer;
        guard.traffic.messages_sent += u64::from(done == 0);
        done += n;
        *sent += n;
    }
    Ok(())
}

/// Ends the sending side: FIN, if the stream runs on the VI. The caller shuts the kernel socket, too.
pub fn finish(guard: &mut Guard<'_>, fd: i32) {
    let conn = guard.conn;
    returned::refuse_or_drain(guard, fd);
    if conn.tx() == Tx::Vi && !conn.has(flag::CORRUPT) && guard.closing.send_fin() {
        // Before the packet: a thread that is woken for that finds the end announced.
        tx(guard).writer.store(word::FIN, word::FIN_ON_VI);
        send_control(guard, Kind::Fin);
        tell_reader(guard);
    } else if conn.tx() != Tx::Vi && tx(guard).writer.load(word::FIN) == 0 {
        tx(guard).writer.store(word::FIN, word::FIN_ON_TCP);
        reflected::tell_nic(guard);
    }
}

/// This end closes: the peer's sends have only the kernel to go to from here on.
pub fn leave(guard: &mut Guard<'_>) {
    super::entering::say_grant(guard, word::LEFT);
}
