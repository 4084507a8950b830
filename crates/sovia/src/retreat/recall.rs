//! The receiver's side of a retreat: recall the direction, read the VI to its end, return what
//! the program has not had.

use super::{PATIENCE_NS, STEP_NS};
use crate::conn::{Guard, flag};
use crate::stream::{self, Got, load, store, tell_writer, word};
use crate::table::Ref;
use crate::{pair, progress};
use core::sync::atomic::Ordering;
use sovia_proto::path::{self, ENTERED, Grant, Recall, Rx};
use sovia_sys::{clock, futex};
use via_shm::endpoint::Bulk;
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
pub(super) struct Left {
    /// Bytes that TCP still holds from before the switch: they come first.
    pub(super) tcp: u64,
    /// Then these, taken off the VI.
    pub(super) unread: Vec<u8>,
    /// The peer may have put a part of them on TCP before it died.
    pub(super) part_returned: bool,
}

/// Recalls the direction in which we receive. False if nothing of it is on the VI.
pub(super) fn ask(guard: &mut Guard<'_>) -> bool {
    let conn = guard.conn;
    let rx = conn.rx();
    if rx == Rx::Tcp || rx == Rx::Back {
        conn.set_rx(Rx::Back);
        return false;
    }
    let path = &guard.endpoint_ref().rx.direction().path;
    store(path, word::GRANT, Grant::Recalled as u64);
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
        conn.set_rx(Rx::Back);
        return false;
    }
    // From here on we read the VI; what TCP still holds comes first anyway.
    conn.set_rx(Rx::Vi);
    tell_writer(conn, guard.endpoint_ref());
    ring_progress(conn);
    true
}

/// The peer may be computing: its progress thread answers.
fn ring_progress(conn: &crate::conn::Conn) {
    if let Some(pair) = pair::get(conn.pair.load(Ordering::Relaxed)) {
        pair.ring(progress::DOORBELL);
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
    let end = drain(fd, at, &mut left.unread);
    let path = {
        let guard = conn.lock();
        let path = &guard.endpoint_ref().rx.direction().path;
        let from = load(path, word::FROM);
        left.tcp = from.saturating_sub(conn.rx_tcp.load(Ordering::Acquire));
        core::ptr::from_ref(path)
    };
    // SAFETY: the connection stays attached until this retreat detaches it, and with it the
    // segment stays mapped.
    let path = unsafe { &*path };
    let answer = &path.0[word::RETURNED];
    match end {
        End::ToTcp | End::Fin | End::Dead if left.unread.is_empty() => {
            // Nothing to return; whoever holds new bytes back may let them go.
            let _ = answer.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
            wake_peer(at);
            return Verdict::OnTcp;
        }
        End::ToTcp if left.unread.len() <= Bulk::LEN => {
            {
                let guard = conn.lock();
                guard.endpoint_ref().rx.bulk().write(0, &left.unread);
            }
            let word = left.unread.len() as u64 + 1;
            if answer.compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                wake_peer(at);
                if await_pump(fd, at, left.unread.len()) {
                    return Verdict::OnTcp;
                }
                left.part_returned = true;
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

fn wake_peer(at: Ref) {
    let guard = at.conn.lock();
    tell_writer(at.conn, guard.endpoint_ref());
    drop(guard);
    ring_progress(at.conn);
}

/// Our bell of the direction.
fn bell(at: Ref) -> &'static Bell {
    let guard = at.conn.lock();
    let bell: *const Bell = &raw const guard.endpoint_ref().rx.direction().bell;
    // SAFETY: the connection stays attached until this retreat detaches it.
    unsafe { &*bell }
}

/// Reads the VI to the packet that ends its part.
fn drain(fd: i32, at: Ref, unread: &mut Vec<u8>) -> End {
    let conn = at.conn;
    let start = clock::now_ns();
    let mut part = vec![0; 1 << 16];
    let bell = bell(at);
    loop {
        let before = bell.word().load(Ordering::SeqCst);
        bell.going_to_sleep();
        let end = loop {
            let mut guard = conn.lock();
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
            if unread.len() > Bulk::LEN {
                break Some(End::Patience);
            }
        };
        let late = clock::now_ns() - start >= PATIENCE_NS;
        if end.is_none() && !late {
            let _ = futex::wait(bell.word(), before, Some(STEP_NS));
        }
        bell.woke();
        match end {
            Some(end) => return end,
            None if late => return End::Patience,
            None => {}
        }
    }
}

/// Waits until the peer has put everything on TCP, or, if that is more than TCP's buffers take,
/// is at it. False if it has died before.
fn await_pump(fd: i32, at: Ref, len: usize) -> bool {
    const BUFFERED: usize = 1 << 20;
    let start = clock::now_ns();
    let bell = bell(at);
    loop {
        let before = bell.word().load(Ordering::SeqCst);
        bell.going_to_sleep();
        let pumped = {
            let guard = at.conn.lock();
            load(&guard.endpoint_ref().rx.direction().path, word::PUMPED)
        };
        let late = clock::now_ns() - start >= PATIENCE_NS;
        let dead = stream::anchor_has_ended(fd);
        if pumped == 0 && !late && !dead && len <= BUFFERED {
            let _ = futex::wait(bell.word(), before, Some(STEP_NS));
        }
        bell.woke();
        if pumped != 0 {
            return true;
        }
        if dead {
            return false;
        }
        // It has the bytes and lives: it will deliver them as the new program reads.
        if late || len > BUFFERED {
            return true;
        }
    }
}
