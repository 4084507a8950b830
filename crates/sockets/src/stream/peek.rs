//! Looks at unread bytes without consuming them.

use super::entering::{claim, grant, switched};
use super::hold::{copy_held, kind_of, look};
use super::kernel_socket::acknowledge;
use super::receive::{at_fin, idle};
use super::take::{is_ending, is_returning};
use super::tcp_end::{limit_on_tcp, tcp_gave_nothing};
use super::undelivered::unread_packets;
use super::{Fault, Got, corrupt, failed, failover, handler_queue, reflected, rx, word};
use crate::conn::{Guard, HELD, HasEndpoint, flag};
use crate::{Errno, errno};
use core::ops::ControlFlow;
use core::sync::atomic::Ordering;
use sovia_proto::packet::{Immediate, Kind};
use sovia_proto::path::{self, Rx, Source, Tx};
use sovia_ring::endpoint::OverflowBuffer;
use sovia_sys::{UserSliceMut, call};

/// Copies unread bytes without consuming them (`MSG_PEEK`).
pub fn peek(guard: &mut Guard<'_>, fd: i32, out: UserSliceMut<'_>) -> Got {
    if out.is_empty() {
        return peek_nothing(guard, fd);
    }
    if let Some(got) = reflected::instead(guard) {
        return got;
    }
    loop {
        let got = if guard.conn.rx() == Rx::Vi && !failover::leaves_vi(guard) {
            peek_at_vi(guard, fd, out)
        } else {
            peek_tcp(guard, fd, out)
        };
        if let Some(got) = got {
            return got;
        }
    }
}

/// Returns the result of a receive into an empty buffer: 0 bytes once bytes have arrived, or the connection's
/// error.
pub(super) fn peek_nothing(guard: &mut Guard<'_>, fd: i32) -> Got {
    match peek(guard, fd, (&mut [0; 1][..]).into()) {
        Got::Bytes(_) => Got::Bytes(0),
        got => got,
    }
}

/// Copies unread bytes of the VI. Returns `None` if the direction has moved back to TCP.
fn peek_at_vi(guard: &mut Guard<'_>, fd: i32, out: UserSliceMut<'_>) -> Option<Got> {
    let conn = guard.conn;
    Some(match peek_vi(guard, out) {
        // No data is unread, but a packet without data is held: the peer's FIN, or ToTcp after which the peer sends
        // on TCP.
        Ok(0) if guard.held_first != guard.held_end => return peek_left(guard, fd, out),
        Ok(0) => match idle(guard, fd, true) {
            Got::Bytes(_) => return peek_left(guard, fd, out),
            got => got,
        },
        Ok(n) => Got::Bytes(n + peek_after_way_back(guard, fd, out.skip(n))),
        Err(fault) => Got::Failed(failed(conn, fd, fault)),
    })
}

/// Copies bytes of the VI that come after the sender's switch, if all bytes before the switch were copied (`left`
/// is 0). Returns the number of bytes. Otherwise a program that peeks until it sees enough bytes would see the same
/// bytes forever.
fn peek_behind_switch(guard: &mut Guard<'_>, left: usize, out: UserSliceMut<'_>) -> usize {
    let switch = switched(guard);
    if left != 0 || out.is_empty() || switch == 0 || !reflected::goes_on_behind_switch(guard) {
        return 0;
    }
    // This end has requested that the sender put the bytes of the VI on TCP. Until the sender answers, no receive
    // may take these bytes.
    if guard.conn.has(flag::RETURNING) {
        return 0;
    }
    // Claims the switch, so that the sender cannot cancel it and move the bytes to TCP after the program has seen
    // them.
    match claim(guard, switch) {
        Ok(true) => {
            // Queues messages that the handler thread has not queued yet, because FIONREAD counts such messages as
            // well.
            handler_queue::handle(guard);
            peek_vi(guard, out).unwrap_or(0)
        }
        _ => 0,
    }
}

/// Copies unread bytes of TCP after all unread bytes of the VI were copied, if the peer has moved back to TCP.
/// Returns the number of bytes.
fn peek_after_way_back(guard: &Guard<'_>, fd: i32, out: UserSliceMut<'_>) -> usize {
    if out.is_empty() || !goes_on_on_tcp(guard) {
        return 0;
    }
    call::recv(fd, out, libc::MSG_DONTWAIT | libc::MSG_PEEK).unwrap_or(0)
}

/// Returns true if the stream continues on TCP after the unread bytes on the VI.
fn goes_on_on_tcp(guard: &Guard<'_>) -> bool {
    unread_packets(guard).any(|held| held.kind == Kind::ToTcp as u8)
}

/// Copies unread bytes of TCP. Returns `None` if TCP has been read up to the switch, so that the direction has
/// moved to the VI.
fn peek_tcp(guard: &mut Guard<'_>, fd: i32, out: UserSliceMut<'_>) -> Option<Got> {
    let conn = guard.conn;
    grant(guard, fd);
    let limit = match limit_on_tcp(guard, fd) {
        ControlFlow::Continue(limit) => limit,
        ControlFlow::Break(got) => return got,
    };
    let here = limit.min(out.len());
    conn.clear(flag::KERNEL_SOCKET);
    // Copies no bytes after the switch: such bytes on TCP are newer than the bytes on the VI.
    let result = call::recv(fd, out.first(here), libc::MSG_DONTWAIT | libc::MSG_PEEK);
    if result != Err(call::Errno::EAGAIN) {
        conn.set(flag::KERNEL_SOCKET);
    }
    if let Ok(n @ 1..) = result {
        if conn.tx() == Tx::Vi {
            // The program may peek again until more bytes arrive. The peer's TCP may hold back these bytes until it
            // gets an acknowledgement.
            acknowledge(fd);
        }
        return Some(Got::Bytes(n + peek_behind_switch(guard, limit - n, out.skip(n))));
    }
    tcp_gave_nothing(guard, fd, result)
}

/// Looks at the VI again, after the peer has gone or ended. The peer's last bytes may have arrived after the first
/// look, or the handler thread may not have queued them then.
#[cold]
fn peek_left(guard: &mut Guard<'_>, fd: i32, out: UserSliceMut<'_>) -> Option<Got> {
    if is_returning(guard) {
        return None;
    }
    Some(match peek_vi(guard, out) {
        Ok(0) if is_ending(guard) => at_fin(guard.conn, fd),
        Ok(0) => Got::Nothing,
        Ok(n) => Got::Bytes(n),
        Err(fault) => Got::Failed(failed(guard.conn, fd, fault)),
    })
}

fn peek_vi(guard: &mut Guard<'_>, out: UserSliceMut<'_>) -> Result<usize, Fault> {
    look(guard)?;
    let direction = rx(guard);
    let tail = direction.writer.load(word::TAIL);
    let after = direction.writer.load(word::AFTER) as u32;
    let mut done = 0;
    let mut from = guard.front as usize;
    let mut packets = guard.taker.packets;
    let mut n = guard.held_first;
    let coalesced = tail.wrapping_sub(guard.taker.head);
    if coalesced > OverflowBuffer::LEN as u64 {
        return Err(Fault::Corrupt);
    }
    let mut coalesced_done = coalesced == 0;
    while done < out.len() {
        if !coalesced_done && packets == after {
            let start = direction.writer.load(word::START);
            let mut head = guard.taker.head;
            while done < out.len() && head != tail {
                let at = (head.wrapping_sub(start) % OverflowBuffer::LEN as u64) as usize;
                let len =
                    ((tail - head) as usize).min(out.len() - done).min(OverflowBuffer::LEN - at);
                if !guard.endpoint_ref().rx.overflow_buffer().read(at, out.skip(done).first(len)) {
                    return if done > 0 { Ok(done) } else { Err(Fault::BadAddress) };
                }
                done += len;
                head += len as u64;
            }
            coalesced_done = true;
            continue;
        }
        if n == guard.held_end {
            break;
        }
        let held = guard.held[n as usize % HELD];
        if kind_of(held.kind) != Some(Kind::Data) {
            break;
        }
        let len = (held.len as usize).saturating_sub(from).min(out.len() - done);
        match copy_held(guard, &held, from, out.skip(done).first(len)) {
            Err(_) if done > 0 => return Ok(done),
            result => result?,
        }
        done += len;
        from = 0;
        n = n.wrapping_add(1);
        packets = packets.wrapping_add(1);
    }
    Ok(done)
}

/// Returns the number of bytes that one receive with a large buffer would return. Bytes after the sender's switch
/// count only if all bytes before the switch have arrived on TCP. If a NIC is between the two ends, the NIC must
/// also have confirmed this end's claim of the switch. This function requests the claim.
pub fn receivable(guard: &mut Guard<'_>, fd: i32) -> Result<usize, Errno> {
    is_returning(guard);
    if guard.conn.rx() == Rx::Granted {
        let switch = switched(guard);
        let before = match path::source(switch, guard.conn.rx_tcp.load(Ordering::Acquire)) {
            Source::TcpUpTo(n) => usize::try_from(n).unwrap_or(usize::MAX),
            _ => 0,
        };
        let tcp = call::bytes_unread(fd).map_err(errno)?;
        if switch == 0 {
            // If the sender switches at this moment, the next call counts the bytes after the switch.
            return Ok(tcp);
        }
        if !reflected::goes_on_behind_switch(guard) || tcp < before {
            return Ok(tcp.min(before));
        }
    }
    unread(guard, fd)
}

/// Returns the number of bytes that have arrived and are unread.
pub fn unread(guard: &mut Guard<'_>, fd: i32) -> Result<usize, Errno> {
    is_returning(guard);
    if guard.conn.rx() != Rx::Vi {
        // Removes a failover record and repeated bytes from TCP, because the program must not count them.
        failover::bring(guard, fd);
        let tcp = failover::of_program(guard, call::bytes_unread(fd).map_err(errno)?);
        if guard.conn.rx() != Rx::Granted || switched(guard) == 0 {
            return Ok(tcp);
        }
        // Also counts the bytes on the VI after the switch. Does not claim the switch, so the sender may still
        // cancel it and move these bytes to TCP.
        let coalesced = rx(guard).writer.load(word::TAIL).min(OverflowBuffer::LEN as u64) as usize;
        let queued = guard.endpoint_ref().rx.queued(is_data);
        return Ok(tcp + held_bytes(guard) + queued + coalesced);
    }
    // Queues messages that the handler thread has not queued yet, so that `poll` and epoll report the bytes that
    // this call counts.
    handler_queue::handle(guard);
    if look(guard).is_err() {
        return Err(corrupt(guard.conn, fd));
    }
    let sum = held_bytes(guard);
    let coalesced = rx(guard).writer.load(word::TAIL).wrapping_sub(guard.taker.head);
    // Also counts bytes on TCP if the sender has moved back to TCP after the bytes on the VI.
    let on_tcp = if goes_on_on_tcp(guard) { call::bytes_unread(fd).map_err(errno)? } else { 0 };
    Ok(sum - (guard.front as usize).min(sum)
        + coalesced.min(OverflowBuffer::LEN as u64) as usize
        + on_tcp)
}

/// Returns the number of bytes in held data packets, including bytes of the first packet that the program has read.
fn held_bytes(guard: &Guard<'_>) -> usize {
    let of_data = unread_packets(guard).filter(|held| held.kind == Kind::Data as u8);
    of_data.map(|held| held.len as usize).sum()
}

fn is_data(immediate: u32) -> bool {
    Immediate::decode(immediate).is_ok_and(|packet| packet.kind == Kind::Data)
}
