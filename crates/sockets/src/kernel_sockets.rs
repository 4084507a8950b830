//! The kernel sockets' descriptors, which one thread of each process watches.
//!
//! Here is what others ask of that thread: that it be there, that it watch an kernel socket, that it look
//! around. What it does is [`crate::progress`].

use crate::conn::{CONNS, Conn, Guard, Phase, flag};
use crate::per_engine::{per_engine, per_engine_tables};
use crate::table::{self, Ref};
use crate::thread::{self, Ends, OncePerProcess};
use crate::{backlog, family, pair, process};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
use sovia_proto::path::Tx;
use sovia_signal::chain;
use sovia_sync::{fences, section};
use sovia_sys::{call, clock, poll};
use std::sync::OnceLock;

per_engine! {
    static THREAD: OncePerProcess = OncePerProcess::new();
    static EPOLL: AtomicI32 = AtomicI32::new(-1);
    /// Set while the instance stays for the next thread, which finds all kernel sockets in it.
    static KEPT: AtomicBool = AtomicBool::new(false);
    /// What the thread runs.
    static MAIN: OnceLock<thread::Main> = OnceLock::new();
    /// When the thread may be tried for again that could not be had.
    static RETRY_AT: AtomicU64 = AtomicU64::new(0);
    /// A function for a round of that in the calling thread.
    static BY_CALLER: OnceLock<fn()> = OnceLock::new();
}

/// The doorbell's event among those of kernel sockets.
pub(crate) const DOOR: u64 = u64::MAX;

/// The doorbell that wakes the thread.
pub(crate) const DOORBELL: u32 = 0;

/// What an kernel socket tells of in any case.
const EVENTS: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
/// There is room on TCP.
const ROOM: u32 = libc::EPOLLOUT as u32;

pub(crate) fn token(index: u32, generation: u32, fd: i32) -> u64 {
    // The descriptor is needed to ask the kernel; generation and index to know that it still is
    // the same connection.
    u64::from(index) | u64::from(generation & 0xfff) << 20 | u64::from(fd as u32) << 32
}

/// The connection that a token means, if it is an kernel socket still.
pub(crate) fn conn_of(token: u64) -> Option<&'static Conn> {
    let index = token as u32 & 0xf_ffff;
    let generation = (token >> 20) as u32 & 0xfff;
    let conn = family::conn(index)?;
    (conn.phase() == Phase::Attached && conn.is_generation_low(generation)).then_some(conn)
}

/// Has the thread, when it is started, run `main`, which is given the epoll instance that the kernel sockets
/// and the doorbell are in.
pub(crate) fn served_by(main: thread::Main) {
    let _ = MAIN.set(main);
}

/// Has `round` do its work where the process cannot have the thread.
pub(crate) fn served_by_callers(round: fn()) {
    let _ = BY_CALLER.set(round);
}

/// The epoll instance that the kernel sockets are in, once the thread has been started.
#[cfg(test)]
pub(crate) fn watching() -> Option<i32> {
    Some(EPOLL.load(Ordering::Acquire)).filter(|&epoll| epoll >= 0)
}

/// Returns true if this process has the thread, and its instance.
pub(crate) fn is_here() -> bool {
    THREAD.runs() && EPOLL.load(Ordering::Acquire) >= 0
}

/// Has the thread that is about to end leave its epoll instance to the next one.
pub(crate) fn keep_instance() {
    KEPT.store(true, Ordering::Release);
}

/// Returns true if the thread is to leave its instance.
pub(crate) fn keeps_instance() -> bool {
    KEPT.load(Ordering::Acquire)
}

/// Takes back [`keep_instance`]: the thread goes on.
pub(crate) fn keep_no_instance() {
    KEPT.store(false, Ordering::Release);
}

/// In a forked child: a kept instance is the parent's.
pub(crate) fn forked() {
    KEPT.store(false, Ordering::Relaxed);
}

/// Starts the thread if this process has none. False if it cannot be had.
pub(crate) fn start() -> bool {
    THREAD.ensure(|| spawn().is_some())
}

/// In a forked child: the thread has stayed with the parent. Asked often, so without a system call.
fn is_missing() -> bool {
    THREAD.is_missing()
}

/// Called by what is about to sleep: in a forked child a thread is started that has the news of the kernel's.
#[inline]
pub(crate) fn ensure() {
    if is_missing() {
        restart();
    }
}

/// Longest sleep of the program's threads, in nanoseconds. Where the process cannot have the thread, each look does its
/// work ([`restart`]).
pub(crate) fn longest_sleep() -> Option<u64> {
    const STEP_NS: u64 = 10_000_000;
    is_missing().then_some(STEP_NS)
}

/// Returns the shorter one of a sleep and [`longest_sleep`].
pub(crate) fn shortened(sleep: Option<u64>) -> Option<u64> {
    sleep.into_iter().chain(longest_sleep()).min()
}

/// Called by what only looks. Not in a signal handler, which may have interrupted the program's malloc: starting
/// a thread takes that.
#[inline]
pub(crate) fn ensure_for_a_look() {
    if is_missing() && !chain::is_in_handler() {
        restart();
    }
}

/// Epoll instance of a thread that has just been started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instance {
    /// A new instance, in which no kernel socket is yet.
    New,
    /// The one that the last thread has left, with all kernel sockets.
    Kept,
}

/// Starts the thread in a forked child, and has it watch all connections that came along. Where there can be none (no descriptor is
/// left, or a limit on processes is reached), the calling thread does a round of its work.
#[cold]
pub(crate) fn restart() {
    /// Nanoseconds between two attempts.
    const RETRY_NS: u64 = 10_000_000;
    if process::is_elsewhere() {
        // A thread of this child would end with it, and be missed by its parent.
        return;
    }
    let now = clock::now_ns();
    let mut started = None;
    let is_due = now >= RETRY_AT.load(Ordering::Relaxed);
    let is_here = is_due
        && THREAD.ensure(|| {
            started = spawn();
            started.is_some()
        });
    if started == Some(Instance::New) {
        table::for_each_conn(|fd, at| {
            if at.conn.phase() == Phase::Attached {
                let room = at.conn.tx() != Tx::Vi;
                note_room(at.index, at.generation, room);
                let events = if room { EVENTS | ROOM } else { EVENTS };
                watch(fd, events, token(at.index, at.generation, fd));
                // The caller must know now what the progress thread finds out soon.
                if poll::probe(fd, libc::POLLRDHUP) != 0 {
                    at.conn.set(flag::KERNEL_SOCKET | flag::ENDED);
                }
            }
        });
    }
    if is_here || chain::is_in_handler() {
        return;
    }
    if is_due {
        RETRY_AT.store(now + RETRY_NS, Ordering::Relaxed);
    }
    // Under a lock the round would take others. The next look does it.
    if let Some(round) = BY_CALLER.get()
        && !section::is_inside()
    {
        round();
    }
}

/// Starts the thread.
fn spawn() -> Option<Instance> {
    let &main = MAIN.get()?;
    let start =
        |epoll: i32| thread::start(main, epoll as usize as *mut libc::c_void, Ends::WhenTold);
    let last = EPOLL.load(Ordering::Acquire);
    if last >= 0 && KEPT.load(Ordering::Acquire) {
        // The thread must not find that it is to leave the instance again.
        keep_no_instance();
        if start(last) {
            return Some(Instance::Kept);
        }
        keep_instance();
        return None;
    }
    let epoll = pair::epoll_of_door(DOORBELL, DOOR)?.into_raw();
    prepare_fences();
    // Here, not in the thread: files are opened for it, and the program's threads alone may make descriptors,
    // each for as long as a call of its own lasts.
    backlog::find_limits();
    if !start(epoll) {
        pair::leave_door(epoll);
        return None;
    }
    EPOLL.store(epoll, Ordering::Release);
    Some(Instance::New)
}

/// Finds out whether the kernel puts fences. In a process of several threads the kernel takes tens of
/// milliseconds for it, for which neither a call of the program's can wait nor the thread that watches kernel sockets.
fn prepare_fences() {
    extern "C" fn run(_: *mut libc::c_void) -> *mut libc::c_void {
        fences::find_out();
        core::ptr::null_mut()
    }
    let start = || thread::start(run, core::ptr::null_mut(), Ends::WhenTold);
    // In a handler no thread is started, and none is waited for.
    if fences::are_known() || !chain::is_in_handler() && !thread::is_single() && start() {
        return;
    }
    fences::find_out();
}

/// Wakes the progress thread, or starts it where it is missing.
pub(crate) fn nudge() {
    ensure_for_a_look();
    ring();
}

/// Wakes the progress thread, if it is there.
pub(crate) fn ring() {
    if let Some(door) = pair::door(DOORBELL as usize) {
        let _ = call::write(door, &1u64.to_ne_bytes());
    }
}

/// Has the thread watch the kernel socket of a connection that has just got its VI.
pub(crate) fn watch_new(fd: i32, at: Ref) {
    // Room on TCP does not count yet. A new socket has it, and that would be an edge at once: the thread would be
    // woken for each connection, to learn nothing.
    note_room(at.index, at.generation, false);
    watch(fd, EVENTS, token(at.index, at.generation, fd));
    // SYNC: with the one in `may_stop_audits`: the thread finds this connection in its look, or the nudge comes
    // after it. And with the one in `thread::ended`: the thread sees this connection before it ends, or it is
    // missed here.
    fence(Ordering::SeqCst);
    if !AUDITS.swap(true, Ordering::Relaxed) {
        nudge();
    }
    ensure();
}

per_engine_tables! {
    /// For which life of a connection, by its index, the progress thread reports room on TCP; 0: for none.
    static ROOMS: [AtomicU32; CONNS] = [const { AtomicU32::new(0) }; CONNS];
}

fn note_room(index: u32, generation: u32, tells: bool) {
    if let Some(room) = ROOMS.get(index as usize) {
        room.store(if tells { life(generation) } else { 0 }, Ordering::Relaxed);
    }
}

/// A generation as a word that is not 0.
fn life(generation: u32) -> u32 {
    generation & 0xff_ffff | 1 << 31
}

/// Has the progress thread report room on TCP, after a send or a look has found none: at once, if there is some
/// meanwhile. Once it reports room it goes on to: to ask again would report other news a second time.
#[cold]
#[inline(never)]
pub(crate) fn watch_room(guard: &Guard<'_>, fd: i32) {
    let conn = guard.conn;
    let vi = conn.vi.load(Ordering::Relaxed);
    let Some(index) = pair::of(guard).and_then(|pair| pair.conn_on(vi)) else { return };
    let generation = conn.generation();
    if ROOMS
        .get(index as usize)
        .is_some_and(|room| room.swap(life(generation), Ordering::Relaxed) == life(generation))
    {
        return;
    }
    let token = token(index, generation, fd);
    let epoll = EPOLL.load(Ordering::Acquire);
    if poll::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, fd, EVENTS | ROOM, token).is_err() {
        // It is watched by another descriptor of the same socket, which may be gone by now.
        watch(fd, EVENTS | ROOM, token);
    }
}

/// Has the thread watch an attached connection's kernel socket. The kernel forgets it once no process has it open.
fn watch(fd: i32, events: u32, token: u64) {
    let epoll = EPOLL.load(Ordering::Acquire);
    // An edge that is there already is reported at once.
    if poll::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, events, token).is_err() {
        // It is watched as the kernel socket of an earlier connection on record.
        let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, fd, events, token);
    }
}

/// The descriptor is no kernel socket any more, though its socket stays open.
pub(crate) fn leave(fd: i32) {
    let epoll = EPOLL.load(Ordering::Acquire);
    let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, 0, 0);
}

per_engine! {
    /// Whether the thread looks at the connections from time to time. It need not while there are none.
    static AUDITS: AtomicBool = AtomicBool::new(false);
}

/// The thread is to look at the connections from time to time.
pub(crate) fn audits() {
    AUDITS.store(true, Ordering::Relaxed);
}

/// The thread does not any more if it finds no connection in the look that follows.
pub(crate) fn may_stop_audits() {
    AUDITS.store(false, Ordering::Relaxed);
    // SYNC: with the one in `watch_new`.
    fence(Ordering::SeqCst);
}

/// Around fork: see [`crate::fork`].
pub(crate) fn hold() {
    THREAD.hold();
}

/// After fork, in both.
pub(crate) fn release() {
    THREAD.release();
}
