//! The kernel sockets, which the progress thread of each process watches.
//!
//! Other modules call this module to start or wake the progress thread, or to make it watch a kernel socket.
//! [`crate::progress`] has the code that the progress thread runs.

use crate::conn::{CONNS, Conn, Guard, Phase, flag};
use crate::per_engine::{per_engine, per_engine_tables};
use crate::table::{self, Ref};
use crate::thread::{self, Ends, OncePerProcess};
use crate::{backlog, family, pair, process};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
use sovia_proto::path::Tx;
use sovia_signal::chain;
use sovia_sync::{critical_section, fences};
use sovia_sys::{call, clock, poll};
use std::sync::OnceLock;

per_engine! {
    static THREAD: OncePerProcess = OncePerProcess::new();
    static EPOLL: AtomicI32 = AtomicI32::new(-1);
    /// Number of epoll instances that this process and its ancestors have made.
    static INSTANCES: AtomicU32 = AtomicU32::new(0);
    /// Set while the epoll instance stays open for the next progress thread. The instance contains all kernel
    /// sockets.
    static KEPT: AtomicBool = AtomicBool::new(false);
    /// Set while this process lacks its progress thread because of a fork. Cleared in the child.
    static ENDED_FOR_FORK: AtomicBool = AtomicBool::new(false);
    /// Function that the progress thread runs.
    static MAIN: OnceLock<thread::Main> = OnceLock::new();
    /// Time of the next attempt to start the progress thread, after an attempt has failed.
    static RETRY_AT: AtomicU64 = AtomicU64::new(0);
    /// Function that does a round of the progress thread's work in the calling thread.
    static BY_CALLER: OnceLock<fn()> = OnceLock::new();
}

/// Epoll token of the doorbell. Other tokens name kernel sockets.
pub(crate) const DOORBELL_TOKEN: u64 = u64::MAX;

/// Index of the doorbell that wakes the progress thread.
pub(crate) const DOORBELL: u32 = 0;

/// Events that the progress thread always watches on a kernel socket.
const EVENTS: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
/// Event that reports room on TCP.
const ROOM: u32 = libc::EPOLLOUT as u32;

pub(crate) fn token(index: u32, generation: u32, fd: i32) -> u64 {
    // Include the descriptor, to ask the kernel about the socket. Generation and index show if the token still
    // means the same connection.
    u64::from(index) | u64::from(generation & 0xfff) << 20 | u64::from(fd as u32) << 32
}

fn index_of(token: u64) -> u32 {
    token as u32 & 0xf_ffff
}

/// Returns the connection that `token` means, if the connection still has a VI.
pub(crate) fn conn_of(token: u64) -> Option<&'static Conn> {
    let index = index_of(token);
    let generation = (token >> 20) as u32 & 0xfff;
    let conn = family::conn(index)?;
    (conn.phase() == Phase::Attached && conn.is_generation_low(generation)).then_some(conn)
}

/// Sets the function that the progress thread runs. Its argument is the epoll instance with the kernel sockets and
/// the doorbell.
pub(crate) fn served_by(main: thread::Main) {
    let _ = MAIN.set(main);
}

/// Sets the function that does a round of the progress thread's work in a calling thread, if the process has no
/// progress thread.
pub(crate) fn served_by_callers(round: fn()) {
    let _ = BY_CALLER.set(round);
}

/// Returns the epoll instance with the kernel sockets, once the progress thread has been started.
#[cfg(test)]
pub(crate) fn watching() -> Option<i32> {
    Some(EPOLL.load(Ordering::Acquire)).filter(|&epoll| epoll >= 0)
}

/// Returns true if this process has a progress thread and its epoll instance.
pub(crate) fn is_here() -> bool {
    THREAD.runs() && EPOLL.load(Ordering::Acquire) >= 0
}

/// Returns the number of the progress thread's epoll instance, counted over this process and its ancestors.
pub(crate) fn instance() -> u32 {
    INSTANCES.load(Ordering::Relaxed)
}

/// Makes the progress thread, which is about to end, leave its epoll instance open for the next progress thread.
pub(crate) fn keep_instance() {
    KEPT.store(true, Ordering::Release);
}

/// Returns true if the progress thread must leave its epoll instance open at its end.
pub(crate) fn keeps_instance() -> bool {
    KEPT.load(Ordering::Acquire)
}

/// Records that the progress thread has ended for a fork.
pub(crate) fn ended_for_fork() {
    ENDED_FOR_FORK.store(true, Ordering::Relaxed);
}

/// Cancels [`keep_instance`], if the progress thread continues.
pub(crate) fn keep_no_instance() {
    KEPT.store(false, Ordering::Release);
}

/// Resets the state in a forked child. A kept epoll instance belongs to the parent.
pub(crate) fn forked() {
    KEPT.store(false, Ordering::Relaxed);
    ENDED_FOR_FORK.store(false, Ordering::Relaxed);
    LOOKS.store(false, Ordering::Relaxed);
    NEW.iter().for_each(|place| place.store(0, Ordering::Relaxed));
}

/// Makes the first call that needs the progress thread start it. Called in a program that has taken over connections.
pub(crate) fn took_over() {
    AUDITS.store(true, Ordering::Relaxed);
    THREAD.miss();
}

/// Starts the progress thread if this process has none. Returns false if no thread can be started.
pub(crate) fn start() -> bool {
    // A missing thread must also watch inherited connections.
    ensure();
    THREAD.ensure(|| spawn().is_some())
}

/// Returns true if this process has no progress thread, although it or its parent has had one. Makes no system call,
/// because it is called often.
fn is_missing() -> bool {
    THREAD.is_missing()
}

/// Starts a missing progress thread. Call it before a sleep that relies on events of kernel
/// sockets.
#[inline]
pub(crate) fn ensure() {
    if is_missing() {
        restart();
    }
}

/// Returns the longest sleep of a program's thread, in nanoseconds. There is a limit if the process cannot have a
/// progress thread, because calls of the program then do its work ([`restart`]).
pub(crate) fn longest_sleep() -> Option<u64> {
    const STEP_NS: u64 = 10_000_000;
    is_missing().then_some(STEP_NS)
}

/// Returns the shorter of `sleep` and [`longest_sleep`].
pub(crate) fn shortened(sleep: Option<u64>) -> Option<u64> {
    sleep.into_iter().chain(longest_sleep()).min()
}

/// Like [`ensure`], for callers that do not sleep. Does nothing in a signal handler, because starting a thread
/// needs malloc, which the handler may have interrupted.
///
/// Returns true if this call has started the thread. Then a caller that has found nothing must look again, because no
/// thread has watched the kernel sockets until now.
#[inline]
pub(crate) fn ensure_for_a_look() -> bool {
    is_missing() && !chain::is_in_handler() && restart()
}

/// Prepares for a call that may block in the kernel, and that waits for no VI. If a fork has ended the progress thread,
/// starts the thread again, because peers may need this process during the call.
#[inline]
pub(crate) fn before_kernel_wait() {
    if ENDED_FOR_FORK.load(Ordering::Relaxed) {
        start_after_fork();
    }
}

#[cold]
#[inline(never)]
fn start_after_fork() {
    // A child of `vfork` would take the thread with it. A program under seccomp may make no further system calls.
    let may_start = !process::is_elsewhere()
        && !process::is_borrowed()
        && !process::is_under_seccomp()
        && !chain::is_in_handler()
        && !critical_section::is_inside();
    if may_start {
        // Do not try again before the next fork. The next call on a connection does.
        ENDED_FOR_FORK.store(false, Ordering::Relaxed);
        let before = process::errno();
        let _ = start_missing();
        process::set_errno(before);
    }
}

/// Epoll instance of a progress thread that has just been started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NewInstance {
    /// A new instance, which has no kernel socket yet.
    New,
    /// The instance that the last progress thread has left, with all kernel sockets.
    Kept,
}

/// Starts the progress thread if it is missing. If the start fails, the calling thread does a round of the progress
/// thread's work. Returns true if this call has started the thread.
#[cold]
pub(crate) fn restart() -> bool {
    /// Nanoseconds between two attempts to start the progress thread.
    const RETRY_NS: u64 = 10_000_000;
    if process::is_elsewhere() {
        // Do not start a thread in a child of `vfork`. The thread would end with the child, and the parent would
        // have no progress thread.
        return false;
    }
    let now = clock::now_ns();
    let is_due = now >= RETRY_AT.load(Ordering::Relaxed);
    let (is_here, is_new) = if is_due { start_missing() } else { (false, false) };
    if is_here || chain::is_in_handler() {
        return is_new;
    }
    if is_due {
        RETRY_AT.store(now + RETRY_NS, Ordering::Relaxed);
    }
    // Do no round in a critical section, because a round takes locks. A later call does the round.
    if let Some(round) = BY_CALLER.get()
        && !critical_section::is_inside()
    {
        round();
    }
    false
}

/// Starts the progress thread if it is missing, and makes it watch all connections. The next call on each connection
/// asks the kernel, as no thread has watched the kernel sockets for a while. Returns two values: whether there is a
/// progress thread now, and whether this call has started it.
fn start_missing() -> (bool, bool) {
    let mut started = None;
    let is_here = THREAD.ensure(|| {
        started = spawn();
        started.is_some()
    });
    if let Some(instance) = started {
        ENDED_FOR_FORK.store(false, Ordering::Relaxed);
        table::for_each_conn(|fd, at| {
            if at.conn.phase() != Phase::Attached {
                return;
            }
            if instance == NewInstance::New {
                let room = at.conn.tx() != Tx::Vi;
                note_room(at.index, at.generation, room);
                let events = if room { EVENTS | ROOM } else { EVENTS };
                watch(fd, events, token(at.index, at.generation, fd));
            }
            at.conn.set(flag::KERNEL_SOCKET);
        });
    }
    (is_here, started.is_some())
}

/// Starts the progress thread. Returns `None` if no thread can be started.
fn spawn() -> Option<NewInstance> {
    let &main = MAIN.get()?;
    let start =
        |epoll: i32| thread::start(main, epoll as usize as *mut libc::c_void, Ends::OnRequest);
    let last = EPOLL.load(Ordering::Acquire);
    if last >= 0 && KEPT.load(Ordering::Acquire) {
        // Clear `KEPT` first, so that the new thread does not leave the instance open again.
        keep_no_instance();
        if start(last) {
            return Some(NewInstance::Kept);
        }
        keep_instance();
        return None;
    }
    let epoll = pair::epoll_of_doorbell(DOORBELL, DOORBELL_TOKEN)?.into_raw();
    prepare_fences();
    // Find the limits here and not in the thread, because `find_limits` opens files. Only the program's threads may
    // open descriptors, and only during their calls.
    backlog::find_limits();
    // Store the instance first, because the thread adds sockets to it at once.
    let before = EPOLL.swap(epoll, Ordering::AcqRel);
    INSTANCES.fetch_add(1, Ordering::Relaxed);
    if !start(epoll) {
        EPOLL.store(before, Ordering::Release);
        pair::close_epoll_of_doorbell(epoll);
        return None;
    }
    Some(NewInstance::New)
}

/// Finds out if the kernel can execute fences in other threads. In a process with several threads, this takes tens
/// of milliseconds. Neither a call of the program nor the progress thread can wait so long, so another thread makes
/// this check.
fn prepare_fences() {
    extern "C" fn run(_: *mut libc::c_void) -> *mut libc::c_void {
        fences::find_out();
        core::ptr::null_mut()
    }
    let start = || thread::start(run, core::ptr::null_mut(), Ends::OnRequest);
    // Do not start a thread in a signal handler. There, find out without a thread.
    if fences::are_known() || !chain::is_in_handler() && !thread::is_single() && start() {
        return;
    }
    fences::find_out();
}

/// Wakes this process's progress thread, or starts it if it is missing.
pub(crate) fn nudge() {
    ensure_for_a_look();
    ring();
}

/// Wakes the progress threads of this process and of its forked relatives, which have the same doorbell. Starts this
/// process's thread if it is missing.
pub(crate) fn nudge_family() {
    ensure_for_a_look();
    if let Some(doorbell) = pair::doorbell(DOORBELL as usize) {
        let _ = call::write(doorbell, &1u64.to_ne_bytes());
    }
}

/// Wakes this process's progress thread if it runs.
pub(crate) fn ring() {
    pair::wake(EPOLL.load(Ordering::Acquire), DOORBELL, DOORBELL_TOKEN);
}

/// Nanoseconds for which the progress thread does not watch the kernel socket of a new connection. Most connections of
/// few messages end within this time. Watched, each of them would wake the progress thread at its end.
///
/// Until then, a peer that sends on TCP wakes threads that wait for the connection alone
/// ([`crate::stream::sent_on_tcp`]), and so does an end on the VI. Such a thread notices other events of TCP this much
/// later: a death, a reset, an end, and bytes that TCP has held back. A socket for which other threads wait is watched
/// at once.
pub(crate) const NEW_NS: u64 = 2_000_000;

/// Mark of a token in [`NEW`], because a token may be 0.
const QUEUED: u64 = 1 << 63;

per_engine! {
    /// Tokens of new connections, whose kernel sockets the progress thread does not watch yet; 0: a free place. A
    /// token of a connection with a VI is removed only under the connection's lock, under which its descriptor stays
    /// open.
    static NEW: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
    /// Set while the progress thread is to look at [`NEW`] soon.
    static LOOKS: AtomicBool = AtomicBool::new(false);
}

/// Makes the progress thread watch the kernel socket of a connection that has just got its VI: at once, or after
/// [`NEW_NS`]. Called under the lock under which the connection got its VI. The caller must call [`watches_new`]
/// afterwards, without the lock.
pub(crate) fn watch_new(fd: i32, at: Ref, at_once: bool) {
    // Do not watch for room on TCP yet. A new socket always has room, so this edge would wake the progress thread
    // for each new connection.
    note_room(at.index, at.generation, false);
    let token = token(at.index, at.generation, fd);
    let queue = |place: &AtomicU64| {
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        place.load(Ordering::Relaxed) == 0
            && place.compare_exchange(0, token | QUEUED, success, failure).is_ok()
    };
    if at_once || !NEW.iter().any(queue) {
        watch(fd, EVENTS, token);
    }
}

/// Makes the progress thread look after connections, after a call of [`watch_new`].
pub(crate) fn watches_new() {
    // SYNC: pairs with the fence in `may_stop_audits`. Either the progress thread's audit finds the connection, or
    // the nudge comes after the audit. Also pairs with the fence in `thread::ended`. Either the progress thread
    // sees the connection before it ends, or `ensure` finds that the thread is missing. Also pairs with the fence in
    // `watch_queued`. Either the progress thread finds the token there, or this call finds `LOOKS` cleared.
    fence(Ordering::SeqCst);
    let audits = AUDITS.swap(true, Ordering::Relaxed);
    let looks = LOOKS.load(Ordering::Relaxed) || LOOKS.swap(true, Ordering::Relaxed);
    if !audits || !looks {
        nudge();
    }
    ensure();
}

/// Watches the kernel socket of a connection at once, because events of the socket are expected. Called under the
/// connection's lock.
pub(crate) fn watch_at_once(conn: &Conn) {
    if let Some(token) = take_queued(conn) {
        watch_one(token);
    }
}

/// Removes a connection's token from the queue of new connections, and returns the token. Called under the connection's
/// lock.
fn take_queued(conn: &Conn) -> Option<u64> {
    if !LOOKS.load(Ordering::Relaxed) {
        return None;
    }
    let name = token(conn.index.load(Ordering::Relaxed), conn.generation(), 0) | QUEUED;
    NEW.iter().find_map(|place| {
        let queued = place.load(Ordering::Relaxed);
        let is_it = queued & (QUEUED | u64::from(u32::MAX)) == name;
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let is_taken = is_it && place.compare_exchange(queued, 0, success, failure).is_ok();
        is_taken.then_some(queued & !QUEUED)
    })
}

/// Returns true while the progress thread must call [`watch_queued`] within [`NEW_NS`].
pub(crate) fn looks_at_new() -> bool {
    LOOKS.load(Ordering::Relaxed)
}

/// Watches the kernel sockets of all connections in the queue. Most of them are about [`NEW_NS`] old.
pub(crate) fn watch_queued() {
    LOOKS.store(false, Ordering::Relaxed);
    // SYNC: pairs with the fence in `watches_new`.
    fence(Ordering::SeqCst);
    for place in NEW.iter() {
        let queued = place.load(Ordering::Acquire);
        if queued == 0 {
            continue;
        }
        let conn = conn_of(queued & !QUEUED);
        let _lock = conn.map(Conn::lock);
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        if place.compare_exchange(queued, 0, success, failure).is_ok() {
            watch_one(queued & !QUEUED);
        }
    }
}

/// Watches the kernel socket of the connection that `token` means, if the connection still has a VI. Called under the
/// connection's lock.
fn watch_one(token: u64) {
    let Some(conn) = conn_of(token) else { return };
    let at = Ref { index: index_of(token), generation: conn.generation(), conn };
    let named = (token >> 32) as i32;
    let other = || table::descriptor_of(conn);
    if let Some(fd) = Some(named).filter(|&fd| table::refers(fd, at)).or_else(other) {
        watch(fd, events_of(at.index, at.generation), self::token(at.index, at.generation, fd));
    }
}

/// Returns the events that the progress thread watches on the kernel socket of a connection.
fn events_of(index: u32, generation: u32) -> u32 {
    let reports_room = ROOMS
        .get(index as usize)
        .is_some_and(|room| room.load(Ordering::Relaxed) == nonzero(generation));
    if reports_room { EVENTS | ROOM } else { EVENTS }
}

per_engine_tables! {
    /// Generation of a connection for which the progress thread reports room on TCP, by the connection's index; 0:
    /// no such connection.
    static ROOMS: [AtomicU32; CONNS] = [const { AtomicU32::new(0) }; CONNS];
}

fn note_room(index: u32, generation: u32, reports: bool) {
    if let Some(room) = ROOMS.get(index as usize) {
        room.store(if reports { nonzero(generation) } else { 0 }, Ordering::Relaxed);
    }
}

/// Returns `generation` as a word that is never 0.
fn nonzero(generation: u32) -> u32 {
    generation & 0xff_ffff | 1 << 31
}

/// Makes the progress thread report room on TCP, after a call has found none. If there is room by now, the report
/// comes at once. Later room is reported without another call of this function. So a second call does nothing,
/// because a second request to the kernel would report other events again.
#[cold]
#[inline(never)]
pub(crate) fn watch_room(guard: &Guard<'_>, fd: i32) {
    let conn = guard.conn;
    let vi = conn.vi.load(Ordering::Relaxed);
    let Some(index) = pair::of(guard).and_then(|pair| pair.conn_on(vi)) else { return };
    let generation = conn.generation();
    if ROOMS.get(index as usize).is_some_and(|room| {
        room.swap(nonzero(generation), Ordering::Relaxed) == nonzero(generation)
    }) {
        return;
    }
    let token = token(index, generation, fd);
    let _ = take_queued(conn);
    let epoll = EPOLL.load(Ordering::Acquire);
    if poll::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, fd, EVENTS | ROOM, token).is_err() {
        // The progress thread may watch the connection through another descriptor of the same socket, which may be
        // closed by now.
        watch(fd, EVENTS | ROOM, token);
    }
}

/// Makes the progress thread watch the kernel socket of a connection with a VI. The kernel removes the socket from
/// the instance once no process has it open.
fn watch(fd: i32, events: u32, token: u64) {
    let epoll = EPOLL.load(Ordering::Acquire);
    // The kernel reports an event that already exists at once.
    if poll::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, events, token).is_err() {
        // The instance still has this socket, under the token of an earlier connection record.
        let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, fd, events, token);
    }
}

/// Stops watching the kernel socket of a connection whose bytes are on TCP from now on. Otherwise each arrival would wake
/// the progress thread. `fd` is one of the connection's descriptors. Called under the connection's lock, so that it stays
/// open.
pub(crate) fn watch_no_more(fd: i32, at: Ref) {
    let is_alone = || table::references(at.index) == 1;
    if take_queued(at.conn).is_some() || leave(fd) || is_alone() {
        return;
    }
    // The instance knows the socket by another descriptor.
    table::for_each_conn(|fd, other| {
        if other.same(at) {
            leave(fd);
        }
    });
}

/// Watches the kernel socket of a connection by another of its descriptors, because the program is about to close `fd`.
/// The instance knows a socket by a descriptor's number. Once this descriptor is closed, the socket could not be removed.
pub(crate) fn watch_by_another(fd: i32, at: Ref) {
    // The table is not right for a child that runs on this process's memory with its own descriptors.
    if !at.is_attached_here() || process::is_elsewhere() {
        return;
    }
    if let Some(_guard) = at.attached()
        && leave(fd)
        && let Some(other) = table::descriptor_of(at.conn)
    {
        let events = events_of(at.index, at.generation);
        watch(other, events, token(at.index, at.generation, other));
    }
}

/// Stops watching the kernel socket behind `fd`, which stays open. Returns false if the instance does not know the socket
/// by this descriptor.
pub(crate) fn leave(fd: i32) -> bool {
    let epoll = EPOLL.load(Ordering::Acquire);
    poll::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, 0, 0).is_ok()
}

per_engine! {
    /// Set while the progress thread audits the connections from time to time. Cleared while there are no
    /// connections.
    static AUDITS: AtomicBool = AtomicBool::new(false);
}

/// Records that the progress thread audits the connections from time to time.
pub(crate) fn audits() {
    AUDITS.store(true, Ordering::Relaxed);
}

/// Clears `AUDITS` before an audit. The caller continues the audits if this audit finds a connection.
pub(crate) fn may_stop_audits() {
    AUDITS.store(false, Ordering::Relaxed);
    // SYNC: pairs with the fence in `watch_new`. Either `watch_new` finds `AUDITS` cleared, or the audit finds its
    // connection.
    fence(Ordering::SeqCst);
}

/// Takes the lock of the progress thread's start, before a fork ([`crate::fork`]).
pub(crate) fn hold() {
    THREAD.hold();
}

/// Releases the lock of the progress thread's start after a fork, in parent and child.
pub(crate) fn release() {
    THREAD.release();
}
