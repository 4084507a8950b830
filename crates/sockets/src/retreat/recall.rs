//! The receiver's side of a retreat: recall the direction, read the VI to its end, return what
//! the program has not had.

use super::STEP_NS;
use crate::conn::{Guard, flag};
use crate::stream::returned::{PATIENCE_NS, RETURN_MAX, RETURN_ROOM, return_at};
use crate::stream::{self, Got, load, tell_writer, word};
use crate::table::Ref;
use crate::{anchors, family, pair, process};
use core::sync::atomic::Ordering;
use sovia_proto::path::{self, CANCELLED, ENTERED, Grant, REFUSED, Recall, Rx};
use sovia_sync::hazard::Waits;
use sovia_sys::{clock, futex};
use via_shm::waiter::Bell;

/// How a recall ended.
pub(super) enum Verdict {
    /// The kernel has, or will get, everything.
    OnTcp,
    /// The peer cannot put the rest on TCP.
    Relay(Left),
}

/// What the program has not had.
#[derive(Default)]
pub(crate) struct Left {
    /// Bytes that TCP still holds from before the switch: they come first.
    pub(crate) tcp: u64,
    /// Then these, taken off the VI.
    pub(crate) unread: Vec<u8>,
    /// The peer puts them on TCP, all or the first of them, before anything newer.
    pub(crate) returned: bool,
}

/// What a recall found.
#[derive(PartialEq, Eq)]
pub(super) enum Asked {
    /// Nothing of the direction is on the VI.
    OnTcp,
    /// The peer must answer, and the VI be read to its end.
    Drain,
    /// The peer is putting its bytes on TCP by itself.
    AwaitTaken,
}

/// Recalls the direction in which we receive.
pub(super) fn ask(guard: &mut Guard<'_>) -> Asked {
    let conn = guard.conn;
    let rx = conn.rx();
    if rx == Rx::Tcp || rx == Rx::Back {
        conn.set_rx(Rx::Back);
        return Asked::OnTcp;
    }
    stream::say_grant(guard, Grant::Recalled as u64);
    let path = &guard.endpoint_ref().rx.direction().path;
    core::sync::atomic::fence(Ordering::SeqCst);
    let word = &path.0[word::SWITCH];
    // A sender that is just switching looks at the grant once more, and takes it back. One that
    // takes its bytes back must not find us reading them: entering decides.
    let on_vi = match path::recall(rx, word.load(Ordering::Acquire)) {
        Recall::Nothing => false,
        Recall::Drain => true,
        Recall::Enter(seen) => {
            word.compare_exchange(seen, seen | ENTERED, Ordering::AcqRel, Ordering::Acquire).is_ok()
        }
    };
    if !on_vi {
        if word.load(Ordering::Acquire) == CANCELLED && load(path, word::TAKEN) == 0 {
            return Asked::AwaitTaken;
        }
        conn.set_rx(Rx::Back);
        return Asked::OnTcp;
    }
    // From here on we read the VI; what TCP still holds comes first anyway.
    conn.set_rx(Rx::Vi);
    tell_writer(guard);
    ring_progress(conn);
    Asked::Drain
}

/// Waits for the peer to have put all its bytes on TCP. If it dies before, a relay takes the rest
/// from the VI.
pub(super) fn await_taken(fd: i32, at: Ref) -> Verdict {
    let start = clock::now_ns();
    let waits = Waits::begin(false);
    let Some(bell) = bell(at, &waits) else { return Verdict::OnTcp };
    loop {
        let before = bell.word().load(Ordering::SeqCst);
        bell.going_to_sleep();
        let taken = {
            let Some(guard) = at.attached() else { return Verdict::OnTcp };
            load(&guard.endpoint_ref().rx.direction().path, word::TAKEN) != 0
        };
        let over = stream::anchor_has_ended(fd) || clock::now_ns() - start >= PATIENCE_NS;
        if !taken && !over {
            let _ = futex::wait(bell.word(), before, Some(STEP_NS));
        }
        if taken {
            return Verdict::OnTcp;
        }
        if over {
            return Verdict::Relay(Left::default());
        }
    }
}

/// The peer may be computing: its progress thread answers.
fn ring_progress(conn: &crate::conn::Conn) {
    if let Some(pair) = pair::get(conn.pair.load(Ordering::Relaxed)) {
        pair.ring(anchors::DOORBELL);
    }
}

/// How reading the VI to its end went.
enum End {
    /// The peer ended its part there; new bytes come on TCP.
    ToTcp,
    /// The stream ended there.
    Fin,
    /// The peer has died.
    Dead,
    /// The peer lives and does not answer, or keeps sending.
    Patience,
}

pub(super) fn finish(fd: i32, at: Ref) -> Verdict {
    let conn = at.conn;
    let mut left = Left::default();
    // A relay would take for this process's descriptors what its relatives' may be the ones to read. They
    // read TCP as soon as the bytes have been returned: TCP need not have room for all of them.
    let is_shared = family::is_shared(conn) || process::is_borrowed();
    let most = if is_shared { RETURN_ROOM } else { RETURN_MAX };
    let patience = if is_shared { u64::MAX } else { PATIENCE_NS };
    let end = drain(fd, at, &mut left.unread, most, patience);
    let waits = Waits::begin(false);
    let path = {
        let Some(guard) = at.attached() else { return Verdict::OnTcp };
        pair::keep(&guard, &waits);
        let path = &guard.endpoint_ref().rx.direction().path;
        let from = load(path, word::FROM);
        left.tcp = from.saturating_sub(conn.rx_tcp.load(Ordering::Acquire));
        core::ptr::from_ref(path)
    };
    // SAFETY: the segment stays mapped while `waits` names its pair.
    let path = unsafe { &*path };
    let answer = &path.0[word::RETURNED];
    match end {
        End::ToTcp | End::Fin | End::Dead if left.unread.is_empty() => {
            // Nothing to return; whoever holds new bytes back may let them go.
            let _ = answer.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
            wake_peer(at);
            return Verdict::OnTcp;
        }
        End::ToTcp if left.unread.len() <= most => {
            if let Some(guard) = at.attached() {
                let place = return_at(left.unread.len());
                guard.endpoint_ref().rx.bulk().write(place, &left.unread);
            }
            let word = left.unread.len() as u64 + 1;
            if answer.compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                wake_peer(at);
                if is_shared {
                    let_relatives_read(at);
                    // Those that are slow to read leave it to the calls to come to leave the VI.
                    let _ = await_pump(fd, at);
                    return Verdict::OnTcp;
                }
                if await_pump(fd, at) {
                    return Verdict::OnTcp;
                }
                left.returned = true;
            }
        }
        _ => {
            // We shall not return anything: whatever the peer still sends is relayed.
            let _ = answer.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
            wake_peer(at);
        }
    }
    Verdict::Relay(left)
}

/// The direction is on TCP for all calls from here on.
fn let_relatives_read(at: Ref) {
    if let Some(guard) = at.attached() {
        at.conn.set_rx(Rx::Back);
        at.conn.clear(flag::RETREATING);
        stream::wake_all(&guard);
    }
}

/// Whether bytes that have been returned are still to be put on TCP by the peer. They lie on the VI.
pub(super) fn awaits_pump(guard: &Guard<'_>) -> bool {
    let path = &guard.endpoint_ref().rx.direction().path;
    !matches!(load(path, word::RETURNED), 0 | 1 | REFUSED) && load(path, word::PUMPED) == 0
}

fn wake_peer(at: Ref) {
    if let Some(guard) = at.attached() {
        tell_writer(&guard);
    }
    ring_progress(at.conn);
}

/// Our bell of the direction, for a thread that waits; `None` if the connection has left its VI.
fn bell(at: Ref, waits: &Waits) -> Option<&Bell> {
    let guard = at.attached()?;
    pair::keep(&guard, waits);
    let bell: *const Bell = &raw const guard.endpoint_ref().rx.direction().bell;
    // SAFETY: the connection is attached until this retreat detaches it, and the segment stays mapped while
    // `waits` names its pair.
    Some(unsafe { &*bell })
}

/// Reads the VI to the packet that ends its part; no more than `most` bytes, and for no longer than `patience`
/// nanoseconds.
fn drain(fd: i32, at: Ref, unread: &mut Vec<u8>, most: usize, patience: u64) -> End {
    let conn = at.conn;
    let start = clock::now_ns();
    let mut part = vec![0; 1 << 16];
    let waits = Waits::begin(false);
    let Some(bell) = bell(at, &waits) else { return End::Dead };
    loop {
        let before = bell.word().load(Ordering::SeqCst);
        bell.going_to_sleep();
        let end = loop {
            let Some(mut guard) = at.attached() else { break Some(End::Dead) };
            if conn.rx() != Rx::Vi {
                break Some(End::ToTcp);
            }
            if conn.has(flag::EOF) {
                break Some(End::Fin);
            }
            match stream::receive_unread(&mut guard, fd, &mut part) {
                Got::Bytes(n) => unread.extend_from_slice(&part[..n]),
                Got::Nothing => break None,
                Got::Failed(_) => break Some(End::Dead),
                Got::End if conn.rx() != Rx::Vi || conn.has(flag::EOF) => {}
                Got::End => break Some(End::Dead),
            }
            if unread.len() > most {
                break Some(End::Patience);
            }
        };
        let late = clock::now_ns() - start >= patience;
        if end.is_none() && !late {
            let _ = futex::wait(bell.word(), before, Some(STEP_NS));
        }
        match end {
            Some(end) => return end,
            None if late => return End::Patience,
            None => {}
        }
    }
}

/// Waits until the peer has put everything on TCP. False if it has not (it has died, or it lives and is slow:
/// stopped, or its TCP buffers are full): a relay waits for the bytes, and has a copy of them.
fn await_pump(fd: i32, at: Ref) -> bool {
    let start = clock::now_ns();
    let waits = Waits::begin(false);
    let Some(bell) = bell(at, &waits) else { return true };
    loop {
        let before = bell.word().load(Ordering::SeqCst);
        bell.going_to_sleep();
        let pumped = {
            let Some(guard) = at.attached() else { return true };
            load(&guard.endpoint_ref().rx.direction().path, word::PUMPED) != 0
        };
        let over = stream::anchor_has_ended(fd) || clock::now_ns() - start >= PATIENCE_NS;
        if pumped || over {
            return pumped;
        }
        let _ = futex::wait(bell.word(), before, Some(STEP_NS));
    }
}
