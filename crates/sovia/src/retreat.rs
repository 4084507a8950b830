//! Back to TCP: for what only the kernel can do with a socket.
//!
//! Before an exec, before a descriptor becomes standard input or travels to another process, and
//! for calls that Sovia does not carry, both directions of a connection return to the anchor
//! ([`sovia_proto::path`], steps 4 and 5).
//!
//! Our own direction just ends its part on the VI. For the other we **recall** the grant and read
//! the VI to its end. Bytes that the program has not had yet must now come out of the kernel, and
//! only the peer can put them in: they go back through the segment, the peer (its next call, or its
//! progress thread) writes them to its anchor, and sends nothing new before. A peer that has died
//! cannot: then the descriptor is replaced by a Unix socket that holds exactly those bytes and the
//! end of file.
//!
//! A peer that is stopped (SIGSTOP) holds a retreat up for [`PATIENCE_NS`] at most.

use crate::conn::{Conn, Guard, Phase, flag};
use crate::stream::{self, Got, load, store, tell_reader, tell_writer, word};
use crate::table::{self, Ref};
use crate::{epoll, family, meeting, pair, progress, stats};
use core::sync::atomic::Ordering;
use sovia_control::Reason;
use sovia_proto::packet::Kind;
use sovia_proto::path::{Grant, Rx, Tx};
use sovia_sys::{call, clock, futex, poll};
use via_shm::endpoint::Bulk;

/// Why a connection goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It is inherited by another program.
    Exec,
    /// It becomes standard input, output or error, or a stdio stream.
    Stdio,
    /// The kernel is to process the stream.
    Ulp,
    /// It is sent to another process.
    Passed,
    /// A call that Sovia does not carry.
    Call,
}

impl Cause {
    fn reason(self) -> Reason {
        match self {
            Cause::Exec => Reason::RetreatExec,
            Cause::Stdio => Reason::RetreatStdio,
            Cause::Ulp => Reason::RetreatUlp,
            Cause::Passed => Reason::RetreatPassed,
            Cause::Call => Reason::RetreatCall,
        }
    }
}

/// How long a retreat waits for a peer that lives but does not answer.
pub const PATIENCE_NS: u64 = 5_000_000_000;
/// One step of waiting for it.
const STEP_NS: u64 = 10_000_000;
/// The progress thread's pause while returned bytes wait for room on TCP.
const PUMP_NS: u64 = 2_000_000;

/// The sender's switch word once it has taken the switch back.
pub(crate) const CANCELLED: u64 = u64::MAX;
/// Set in the switch word by a receiver that has entered.
pub(crate) const ENTERED: u64 = 1 << 63;

/// Takes a connection back to TCP, for good. When this returns, the kernel's calls on the
/// descriptor do what they would have done without Sovia.
pub fn now(fd: i32, at: Ref, cause: Cause) {
    let conn = at.conn;
    if conn.phase() == Phase::Candidate {
        conn.set_phase(Phase::Plain);
        meeting::closed(at);
        meeting::count_stay(at, cause.reason());
        return;
    }
    if conn.phase() != Phase::Attached {
        return;
    }
    if conn.set(flag::RETREATING) & flag::RETREATING != 0 {
        // Another thread is at it.
        while conn.phase() == Phase::Attached && conn.has(flag::RETREATING) {
            call::sched_yield();
        }
        return;
    }
    stats::reason(cause.reason());
    let returned = {
        let mut guard = conn.lock();
        leave_sending(&mut guard, fd);
        recall(&mut guard)
    };
    let mut unread = Vec::new();
    if returned == Recall::Asked {
        let alive = drain(fd, at, &mut unread);
        if alive {
            give_back(fd, at, &unread);
        } else if !unread.is_empty() {
            replace(at, &unread);
        }
    }
    detach(fd, at);
}

/// Everything that a new program would inherit goes back to TCP.
pub fn before_exec() {
    let mut inherited = Vec::new();
    table::for_each_conn(|fd, at| {
        let flags = call::fcntl(fd, libc::F_GETFD, 0).unwrap_or(libc::FD_CLOEXEC as usize);
        if flags & libc::FD_CLOEXEC as usize == 0 && at.conn.phase() == Phase::Attached {
            inherited.push((fd, at));
        }
    });
    for (fd, at) in inherited {
        now(fd, at, Cause::Exec);
    }
}

/// Ends our sending direction's part on the VI.
fn leave_sending(guard: &mut Guard<'_>, fd: i32) {
    let conn = guard.conn;
    if conn.tx() != Tx::Vi {
        conn.set_tx(Tx::Back);
        return;
    }
    let path = &guard.endpoint_ref().tx.direction().path;
    let switch = &path.0[word::SWITCH];
    let seen = switch.load(Ordering::Acquire);
    let cancelled = seen & ENTERED == 0
        && switch.compare_exchange(seen, CANCELLED, Ordering::AcqRel, Ordering::Acquire).is_ok();
    conn.set_tx(Tx::Back);
    if cancelled {
        // The receiver has seen nothing of the VI and never will: the bytes go to TCP after all.
        let bytes = stream::take_own_back(guard);
        write_all(fd, &bytes);
    } else {
        stream::send_control(guard, Kind::ToTcp);
    }
    tell_reader(conn, guard.endpoint_ref());
}

#[derive(PartialEq, Eq)]
enum Recall {
    /// Nothing of this direction is on the VI.
    Nothing,
    /// The peer must answer.
    Asked,
}

fn recall(guard: &mut Guard<'_>) -> Recall {
    let conn = guard.conn;
    let rx = conn.rx();
    if rx == Rx::Tcp || rx == Rx::Back {
        conn.set_rx(Rx::Back);
        return Recall::Nothing;
    }
    let path = &guard.endpoint_ref().rx.direction().path;
    store(path, word::GRANT, Grant::Recalled as u64);
    core::sync::atomic::fence(Ordering::SeqCst);
    let switch = load(path, word::SWITCH);
    if switch == 0 || switch == CANCELLED {
        // A sender that is just switching looks at the grant once more, and takes it back.
        conn.set_rx(Rx::Back);
        return Recall::Nothing;
    }
    // From here on we read the VI, whatever TCP still holds: that comes first anyway.
    conn.set_rx(Rx::Vi);
    tell_writer(conn, guard.endpoint_ref());
    if let Some(pair) = pair::get(conn.pair.load(Ordering::Relaxed)) {
        pair.ring(progress::DOORBELL);
    }
    Recall::Asked
}

/// Reads the VI to the packet that ends its part. False if the peer has died before it.
fn drain(fd: i32, at: Ref, unread: &mut Vec<u8>) -> bool {
    let conn = at.conn;
    let start = clock::now_ns();
    let mut part = vec![0; 1 << 16];
    loop {
        let (bell, before) = {
            let guard = conn.lock();
            let bell: *const via_shm::waiter::Bell =
                &raw const guard.endpoint_ref().rx.direction().bell;
            // SAFETY: the connection stays attached until this retreat detaches it.
            let bell = unsafe { &*bell };
            (bell, bell.word().load(Ordering::SeqCst))
        };
        bell.going_to_sleep();
        let outcome = loop {
            let mut guard = conn.lock();
            let path = &guard.endpoint_ref().rx.direction().path;
            if load(path, word::SWITCH) == CANCELLED {
                conn.set_rx(Rx::Back);
            }
            if conn.rx() != Rx::Vi || conn.has(flag::EOF | flag::DAMAGED) {
                break Some(true);
            }
            match stream::receive_unread(&mut guard, fd, &mut part) {
                Got::Bytes(n) => unread.extend_from_slice(&part[..n]),
                Got::Nothing => break None,
                Got::End | Got::Failed(_) => break Some(conn.rx() != Rx::Vi || conn.has(flag::EOF)),
            }
        };
        if outcome.is_none() && clock::now_ns() - start < PATIENCE_NS {
            let _ = futex::wait(bell.word(), before, Some(STEP_NS));
        }
        bell.woke();
        match outcome {
            Some(alive) => return alive,
            None if clock::now_ns() - start >= PATIENCE_NS => return false,
            None => {}
        }
    }
}

/// Gives unread bytes back to the peer, which puts them on TCP; waits until it has begun to, or
/// has finished if they are few.
fn give_back(fd: i32, at: Ref, unread: &[u8]) {
    let conn = at.conn;
    let (bell, before) = {
        let guard = conn.lock();
        let endpoint = guard.endpoint_ref();
        let direction = endpoint.rx.direction();
        if !endpoint.rx.bulk().write(0, unread) && !unread.is_empty() {
            return;
        }
        let bell: *const via_shm::waiter::Bell = &raw const direction.bell;
        // SAFETY: as in `drain`.
        let bell = unsafe { &*bell };
        let before = bell.word().load(Ordering::SeqCst);
        store(&direction.path, word::RETURNED, unread.len() as u64 + 1);
        tell_writer(conn, endpoint);
        if let Some(pair) = pair::get(conn.pair.load(Ordering::Relaxed)) {
            pair.ring(progress::DOORBELL);
        }
        (bell, before)
    };
    if unread.is_empty() {
        return;
    }
    let start = clock::now_ns();
    let mut before = before;
    while clock::now_ns() - start < PATIENCE_NS {
        bell.going_to_sleep();
        let done = {
            let guard = conn.lock();
            load(&guard.endpoint_ref().rx.direction().path, word::PUMPED) != 0
        };
        // More than TCP's buffers hold is pumped as the new program reads.
        if done || unread.len() > 1 << 20 || stream::anchor_has_ended(conn, fd) {
            bell.woke();
            return;
        }
        let _ = futex::wait(bell.word(), before, Some(STEP_NS));
        bell.woke();
        before = bell.word().load(Ordering::SeqCst);
    }
}

/// The peer is dead: puts a socket with the unread bytes in the place of every descriptor of the
/// connection.
fn replace(at: Ref, unread: &[u8]) {
    let Ok((ours, theirs)) = call::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC)
    else {
        return;
    };
    table::for_each_conn(|fd, other| {
        if other.same(at) {
            let _ = call::dup_onto(theirs.raw(), fd);
        }
    });
    drop(theirs);
    let fits = call::send(ours.raw(), unread, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    let done = fits.unwrap_or(0);
    if done < unread.len() {
        // A small relative keeps the rest until it has been read.
        call::in_child(|| {
            let mut rest = &unread[done..];
            while !rest.is_empty() {
                match call::send(ours.raw(), rest, libc::MSG_NOSIGNAL) {
                    Ok(n) => rest = &rest[n..],
                    Err(call::Errno::EINTR) => {}
                    Err(_) => break,
                }
            }
        });
    }
}

fn write_all(fd: i32, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match call::send(fd, bytes, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
            Ok(n) => bytes = &bytes[n..],
            Err(call::Errno::EINTR) => {}
            Err(call::Errno::EAGAIN) => {
                let mut fds = [poll::PollFd { fd, events: libc::POLLOUT, revents: 0 }];
                let _ = poll::ppoll(&mut fds, None, None);
            }
            Err(_) => return,
        }
    }
}

/// The connection is on TCP in both directions: it is an ordinary socket from here on.
fn detach(_fd: i32, at: Ref) {
    let conn = at.conn;
    let (pair, vi) = {
        let mut guard = conn.lock();
        if conn.phase() != Phase::Attached {
            return;
        }
        if let Some(page) = stats::page() {
            page.add(&core::mem::take(&mut guard.traffic));
        }
        conn.set_rx(Rx::Back);
        conn.set_tx(Tx::Back);
        (pair::get(conn.pair.load(Ordering::Relaxed)), conn.vi.load(Ordering::Relaxed))
    };
    epoll::detached(at);
    {
        let _guard = conn.lock();
        conn.set_phase(Phase::Plain);
    }
    conn.clear(flag::RETREATING);
    if let Some(pair) = pair {
        let mut patience = 1000;
        while conn.waiting.load(Ordering::Acquire) != 0 && patience > 0 {
            stream::wake_all(conn);
            call::sched_yield();
            patience -= 1;
        }
        pair.segment.leave(pair.side, vi);
        pair.vacate(vi);
    }
}

/// After a call: if the peer has taken both directions back, the connection becomes an ordinary
/// socket at this end, too.
pub(crate) fn settle(fd: i32, at: Ref) {
    let conn = at.conn;
    if conn.phase() == Phase::Attached
        && conn.rx() == Rx::Back
        && conn.tx() == Tx::Back
        && !conn.has(flag::RETREATING)
        && (!conn.has(flag::RECALLED) || conn.has(flag::PUMPED))
        && conn.set(flag::RETREATING) & flag::RETREATING == 0
    {
        stats::reason(Reason::RetreatCall);
        detach(fd, at);
    }
}

// ---------------------------------------------------------------------------------------------
// The peer's side

/// The receiver wants our sending direction back: ends its part on the VI, and holds new bytes
/// back until the unread ones have been returned.
pub(crate) fn answer_recall(guard: &mut Guard<'_>) {
    let conn = guard.conn;
    if conn.tx() != Tx::Vi {
        return;
    }
    conn.set_tx(Tx::Back);
    conn.set(flag::RECALLED);
    stream::send_control(guard, Kind::ToTcp);
    tell_reader(conn, guard.endpoint_ref());
}

/// Whether sends must wait for returned bytes to go first; moves those if they are there.
pub(crate) fn holds_back(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    if !conn.has(flag::RECALLED) || conn.has(flag::PUMPED) {
        return false;
    }
    let direction = guard.endpoint_ref().tx.direction();
    let Some(len) = load(&direction.path, word::RETURNED).checked_sub(1) else {
        // Not returned yet. A receiver that has died meanwhile never will.
        return !stream::anchor_has_ended(conn, fd);
    };
    let bulk = guard.endpoint_ref().tx.bulk();
    let mut part = [0u8; 16 << 10];
    let len = (len as usize).min(Bulk::LEN);
    while (guard.pumped as usize) < len {
        let at = guard.pumped as usize;
        let n = (len - at).min(part.len());
        bulk.read(at, &mut part[..n]);
        match call::send(fd, &part[..n], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
            Ok(sent) => guard.pumped += sent as u32,
            Err(call::Errno::EINTR) => {}
            Err(call::Errno::EAGAIN) => return true,
            // The connection is gone; so are its bytes, as with TCP.
            Err(_) => break,
        }
    }
    conn.set(flag::PUMPED);
    let direction = guard.endpoint_ref().tx.direction();
    store(&direction.path, word::PUMPED, 1);
    tell_reader(conn, guard.endpoint_ref());
    false
}

/// The progress thread's pause: short while bytes wait for room on TCP.
pub(crate) fn pump_pause() -> Option<u64> {
    PUMPING.load(Ordering::Relaxed).then_some(PUMP_NS)
}

static PUMPING: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);

/// Whether a peer wants something of that connection.
fn is_wanted(conn: &Conn) -> bool {
    if conn.phase() != Phase::Attached || conn.has(flag::DAMAGED) {
        return false;
    }
    let guard = conn.lock();
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
            answer_recall(&mut guard);
            left |= holds_back(&mut guard, fd);
            drop(guard);
            progress::tell_own(at.conn);
        });
    }
    PUMPING.store(left, Ordering::Relaxed);
}
