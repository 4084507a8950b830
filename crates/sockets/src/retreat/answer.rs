//! The sender's side of a retreat: answer a recall, and put returned bytes on TCP.

use super::{PATIENCE_NS, STEP_NS};
use crate::conn::{Conn, Guard, Phase, flag};
use crate::stream::{self, load, store, tell_reader, word};
use crate::table::Ref;
use crate::{family, pair, progress, table};
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_proto::packet::Kind;
use sovia_proto::path::{Grant, REFUSED, Tx};
use sovia_sys::{call, clock, futex, poll};
use via_shm::endpoint::Bulk;
use via_shm::waiter::Bell;

/// The progress thread's pause while returned bytes wait for room on TCP.
const PUMP_NS: u64 = 2_000_000;
static PUMPING: AtomicBool = AtomicBool::new(false);

/// The receiver wants our sending direction back: ends its part on the VI, and holds new bytes
/// back until the unread ones have been returned.
pub(crate) fn recalled(guard: &mut Guard<'_>) {
    let conn = guard.conn;
    if conn.tx() != Tx::Vi || guard.closing.fin_sent {
        return;
    }
    conn.set_tx(Tx::Back);
    conn.set(flag::RECALLED);
    stream::send_control(guard, Kind::ToTcp);
    tell_reader(conn, guard.endpoint_ref());
}

/// What the receiver has returned.
enum Returned {
    /// It has not said yet.
    NotYet,
    /// That many bytes.
    Bytes(usize),
    /// We have refused to take anything.
    Refused,
}

fn returned(guard: &Guard<'_>) -> Returned {
    match load(&guard.endpoint_ref().tx.direction().path, word::RETURNED) {
        0 => Returned::NotYet,
        REFUSED => Returned::Refused,
        word => Returned::Bytes(((word - 1) as usize).min(Bulk::LEN)),
    }
}

/// Whether sends must wait for returned bytes to go first; moves those if they are there.
pub(crate) fn holds_back(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    if !conn.has(flag::RECALLED) || conn.has(flag::PUMPED) {
        return false;
    }
    match returned(guard) {
        // A receiver that has died meanwhile never will.
        Returned::NotYet => !stream::anchor_has_ended(fd),
        Returned::Refused => {
            conn.set(flag::PUMPED);
            false
        }
        Returned::Bytes(len) => !pump(guard, fd, len),
    }
}

/// Puts returned bytes on TCP; true when all are there.
fn pump(guard: &mut Guard<'_>, fd: i32, len: usize) -> bool {
    let conn = guard.conn;
    let bulk = guard.endpoint_ref().tx.bulk();
    let mut part = [0u8; 16 << 10];
    while (guard.pumped as usize) < len {
        let at = guard.pumped as usize;
        let n = (len - at).min(part.len());
        bulk.read(super::recall::RETURN_AT + at, &mut part[..n]);
        match call::send(fd, &part[..n], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
            Ok(sent) => guard.pumped += sent as u32,
            Err(call::Errno::EINTR) => {}
            Err(call::Errno::EAGAIN) => return false,
            // The connection is gone; so are its bytes, as with TCP.
            Err(_) => {
                conn.set(flag::PUMPED);
                return true;
            }
        }
    }
    conn.set(flag::PUMPED);
    store(&guard.endpoint_ref().tx.direction().path, word::PUMPED, 1);
    tell_reader(conn, guard.endpoint_ref());
    true
}

/// This end is about to leave the direction (FIN, close, its own retreat) and can put nothing on
/// TCP afterwards: says so, or does what it has been asked for first.
pub(crate) fn refuse_or_pump(guard: &mut Guard<'_>, fd: i32) {
    let path = &guard.endpoint_ref().tx.direction().path;
    let word = &path.0[word::RETURNED];
    match word.compare_exchange(0, REFUSED, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            guard.conn.set(flag::PUMPED);
        }
        Err(_) => {
            // They fit TCP's buffers, unless those are full of older bytes.
            let start = clock::now_ns();
            while guard.conn.has(flag::RECALLED)
                && holds_back(guard, fd)
                && !stream::anchor_has_ended(fd)
                && clock::now_ns() - start < PATIENCE_NS
            {
                let mut fds = [poll::PollFd { fd, events: libc::POLLOUT, revents: 0 }];
                let _ = poll::ppoll(&mut fds, Some(10 * PUMP_NS), None);
            }
        }
    }
}

/// Has the receiver recall the direction in which we send, and puts on TCP what it returns.
pub(super) fn ask_peer(fd: i32, at: Ref) {
    let conn = at.conn;
    let start = clock::now_ns();
    let bell: &Bell = {
        let mut guard = conn.lock();
        guard.own.asked = 1;
        let direction = guard.endpoint_ref().tx.direction();
        store(&direction.path, word::ASKED, 1);
        tell_reader(conn, guard.endpoint_ref());
        if let Some(pair) = pair::get(conn.pair.load(Ordering::Relaxed)) {
            pair.ring(progress::DOORBELL);
        }
        let bell: *const Bell = &raw const direction.room;
        // SAFETY: the connection stays attached until the retreat that we are part of.
        unsafe { &*bell }
    };
    while clock::now_ns() - start < PATIENCE_NS && conn.phase() == Phase::Attached {
        let before = bell.word().load(Ordering::SeqCst);
        bell.going_to_sleep();
        let done = {
            let mut guard = conn.lock();
            let path = &guard.endpoint_ref().tx.direction().path;
            if Grant::from_word(load(path, word::GRANT)) == Grant::Recalled {
                recalled(&mut guard);
            }
            conn.tx() != Tx::Vi && !holds_back(&mut guard, fd)
        };
        if !done {
            let _ = futex::wait(bell.word(), before, Some(STEP_NS));
        }
        bell.woke();
        if done || stream::anchor_has_ended(fd) {
            return;
        }
    }
}

/// The progress thread's pause: short while bytes wait for room on TCP.
pub(crate) fn pause() -> Option<u64> {
    PUMPING.load(Ordering::Relaxed).then_some(PUMP_NS)
}

/// Whether a peer wants something of that connection.
fn is_wanted(conn: &Conn) -> bool {
    if conn.phase() != Phase::Attached || conn.has(flag::DAMAGED) {
        return false;
    }
    let guard = conn.lock();
    if conn.phase() == Phase::Attached && is_asked(&guard) {
        return true;
    }
    conn.phase() == Phase::Attached
        && match conn.tx() {
            Tx::Vi => {
                let path = &guard.endpoint_ref().tx.direction().path;
                Grant::from_word(load(path, word::GRANT)) == Grant::Recalled
            }
            Tx::Back => conn.has(flag::RECALLED) && !conn.has(flag::PUMPED),
            Tx::Tcp => false,
        }
}

/// Whether the peer wants us to go back to TCP.
fn is_asked(guard: &Guard<'_>) -> bool {
    !guard.conn.has(flag::RETREATING)
        && load(&guard.endpoint_ref().rx.direction().path, word::ASKED) != 0
}

/// The progress thread: answers recalls, and moves returned bytes.
pub(crate) fn serve() {
    let mut wanted = Vec::new();
    pair::each(|_, pair| {
        pair.each_conn(|index| {
            if family::conn(index).is_some_and(is_wanted) {
                wanted.push(index);
            }
        });
    });
    let mut left = false;
    if !wanted.is_empty() {
        table::for_each_conn(|fd, at| {
            if !wanted.contains(&at.index) {
                return;
            }
            let mut guard = at.conn.lock();
            if at.conn.phase() != Phase::Attached {
                return;
            }
            if is_asked(&guard) {
                drop(guard);
                super::now(fd, at, super::Cause::Call);
                return;
            }
            let path = &guard.endpoint_ref().tx.direction().path;
            if Grant::from_word(load(path, word::GRANT)) == Grant::Recalled {
                recalled(&mut guard);
            }
            left |= holds_back(&mut guard, fd);
            drop(guard);
            progress::tell_own(at.conn);
        });
    }
    PUMPING.store(left, Ordering::Relaxed);
}
