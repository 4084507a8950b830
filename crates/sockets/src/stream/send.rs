//! Sends bytes on TCP until the receiver has granted the VI, and then on the VI. On the VI, bytes go in packets
//! while the window has room, and otherwise into the overflow buffer.

use super::hold::look;
use super::kernel_socket::{acknowledge, push};
use super::state::{self, Receiver, Sends};
use super::{
    Fault, Put, backlog, failed, notify_reader, returned, rx, send_control, transfer, tx, word,
};
use super::{combine, ending, listeners, reflected, uncounted};
use crate::Errno;
use crate::conn::{Conn, Guard, HasEndpoint, flag};
use core::ops::RangeInclusive;
use core::sync::atomic::Ordering;
use sovia_proto::order::Next;
use sovia_proto::packet::Kind;
use sovia_proto::path::{CANCELLED, Grant, Rx, Tx};
use sovia_ring::endpoint::OverflowBuffer;
use sovia_ring::ring::INLINE;
use sovia_sys::UserSlice;

/// Lengths of messages, in bytes, after which the sender prefetches the cache lines of later messages. Without the
/// prefetch, the memory fence after each message would wait until the message's cache lines are fetched. For longer
/// messages a prefetch saves nothing.
const CLAIMED: RangeInclusive<usize> = INLINE + 1..=1 << 10;
/// Number of unacknowledged packets above which traffic counts as a stream, and not as requests and replies. With
/// replies, fewer packets are unacknowledged, because each reply carries acknowledgements.
const STREAM: u16 = 4;

/// Sends as many of `bytes` as there is room for on the VI. Returns [`Put::AskKernel`] if the bytes must go on TCP.
#[inline]
pub fn send(guard: &mut Guard<'_>, fd: i32, bytes: UserSlice<'_>) -> Put {
    if let Some(put) = cannot(guard, fd) {
        return put;
    }
    let allowed = backlog::allowed(guard, bytes.len());
    let sent = send_vi_here(guard, bytes.first(allowed));
    finish_send(guard, fd, bytes, sent)
}

/// Converts `sent`, the outcome of a send on the VI, into the call's result. Notifies the peer's reader at once, or
/// later if messages are combined.
#[inline(always)]
pub(super) fn finish_send(
    guard: &mut Guard<'_>,
    fd: i32,
    bytes: UserSlice<'_>,
    sent: Result<usize, Fault>,
) -> Put {
    match sent {
        Ok(0) if !bytes.is_empty() => {
            // Notifies the receiver of combined bytes, because only the receiver can make room by reading them.
            combine::notify_receiver(guard);
            Put::Full
        }
        Ok(n) => {
            if n == bytes.len() && combine::wants(guard, n) {
                guard.traffic.bytes_sent += n as u64;
                combine::wait(guard, n);
            } else {
                count_and_notify(guard, n);
            }
            Put::Bytes(n)
        }
        Err(fault) => Put::Failed(failed(guard.conn, fd, fault)),
    }
}

/// Counts a sent message of `n` bytes, and notifies the peer's reader at once.
#[inline(always)]
pub(super) fn count_and_notify(guard: &mut Guard<'_>, n: usize) {
    guard.traffic.bytes_sent += n as u64;
    guard.unnotified = 0;
    if !guard.endpoint_ref().tx.has_no_listener() {
        notify_reader(guard);
    }
    if CLAIMED.contains(&n) && is_stream(guard) {
        guard.endpoint_ref().tx.claim_ahead(n);
    }
}

/// Counts a sent data packet of `n` bytes.
#[inline(always)]
pub(super) fn posted(guard: &mut Guard<'_>, n: usize) {
    guard.count_sent(1);
    guard.bytes_sent = guard.bytes_sent.wrapping_add(n as u32);
    guard.traffic.messages_sent += 1;
}

/// Returns true if this end sends packets without waiting for replies.
#[inline]
fn is_stream(guard: &Guard<'_>) -> bool {
    guard.flow.unacked() > STREAM && !guard.coalescer.is_coalescing()
}

/// Returns the result of a send that cannot use the VI now; `None` if the send can use the VI.
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
        // The kernel returns the right error. If the receiver has shut both halves of its kernel socket, the kernel
        // resets the connection when a byte is sent on TCP.
        Sends::Over => return Some(Put::AskKernel),
    }
    Some(if returned::holds_back(guard, fd) { Put::Full } else { Put::AskKernel })
}

/// Returns the state of the peer's receiver, from the words that the peer has published in the segment.
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

/// Returns true if this end's sends go over the VI. Does not read the receiver's words, so the receiver may already
/// have shut or left the VI.
#[inline]
pub(crate) fn goes_over_vi(conn: &Conn) -> bool {
    state::sends(conn.flags(), conn.tx(), Receiver::Listens) == Sends::OverVi
}

/// Path for the bytes of the next send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendPath {
    /// The VI, or TCP after the VI's unread bytes. In either case there may be no room now.
    Vi,
    /// TCP: the caller makes the system call.
    Kernel,
    /// None. The send fails with this error.
    Failed(Errno),
}

/// Returns the path of the next send, without sending a byte. Moves the sending direction to the VI if the receiver
/// has granted the VI.
pub(crate) fn way(guard: &mut Guard<'_>, fd: i32) -> SendPath {
    match cannot(guard, fd) {
        Some(Put::AskKernel) => SendPath::Kernel,
        Some(Put::Failed(error)) => SendPath::Failed(error),
        Some(Put::Bytes(_) | Put::Full) | None => SendPath::Vi,
    }
}

/// Returns true if the receiver has shut both halves ([`shut`]).
#[inline]
pub(super) fn has_shut(guard: &Guard<'_>) -> bool {
    tx(guard).path.load(word::SHUT) != 0
}

/// Publishes that this end has shut both halves of the connection and of its kernel socket. The peer's later sends
/// fail.
pub fn shut(guard: &mut Guard<'_>) {
    let shut = reflected::shut_word(guard);
    rx(guard).path.store(word::SHUT, shut);
    // Wakes the peer's threads that sleep until there is room, so that their sends fail.
    listeners::wake_asleep(&rx(guard).room);
    reflected::notify_nic(guard);
}

/// Finds out whether the peer has gone. Returns the error that the send must return, if there is one.
#[cold]
fn asked(guard: &mut Guard<'_>, fd: i32) -> Option<Errno> {
    if guard.conn.has(flag::SHUT_WR) {
        // The kernel does the send, and may take the socket's error. Without the error, the socket does not show that
        // the peer has reset the connection.
        ending::has_gone_by_now(guard, fd);
    } else {
        ending::has_gone(guard, fd);
    }
    ending::send_error(guard.conn)
}

/// Moves the sending direction to the VI if the receiver has granted the VI.
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
    // This end sends no more data on TCP. So no later data would push out bytes that TCP holds back, or would carry
    // acknowledgements for the peer's bytes on TCP.
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
        // The receiver may have revoked the grant before it could see the switch. This end can cancel the switch,
        // because the VI has no bytes yet.
        path.store(word::TAKEN, 1);
        let word = &path.0[word::SWITCH];
        if word.compare_exchange(switch, CANCELLED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            conn.set_tx(Tx::Back);
        }
    }
    backlog::bound(guard);
    notify_reader(guard);
}

pub(super) fn send_vi(guard: &mut Guard<'_>, bytes: UserSlice<'_>) -> Result<usize, Fault> {
    send_vi_here(guard, bytes)
}

/// Like [`send_vi`], but inlined into its caller.
#[inline(always)]
fn send_vi_here(guard: &mut Guard<'_>, bytes: UserSlice<'_>) -> Result<usize, Fault> {
    let mut done = 0;
    match put(guard, bytes, &mut done) {
        // The program's buffer has a bad address. The bytes before this address were sent.
        Err(Fault::BadAddress) if done > 0 => Ok(done),
        result => result.map(|()| done),
    }
}

/// Sends as many of `bytes` as there is room for on the VI. Adds the length of each sent chunk to `done`.
#[inline(always)]
fn put(guard: &mut Guard<'_>, bytes: UserSlice<'_>, done: &mut usize) -> Result<(), Fault> {
    if guard.coalescer.is_coalescing() {
        let taken = tx(guard).reader.load(word::HEAD);
        if guard.coalescer.next(taken) == Next::Coalesce {
            return coalesce(guard, bytes, done);
        }
    }
    if combine::wants(guard, bytes.len()) {
        return coalesce(guard, bytes, done);
    }
    let most = guard.protocol.chunk as usize;
    while *done < bytes.len() {
        if !guard.flow.can_send() {
            look(guard)?;
            if !guard.flow.can_send() {
                return coalesce(guard, bytes, done);
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
                return coalesce(guard, bytes, done);
            }
            Err(unsent) => {
                guard.flow.unsend(packet);
                return Err(unsent.into());
            }
        }
        posted(guard, chunk.len());
        *done += chunk.len();
        if *done < bytes.len() {
            // Notifies the receiver after each chunk, so that the receiver copies this chunk while this end copies
            // the next chunk.
            notify_reader(guard);
        }
    }
    Ok(())
}

/// Appends `bytes` to the overflow buffer, as far as there is room. Skips the first `sent` bytes, which have been
/// sent, and increases `sent`.
fn coalesce(guard: &mut Guard<'_>, bytes: UserSlice<'_>, sent: &mut usize) -> Result<(), Fault> {
    let bytes = bytes.skip(*sent);
    let mut coalescer = guard.coalescer;
    if !coalescer.is_coalescing() {
        // The overflow buffer is empty. Starts again at the beginning of the buffer, which is most likely in the
        // cache.
        guard.own.after = u64::from(coalescer.packets);
        guard.own.start = coalescer.tail;
        let line = &tx(guard).writer;
        line.0[word::AFTER].store(guard.own.after, Ordering::Relaxed);
        line.0[word::START].store(guard.own.start, Ordering::Relaxed);
    }
    let start = guard.own.start;
    let coalesced = coalescer.tail.wrapping_sub(start);
    let total = backlog::room(guard, coalesced, coalescer.waiting(), bytes.len());
    let mut done = 0;
    while done < total {
        let at = (coalescer.tail.wrapping_sub(start) % OverflowBuffer::LEN as u64) as usize;
        // Publishes chunk by chunk, so that the receiver copies one chunk while this end copies the next chunk.
        let n = (total - done).min(OverflowBuffer::LEN - at).min(guard.protocol.chunk as usize);
        if !guard.endpoint_ref().tx.overflow_buffer().write(at, bytes.skip(done).first(n)) {
            // The written range lies within the overflow buffer, so the bad address lies in the program's buffer.
            return Err(Fault::BadAddress);
        }
        coalescer.tail += n as u64;
        tx(guard).writer.store(word::TAIL, coalescer.tail);
        guard.coalescer = coalescer;
        guard.traffic.messages_sent += u64::from(done == 0);
        done += n;
        *sent += n;
    }
    Ok(())
}

/// Ends the sending half. Sends a FIN packet if the sending direction is on the VI. The caller must also shut down
/// the kernel socket.
pub fn finish(guard: &mut Guard<'_>, fd: i32) {
    let conn = guard.conn;
    returned::refuse_or_drain(guard, fd);
    if conn.tx() == Tx::Vi && !conn.has(flag::CORRUPT) && guard.closing.send_fin() {
        // Stored before the FIN packet is sent: a thread of the peer that the packet wakes must already find this
        // word.
        tx(guard).writer.store(word::FIN, word::FIN_ON_VI);
        send_control(guard, Kind::Fin);
        notify_reader(guard);
    } else if conn.tx() != Tx::Vi && tx(guard).writer.load(word::FIN) == 0 {
        tx(guard).writer.store(word::FIN, word::FIN_ON_TCP);
        reflected::notify_nic(guard);
    }
}

/// Publishes that this end closes the connection. After this, the peer's sends go to the kernel, which returns the
/// error.
pub fn leave(guard: &mut Guard<'_>) {
    super::entering::publish_grant(guard, word::LEFT);
}
