//! The progress thread: watches the anchors.
//!
//! A thread that waits for a VI sleeps on memory, where the kernel's news of the anchor (the
//! peer's end, its death, bytes on TCP) does not reach it. One thread for each process, which
//! sleeps in epoll until an anchor has an event, passes such news on. It also answers a peer that
//! wants a direction back on TCP while the program computes ([`crate::retreat`]).

use crate::conn::{Phase, flag};
use crate::ops::keep;
use crate::retreat::answer;
use crate::stream::{audit, combine, listeners};
use crate::table::{self, Ref};
use crate::thread::{self, OncePerProcess};
use crate::{family, pair};
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use sovia_proto::path::{Rx, Tx};
use sovia_sys::{call, clock, poll};

static THREAD: OncePerProcess = OncePerProcess::new();
static EPOLL: AtomicI32 = AtomicI32::new(-1);
/// Counted up for anyone who wants to know that the thread is alive.
static ROUNDS: AtomicU32 = AtomicU32::new(0);

const DOOR: u64 = u64::MAX;
/// Events of an anchor that tell of the peer's end.
const ENDS: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;

/// The doorbell that wakes the thread.
pub(crate) const DOORBELL: u32 = 0;

fn token(at: Ref, fd: i32) -> u64 {
    // The descriptor is needed to ask the kernel; generation and index to know that it still is
    // the same connection.
    u64::from(at.index) | u64::from(at.generation & 0xfff) << 20 | u64::from(fd as u32) << 32
}

/// Starts the thread if this process has none. False if it cannot be had.
pub(crate) fn start() -> bool {
    THREAD.ensure(spawn)
}

/// In a forked child: the thread has stayed with the parent. Asked before each sleep, so without a
/// system call.
pub(crate) fn is_missing() -> bool {
    THREAD.is_missing()
}

/// Starts the thread in a forked child, and has it watch all connections that came along.
pub(crate) fn restart() {
    if start() {
        table::for_each_conn(|fd, at| {
            if at.conn.phase() == Phase::Attached {
                watch(fd, at);
            }
        });
    }
}

fn spawn() -> bool {
    let Some(epoll) = pair::epoll_of_door(DOORBELL, DOOR) else { return false };
    let started = thread::start(run, epoll.raw() as usize as *mut libc::c_void);
    if started {
        EPOLL.store(epoll.into_raw(), Ordering::Release);
    }
    started
}

/// Has the thread look around.
pub(crate) fn nudge() {
    if let Some(door) = pair::door(DOORBELL as usize) {
        let _ = call::write(door, &1u64.to_ne_bytes());
    }
}

/// Has the thread watch an attached connection's anchor. The kernel forgets it at its close.
pub(crate) fn watch(fd: i32, at: Ref) {
    let epoll = EPOLL.load(Ordering::Acquire);
    // Room on TCP counts as well: a sender that is still on that path may wait for it.
    let events = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
    // An edge that is there already is reported at once.
    let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, events, token(at, fd));
}

extern "C" fn run(argument: *mut libc::c_void) -> *mut libc::c_void {
    let epoll = argument as usize as i32;
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 32];
    // When the connections are to be looked at; none while there are none.
    let mut audit = None;
    loop {
        ROUNDS.fetch_add(1, Ordering::Relaxed);
        let left = audit.map(|at: u64| at.saturating_sub(clock::now_ns()));
        let pause = answer::pause().or_else(keep::pause).or_else(pair::burial);
        let pause = pause.into_iter().chain(left).chain(combine::pause()).min();
        let n = match poll::epoll_wait(epoll, &mut events, pause, None) {
            Ok(n) => n,
            Err(call::Errno::EINTR) => 0,
            // The program has closed our descriptor behind our back.
            Err(_) => return core::ptr::null_mut(),
        };
        let ends = events[..n].iter().any(|event| event.events & ENDS != 0);
        if ends || n == 0 {
            // Peers die with their anchors; their segments go some time after.
            pair::collect();
            keep::collect();
        }
        for event in &events[..n] {
            let token = event.u64;
            if token != DOOR {
                anchor_event(token, event.events);
            }
        }
        let now = clock::now_ns();
        if audit.is_some_and(|at| at <= now) {
            audit = audit::all(now).then_some(now + audit::PERIOD_NS);
        } else if audit.is_none() {
            // A new connection has an event at once.
            audit = Some(now + audit::PERIOD_NS);
        }
        combine::serve();
        // Whoever rang wants a path changed, or bytes have waited for room on TCP.
        answer::serve();
    }
}

fn anchor_event(token: u64, events: u32) {
    let index = token as u32 & 0xf_ffff;
    let generation = (token >> 20) as u32 & 0xfff;
    let Some(conn) = family::conn(index) else { return };
    if conn.phase() != Phase::Attached || !conn.is_generation_low(generation) {
        return;
    }
    if events & ENDS != 0 {
        conn.set(flag::ANCHOR | flag::ENDED);
    } else if events & libc::EPOLLIN as u32 != 0 {
        conn.set(flag::ANCHOR);
    }
    // Bytes and room on TCP are news for those only who are on that path; to tell others would be
    // an edge where there is none. (That a socket has room comes once in any case, when this thread
    // begins to watch it, and on a busy machine that is late.)
    let bytes = events & libc::EPOLLIN as u32 != 0 && conn.rx() != Rx::Vi;
    let room = events & libc::EPOLLOUT as u32 != 0 && conn.tx() != Tx::Vi;
    if events & ENDS != 0 || bytes || room {
        tell_own(conn);
    }
}

/// Wakes everybody of this family who waits for a connection, in either direction.
pub(crate) fn tell_own(conn: &crate::conn::Conn) {
    if conn.phase() != Phase::Attached {
        return;
    }
    // Under the lock: who closes the connection takes it too, before the segment may go.
    let guard = conn.lock();
    if conn.phase() != Phase::Attached {
        return;
    }
    // By what we know ourselves, whatever the bells say: who waits has been counted before we took
    // the lock, or will see the news under it.
    listeners::wake_sleepers(conn, guard.endpoint_ref(), conn.is_awaited());
    let waiters = guard.own.watchers;
    if waiters != 0 {
        pair::notify_own(conn, waiters);
    }
}
