//! Receiving: from TCP up to the switch, then from the VI.

use super::anchor::{acknowledge, anchor_has_ended};
use super::entering::{Origin, grant, next_from};
use super::hold::scan;
use super::state::{self, Receives};
use super::take::{has_kept, is_ending, receive_vi, receive_vi_here};
use super::{Fault, Got, damaged, failed, rx, word};
use super::{combine, ending, reflected, uncounted};
use crate::conn::{Conn, Guard, HasEndpoint, flag};
use crate::errno;
use core::ops::ControlFlow;
use core::sync::atomic::Ordering;
use sovia_proto::path::{self, Rx, Tx};
use sovia_sys::{cache, call};
use via_shm::endpoint::Bulk;

/// Receives into `out` whatever is there. Grants the VI to the sender if the connection has one:
/// the caller is the program itself, reading.
#[inline(always)]
pub fn receive(guard: &mut Guard<'_>, fd: i32, out: &mut [u8]) -> Got {
    if !out.is_empty() && finds_nothing(guard) {
        cache::look_in_turn();
        return Got::Nothing;
    }
    receive_some(guard, fd, out)
}

/// Whether there is plainly nothing, on a connection of which nothing else is to be known: the most frequent answer
/// to a program that looks all the time.
#[inline(always)]
fn finds_nothing(guard: &Guard<'_>) -> bool {
    const UNUSUAL: u32 = state::RECEIVES | flag::WITHHELD | flag::HANDLED;
    guard.endpoint_ref().rx.awaits_message()
        && guard.conn.rx() == Rx::Vi
        && !guard.conn.has(UNUSUAL)
        && guard.untold == 0
        && guard.held_first == guard.held_end
        && rx(guard).writer.load(word::TAIL) == guard.taker.head
}

fn receive_some(guard: &mut Guard<'_>, fd: i32, out: &mut [u8]) -> Got {
    let got = receive_what_is_there(guard, fd, out);
    if guard.conn.has(flag::WITHHELD) {
        ending::come_close(guard, fd);
    }
    got
}

#[inline(always)]
fn receive_what_is_there(guard: &mut Guard<'_>, fd: i32, out: &mut [u8]) -> Got {
    let conn = guard.conn;
    combine::tell(guard);
    if out.is_empty() {
        grant(guard, fd);
        return if super::readable(guard, fd) { Got::Bytes(0) } else { Got::Nothing };
    }
    if let Some(got) = reflected::instead(guard) {
        return got;
    }
    if conn.rx() == Rx::Vi {
        match receive_vi_here(guard, out) {
            Ok(0) => {}
            Ok(n) if n < out.len() && conn.rx() != Rx::Vi => {
                return Got::Bytes(n + receive_after_way_back(guard, fd, &mut out[n..]));
            }
            Ok(n) => return Got::Bytes(n),
            Err(fault) => return Got::Failed(failed(conn, fd, fault)),
        }
    }
    receive_elsewhere(guard, fd, out)
}

/// Goes on on TCP, where the peer has gone back to after what has just been received; how many bytes. Only for bytes: an
/// end or an error is the next call's.
#[cold]
#[inline(never)]
fn receive_after_way_back(guard: &mut Guard<'_>, fd: i32, out: &mut [u8]) -> usize {
    if !call::bytes_unread(fd).is_ok_and(|n| n > 0) {
        return 0;
    }
    match receive_tcp(guard, fd, out) {
        Some(Got::Bytes(n)) => n,
        _ => 0,
    }
}

/// Receives where the VI has nothing, or the direction is not on it. Apart, for its stack is not that of every receive.
#[inline(never)]
fn receive_elsewhere(guard: &mut Guard<'_>, fd: i32, out: &mut [u8]) -> Got {
    let conn = guard.conn;
    loop {
        if conn.rx() == Rx::Vi {
            match idle(guard, fd, true) {
                Got::Bytes(_) => {}
                got => return got,
            }
            match receive_on_vi(guard, fd, out) {
                None if conn.rx() != Rx::Vi => {}
                None if is_ending(guard) => return Got::End,
                None => return Got::Nothing,
                Some(got) => return got,
            }
        }
        if conn.has(flag::DAMAGED) {
            return Got::Failed(libc::ECONNRESET);
        }
        if let Some(got) = receive_tcp(guard, fd, out) {
            return got;
        }
        if let Some(got) = receive_on_vi(guard, fd, out) {
            return got;
        }
    }
}

/// Receives from the VI; `None` if that gives nothing.
fn receive_on_vi(guard: &mut Guard<'_>, fd: i32, out: &mut [u8]) -> Option<Got> {
    match receive_vi(guard, out) {
        Ok(0) => None,
        Ok(n) => Some(Got::Bytes(n)),
        Err(fault) => Some(Got::Failed(failed(guard.conn, fd, fault))),
    }
}

/// What a VI that has nothing comes to: no bytes yet ([`Got::Nothing`]), the end, an error, or `Bytes(0)` if there is
/// something after all. `takes`: the program is told of it, and so of an error that is told once.
pub(super) fn idle(guard: &mut Guard<'_>, fd: i32, takes: bool) -> Got {
    let conn = guard.conn;
    match state::receives(conn.flags(), false) {
        Receives::Waits => return Got::Nothing,
        Receives::End => return Got::End,
        Receives::Fails => return Got::Failed(libc::ECONNRESET),
        Receives::Asks | Receives::Gone => {}
    }
    let gone = match conn.has(flag::SHUT_RD) {
        // An error comes before the end that this end has made itself.
        true => ending::has_gone_by_now(guard, fd),
        false => ending::has_gone(guard, fd),
    };
    // Whatever the peer put on the VI before it left is seen by now.
    if (gone || conn.has(flag::ANCHOR)) && scan(guard).is_err() {
        return Got::Failed(damaged(conn, fd));
    }
    if has_kept(guard) {
        return Got::Bytes(0);
    }
    match state::receives(conn.flags(), true) {
        Receives::Gone if takes => match end(conn, fd) {
            Got::Nothing if conn.has(flag::SHUT_RD) => Got::End,
            found => found,
        },
        Receives::Gone | Receives::End => Got::End,
        Receives::Fails => Got::Failed(libc::ECONNRESET),
        Receives::Asks | Receives::Waits => Got::Nothing,
    }
}

/// The end of a stream whose peer has gone, after all that it had sent: an error, once, or end of file.
pub(super) fn end(conn: &Conn, fd: i32) -> Got {
    if let Some(error) = ending::receive_error(conn) {
        return Got::Failed(error);
    }
    match anchor(fd) {
        // Its FIN is still to come.
        Got::Nothing if conn.has(flag::DEAD) => Got::End,
        got => got,
    }
}

/// The kernel's verdict on an anchor that has ended.
fn anchor(fd: i32) -> Got {
    let mut byte = [0u8; 1];
    match call::recv(fd, &mut byte, libc::MSG_PEEK | libc::MSG_DONTWAIT) {
        Ok(_) => Got::End,
        Err(call::Errno::EAGAIN) => Got::Nothing,
        Err(e) => Got::Failed(errno(e)),
    }
}

/// Bytes that may be read of TCP; else what a look at TCP has found, with `None` if the direction has gone over to
/// the VI.
pub(super) fn limit_on_tcp(guard: &mut Guard<'_>, fd: i32) -> ControlFlow<Option<Got>, usize> {
    let conn = guard.conn;
    ControlFlow::Break(match next_from(guard) {
        Ok(Origin::Tcp(limit)) => return ControlFlow::Continue(limit),
        Ok(Origin::Vi) => None,
        Ok(Origin::Nowhere) if conn.has(flag::SHUT_RD) => Some(Got::End),
        Ok(Origin::Nowhere) => Some(Got::Nothing),
        Err(fault) => Some(Got::Failed(failed(conn, fd, fault))),
    })
}

/// Receives from TCP; `None` if the direction has gone over to the VI.
fn receive_tcp(guard: &mut Guard<'_>, fd: i32, out: &mut [u8]) -> Option<Got> {
    let conn = guard.conn;
    grant(guard, fd);
    let limit = match limit_on_tcp(guard, fd) {
        ControlFlow::Continue(limit) => limit.min(out.len()),
        ControlFlow::Break(got) => return got,
    };
    conn.clear(flag::ANCHOR);
    let got = match call::recv(fd, &mut out[..limit], libc::MSG_DONTWAIT) {
        Ok(0) if limit == 0 => Got::Bytes(0),
        Ok(n) if n > 0 => {
            conn.set(flag::ANCHOR);
            conn.rx_tcp.fetch_add(n as u64, Ordering::AcqRel);
            if conn.tx() == Tx::Vi {
                acknowledge(fd);
            }
            // At the switch the rest comes from the VI in the same call. A fault is the next call's.
            let is_at_switch = n < out.len() && matches!(next_from(guard), Ok(Origin::Vi));
            let more = if is_at_switch { receive_vi(guard, &mut out[n..]) } else { Ok(0) };
            Got::Bytes(n + more.unwrap_or(0))
        }
        // Nothing more on TCP, now or ever. The switch may have been made, and the connection
        // even closed, after the switch was looked at: what is on the VI comes first.
        other => {
            let from = if other == Err(call::Errno::EAGAIN) {
                next_from(guard)
            } else {
                // First: the switch that is seen after it is the sender's last word.
                let is_all = reflected::tcp_tells_the_end(guard);
                match next_from(guard) {
                    Ok(Origin::Tcp(_)) if !is_all => return Some(Got::Nothing),
                    from => {
                        conn.set(flag::ANCHOR);
                        let from = from.and_then(|from| rescue(guard, fd, from));
                        from.and_then(|from| up_to_the_switch(guard, fd, from))
                    }
                }
            };
            match (from, other) {
                (Ok(Origin::Vi), _) => return None,
                (Ok(Origin::Nowhere), _) => Got::Nothing,
                (Err(fault), _) => Got::Failed(failed(conn, fd, fault)),
                (_, Ok(_)) => {
                    // Of bytes that it left unread on the VI the kernel knows nothing.
                    ending::has_gone(guard, fd);
                    ending::receive_error(conn).map_or(Got::End, Got::Failed)
                }
                (_, Err(call::Errno::EAGAIN)) => Got::Nothing,
                (_, Err(e)) => Got::Failed(errno(e)),
            }
        }
    };
    Some(got)
}

/// TCP has ended before the sender had put all on it that lay unread on the VI: the rest of that is there still,
/// after what made it to TCP.
#[cold]
pub(super) fn rescue(guard: &mut Guard<'_>, fd: i32, from: Origin) -> Result<Origin, Fault> {
    let path = &rx(guard).path;
    let conn = guard.conn;
    let skip = path::rescue(
        conn.rx(),
        path.load(word::SWITCH),
        path.load(word::TAKEN) != 0,
        if conn.has(flag::RETURNING) { path.load(word::RETURNED) } else { 0 },
        path.load(word::PUMPED) != 0,
        path.load(word::FROM),
        conn.rx_tcp.load(Ordering::Acquire),
    );
    // This end may have shut its receiving half, and nothing more.
    let Some(skip) = skip.filter(|_| anchor_has_ended(fd)) else { return Ok(from) };
    let mut skip = usize::try_from(skip).unwrap_or(usize::MAX);
    if skip > Bulk::LEN {
        // So many do not lie there.
        return Err(Fault::Damaged);
    }
    conn.set_rx(Rx::Vi);
    conn.clear(flag::RETURNING);
    // On the program's stack.
    let mut scrap = [0u8; 512];
    while skip > 0 {
        let part = scrap.len().min(skip);
        match receive_vi(guard, &mut scrap[..part])? {
            0 => break,
            got => skip -= got,
        }
    }
    Ok(Origin::Vi)
}

/// TCP has ended. All that the sender had put there before it switched has come by then: what is missing has been read
/// and not counted. More than that cannot be missing, and must not look like the end of the stream.
#[cold]
pub(super) fn up_to_the_switch(
    guard: &mut Guard<'_>,
    fd: i32,
    from: Origin,
) -> Result<Origin, Fault> {
    let is_before_switch = matches!(from, Origin::Tcp(limit) if limit != usize::MAX);
    let by_fin = || call::tcp_state(fd).is_some_and(|tcp| tcp.peer_has_ended() && !tcp.is_closed());
    // This end may have shut its receiving half itself, and a reset takes away what was there.
    if !is_before_switch || guard.conn.has(flag::SHUT_RD) || !by_fin() {
        return Ok(from);
    }
    uncounted::repair(guard.conn, fd);
    match next_from(guard)? {
        Origin::Tcp(limit) if limit != usize::MAX => Err(Fault::Damaged),
        from => Ok(from),
    }
}
