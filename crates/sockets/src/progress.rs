//! The progress thread: watches the kernel sockets.
//!
//! A thread that waits for a VI sleeps on memory. Events of the kernel socket (the peer's end of stream, the peer's
//! death, bytes on TCP) do not wake such a thread. So each process has one progress thread. The progress thread
//! sleeps in epoll until a kernel socket has an event, and passes the event on. The progress thread also watches
//! for deaths of peers ([`deaths`]), which a kernel socket does not always report. While the program computes, the
//! progress thread answers peers that revoke a direction ([`crate::fallback`]).

mod deaths;
mod review;

use crate::conn::{CONNS, flag};
use crate::fallback::{self, answer};
use crate::ops::keep;
use crate::pair::notification_sockets;
use crate::per_engine::{per_engine, per_engine_tables};
use crate::stream::audit::{self, Finding};
use crate::stream::{combine, ending, handler_queue, listeners, reflected};
use crate::table::Ref;
use crate::{epoll, family, handler, keepalive, kernel_sockets, tcp_reasons};
use crate::{epoll_sets, linger, pair, peers, rendezvous, table, thread};
use core::mem::replace;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use smallvec::SmallVec;
use sovia_proto::path::{Rx, Tx};
use sovia_sync::hazard::User;
use sovia_sys::{call, clock, poll, process};

per_engine! {
    /// Number of rounds. A thread that sees a change knows that the progress thread runs.
    static ROUNDS: AtomicU32 = AtomicU32::new(0);
}

/// Events of a kernel socket that report the peer's end of stream or an error.
const ENDS: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;

/// Epoll token of the connection to the agent that watches packet filters. Other tokens name kernel sockets.
const FILTERS: u64 = kernel_sockets::DOORBELL_TOKEN - 1;

/// Interval in nanoseconds between two checks if the program's threads have all ended.
const ALONE_NS: u64 = 20_000_000;

/// Makes the progress thread run the rounds of this module from now on.
pub(crate) fn start() {
    kernel_sockets::served_by(run);
    kernel_sockets::served_by_callers(by_caller);
}

/// Ends the progress thread before a fork. So the kernel, too, sees one thread in a single-threaded program. The
/// program's next call that checks or sleeps starts the progress thread again.
///
/// The progress thread stays if another thread exists, or if the progress thread has pending work. The thread also
/// stays while an epoll instance has connections with VIs. A child may use this instance, and then the parent needs
/// a thread that runs [`epoll::leave_shared`], even if the program sleeps in the kernel.
pub(crate) fn end_for_fork() {
    let is_only = thread::count() == 1 && thread::all_end_on_request() && kernel_sockets::is_here();
    if !is_only || work().is_some() || epoll_sets::any_has_attached() || !thread::is_single() {
        return;
    }
    // Signals are deferred in this block. If a handler left the block by `longjmp`, or waited in it, the process
    // would lack its progress thread and no call would notice.
    process::without_signals(|| {
        kernel_sockets::keep_instance();
        // SYNC: pairs with the fence in `thread::ended`. The progress thread may be ending by itself. Either it finds
        // that it must keep its instance, or this thread finds no progress thread.
        fence(Ordering::SeqCst);
        if !kernel_sockets::is_here() {
            kernel_sockets::keep_no_instance();
            return;
        }
        if thread::stop_soon(kernel_sockets::ring) {
            thread::ended();
            thread::resume();
            kernel_sockets::ended_for_fork();
        } else {
            kernel_sockets::keep_no_instance();
        }
    });
}

/// Returns the time in nanoseconds until the progress thread must continue pending work. `None` if no work is
/// pending.
fn work() -> Option<u64> {
    let begun = answer::pause().or_else(keep::pause).or_else(pair::pause);
    let pauses = [combine::pause(), linger::pause(), deaths::pause(), fallback::pause()];
    begun.into_iter().chain(pauses.into_iter().flatten()).min()
}

per_engine! {
    /// Thread that does a round in place of the progress thread; 0 if no thread does.
    static ROUND_OF: AtomicU32 = AtomicU32::new(0);
    /// Time of the next audit of all connections in a round by a caller.
    static AUDIT_AT: AtomicU64 = AtomicU64::new(0);
}

per_engine_tables! {
    /// Generation and end events that a round by a caller has last reported, by the connection's index.
    static SEEN: [AtomicU32; CONNS] = [const { AtomicU32::new(0) }; CONNS];
}

/// Does a round of the progress thread's work in the calling thread, which is about to sleep or has found nothing.
/// Only one thread at a time does a round, and no signal handler interrupts the round.
fn by_caller() {
    let me = User::me().word();
    let taken = ROUND_OF.load(Ordering::Relaxed);
    if taken != 0 && (taken == me || User::from_word(taken).lives()) {
        return;
    }
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    if ROUND_OF.compare_exchange(taken, me, success, failure).is_ok() {
        process::without_signals(round_of_caller);
        ROUND_OF.store(0, Ordering::Release);
    }
}

/// Does the round. Asks the kernel only through the connections' descriptors, because the process may have no room
/// for another descriptor.
fn round_of_caller() {
    let mut all = Vec::new();
    table::for_each_conn(|fd, at| {
        if at.conn.is_attached_here() {
            all.push((fd, at));
        }
    });
    for (fd, at) in all {
        // Each later check of the connection asks the kernel itself.
        at.conn.set(flag::KERNEL_SOCKET);
        // Another process's progress thread may have taken the end's event, and notified no thread of this process.
        if let Some(events) = end_seen_first(fd, at) {
            kernel_socket_event(kernel_sockets::token(at.index, at.generation, fd), events);
        }
    }
    tcp_reasons::receive();
    let now = clock::now_ns();
    if now >= AUDIT_AT.load(Ordering::Relaxed) {
        AUDIT_AT.store(now + audit::PERIOD_NS, Ordering::Relaxed);
        look_from_time_to_time(now);
    }
    review::after_change();
    epoll_sets::look_for_gone();
    epoll::leave_shared();
    deaths::look_around();
    collect_pairs();
    keep::collect();
    serve();
}

/// Removes the pairs of peers that have died.
fn collect_pairs() {
    if pair::collect(epoll_sets::forget_pair) {
        rendezvous::withdraw_from_dead();
        pair::collect(epoll_sets::forget_pair);
    }
}

/// Checks for changes that no event reports. Returns false if there are no connections.
fn look_from_time_to_time(now: u64) -> bool {
    tcp_reasons::look_at_switch();
    keepalive::look(now);
    review::of_carried();
    audit_all(now)
}

/// Does what another thread or a peer may have rung for, before [`serve`].
fn answer_ring() {
    epoll_sets::look_for_gone();
    epoll::leave_shared();
}

/// Continues pending work at the end of a round.
fn serve() {
    combine::serve();
    linger::serve();
    if fallback::continue_pending() {
        epoll::leave_shared();
    }
    // Answer the peer that rang if it wants a path changed. Also send bytes that have waited for room on TCP.
    answer::serve();
}

/// Returns the events that report the end of stream on a kernel socket. Returns them once for each state, because a
/// second report would be a false edge.
fn end_seen_first(fd: i32, at: Ref) -> Option<u32> {
    let state = call::tcp_state(fd).filter(|state| state.peer_has_ended())?;
    let hangs_up = if state.is_closed() { libc::EPOLLHUP } else { 0 };
    let events = (libc::EPOLLRDHUP | hangs_up) as u32;
    // Both bits fit in the lower sixteen bits.
    let seen = at.generation << 16 | events & 0xffff;
    (SEEN.get(at.index as usize)?.swap(seen, Ordering::Relaxed) != seen).then_some(events)
}

extern "C" fn run(argument: *mut libc::c_void) -> *mut libc::c_void {
    let mut rounds = Rounds::begin(argument as usize as i32);
    // The last progress thread may have ended without answering a ring.
    answer_ring();
    serve();
    loop {
        match rounds.next(None) {
            NextRound::Another => {}
            NextRound::Idle => break,
            NextRound::Gone => return core::ptr::null_mut(),
        }
    }
    thread::ended();
    if kernel_sockets::keeps_instance() {
        return core::ptr::null_mut();
    }
    // Look for connections that began meanwhile. Such a connection finds that the thread is missing, or this check
    // finds the connection.
    if !thread::must_end() && (has_pairs() || linger::pause().is_some()) {
        kernel_sockets::restart();
    }
    pair::close_epoll_of_doorbell(rounds.watching);
    core::ptr::null_mut()
}

/// Next step of the progress thread after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextRound {
    /// The thread does another round.
    Another,
    /// The thread ends, because nothing is left to watch or another thread has stopped it.
    Idle,
    /// The thread ends without cleanup, because the process ends or the program has closed the epoll instance.
    Gone,
}

/// The rounds of the progress thread. Each round waits for events and serves them.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// The epoll instance with the kernel sockets and the doorbell.
    watching: i32,
    /// Time of the next audit of all connections; `None` while there are no connections.
    audit: Option<u64>,
    /// Identifies the connection to the agent that watches packet filters. This connection is in the epoll
    /// instance.
    filters: u32,
    /// Count of peers whose deaths the epoll instance reports ([`peers::added`]).
    watched: Option<u32>,
    /// Time at which the thread watches new connections; `None` while there are none.
    new: Option<u64>,
}

impl Rounds {
    /// Begins rounds over the epoll instance `watching`. The thread is started for a connection, so an audit is
    /// scheduled.
    pub(crate) fn begin(watching: i32) -> Rounds {
        Rounds {
            watching,
            audit: Some(clock::now_ns() + audit::PERIOD_NS),
            filters: 0,
            watched: None,
            new: None,
        }
    }

    /// Waits for events, for at most `longest` nanoseconds if given, and serves them.
    pub(crate) fn next(&mut self, longest: Option<u64>) -> NextRound {
        if thread::must_end() {
            return NextRound::Idle;
        }
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 32];
        if self.audit.is_some() {
            kernel_sockets::audits();
        }
        deaths::watch(self.watching, &mut self.watched);
        tcp_reasons::watch(self.watching, &mut self.filters, FILTERS);
        review::after_change();
        ROUNDS.fetch_add(1, Ordering::Relaxed);
        let now = clock::now_ns();
        let left = self.audit.map(|at: u64| at.saturating_sub(now));
        if self.new.is_none() && kernel_sockets::looks_at_new() {
            self.new = Some(now + kernel_sockets::NEW_NS);
        }
        let new = self.new.map(|at| at.saturating_sub(now));
        let alone = thread::may_be_alone().then_some(ALONE_NS);
        let pause = work().into_iter().chain(left).chain(alone).chain(new).min();
        let timeout = pause.into_iter().chain(longest).min();
        let n = match poll::epoll_wait(self.watching, &mut events, timeout, None) {
            Ok(n) => n,
            Err(call::Errno::EINTR) => 0,
            // The program has closed Sovia's epoll descriptor.
            Err(_) => return NextRound::Gone,
        };
        let is_ring = |event: &libc::epoll_event| event.u64 == kernel_sockets::DOORBELL_TOKEN;
        if thread::must_end() && events[..n].iter().all(is_ring) {
            // A fork may wait. The next progress thread answers the ring.
            return NextRound::Idle;
        }
        let is_for_new = n == 0 && new.is_some() && pause == new;
        self.watch_new(is_for_new || longest.is_some(), &events[..n]);
        if is_for_new {
            // Nothing else is due. The rest of a round takes the locks of all connections.
            return NextRound::Another;
        }
        let ends = events[..n].iter().any(|event| event.events & ENDS != 0);
        let died: SmallVec<[u32; 8]> =
            events[..n].iter().filter_map(|event| deaths::peer_of(event.u64)).collect();
        peers::look_at(&died);
        // Check for dead peers only if a peer may have died. The check looks at each pair, and most connections end
        // while their peers live.
        if !died.is_empty() || n == 0 || ends && peers::any_has_died() {
            collect_pairs();
        }
        if ends || n == 0 {
            keep::collect();
        }
        for event in &events[..n] {
            let token = { event.u64 };
            match token {
                kernel_sockets::DOORBELL_TOKEN => answer_ring(),
                FILTERS => tcp_reasons::receive(),
                _ if deaths::peer_of(token).is_some() => {}
                _ if notification_sockets::take_notification(token) => answer_ring(),
                _ => kernel_socket_event(token, event.events),
            }
        }
        if died.is_empty() {
            deaths::go_on();
        } else {
            deaths::look_at_connections();
        }
        let now = clock::now_ns();
        let due = self.audit.is_some_and(|at| at <= now);
        if (due || thread::may_be_alone()) && thread::are_alone() {
            // End the process with its program's last thread, as if Sovia's threads did not exist.
            thread::end();
            handler::nudge_all();
            return NextRound::Gone;
        }
        if due {
            kernel_sockets::may_stop_audits();
            let goes_on = look_from_time_to_time(now) || tcp_reasons::is_off();
            self.audit = goes_on.then_some(now + audit::PERIOD_NS);
            // This thread goes on if it must still unmap a pair.
            let is_done = !has_pairs()
                && pair::pause().or_else(linger::pause).is_none()
                && !tcp_reasons::is_off();
            if pause == left && thread::count() == 1 && is_done {
                // The thread ends, because nothing is left to watch for now.
                return NextRound::Idle;
            }
        } else if self.audit.is_none() {
            // A new connection has woken the thread, so schedule an audit.
            self.audit = Some(now + audit::PERIOD_NS);
        }
        serve();
        NextRound::Another
    }

    /// Watches the new connections if their time has come, or if a peer has rung.
    fn watch_new(&mut self, is_due: bool, events: &[libc::epoll_event]) {
        let is_ring = |event: &libc::epoll_event| {
            event.u64 == kernel_sockets::DOORBELL_TOKEN
                || notification_sockets::is_notification_socket(event.u64)
        };
        let is_late = || self.new.is_some_and(|at| at <= clock::now_ns());
        if self.new.is_some() && (is_due || events.iter().any(is_ring) || is_late()) {
            self.new = None;
            kernel_sockets::watch_queued();
        }
    }
}

#[cfg(test)]
per_engine! {
    /// Rounds of an engine without a progress thread. The caller of [`round`] does the rounds.
    static BY_HAND: std::sync::Mutex<Option<Rounds>> = std::sync::Mutex::new(None);
}

/// Makes the progress thread end at once. From now on [`round`] does its work.
#[cfg(test)]
pub(crate) fn start_by_hand() {
    extern "C" fn end(_: *mut libc::c_void) -> *mut libc::c_void {
        core::ptr::null_mut()
    }
    kernel_sockets::served_by(end);
}

/// Does one round of the progress thread's work, without waiting.
#[cfg(test)]
pub(crate) fn round() {
    if let Some(watching) = kernel_sockets::watching() {
        let mut rounds = BY_HAND.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let after = rounds.get_or_insert_with(|| Rounds::begin(watching)).next(Some(0));
        assert_eq!(after, NextRound::Another);
    }
}

/// Wakes the progress thread to check if only Sovia's threads are left. Called when a thread of the program leaves.
pub(crate) fn leaving() {
    thread::leaving();
    if thread::count() != 0 {
        kernel_sockets::ring();
    }
}

/// Returns true if this process shares a segment with another process.
fn has_pairs() -> bool {
    let mut any = false;
    pair::each(|_, _| any = true);
    any
}

/// Audits every connection of this process. Returns false if the process has no connection.
fn audit_all(now: u64) -> bool {
    let mut any = false;
    let mut any_missed = false;
    epoll_sets::look_for_gone();
    // Check here too, because a forked relative with other doorbells cannot ring this process.
    epoll::leave_shared();
    let mut stalled = Vec::new();
    let mut falling_back = Vec::new();
    pair::each(|_, pair| {
        pair.each_conn(|_, index| {
            any = true;
            let Some(conn) = family::conn(index) else { return };
            let found = audit::look(conn, now);
            if found == Finding::MissedEvent
                && let Some(mut guard) = conn.attached()
            {
                handler_queue::handle(&mut guard);
            }
            if found == Finding::Stalled {
                stalled.push(conn);
            } else if found == Finding::FallingBack {
                falling_back.push(index);
            } else if found != Finding::Fine {
                epoll_sets::queue_missed(pair, conn.vi.load(Ordering::Relaxed));
                if found == Finding::Corrupt || pair.suspect.load(Ordering::Relaxed) {
                    listeners::notify_own(conn);
                } else {
                    // An edge-triggered epoll set has been notified, or is about to be. A second notification would
                    // be a false edge.
                    listeners::wake_own(conn);
                }
                any_missed = true;
            }
        });
    });
    if any_missed {
        pair::ring_own();
    }
    stalled.into_iter().for_each(deaths::look_at_stalled);
    if !falling_back.is_empty() {
        table::for_each_conn(|_, at| {
            if falling_back.contains(&at.index) {
                fallback::go_on(at);
            }
        });
    }
    deaths::look_again();
    // Free memory after the audit of the connections. Memory of a connection that ends meanwhile is freed at the
    // next audit.
    pair::each(|_, pair| any |= pair.give_back());
    any
}

fn kernel_socket_event(token: u64, events: u32) {
    let Some(conn) = kernel_sockets::conn_of(token) else { return };
    let has = |wanted: i32| events & wanted as u32 != 0;
    // Report bytes and room on TCP only for a direction on TCP. For a direction on the VI, the report would be a
    // false edge.
    let bytes = has(libc::EPOLLIN) && conn.rx() != Rx::Vi;
    let room = has(libc::EPOLLOUT) && conn.tx() != Tx::Vi;
    if events & ENDS == 0 {
        if has(libc::EPOLLIN) {
            conn.set(flag::KERNEL_SOCKET);
        }
        if bytes || room {
            listeners::notify_own(conn);
        }
        return;
    }
    conn.set(flag::KERNEL_SOCKET | flag::ENDED);
    // The connection may have ended meanwhile, and its slot may hold another connection.
    let Some(mut guard) = conn.attached().filter(|_| kernel_sockets::conn_of(token).is_some())
    else {
        return;
    };
    if conn.has(flag::REFLECTED) {
        reflected::kernel_socket_ended(&guard);
    }
    // After a reset, Sovia itself has shut the sending half, which causes the hang-up event.
    let has_reset = conn.has(flag::RESET);
    let hangs_up = has(libc::EPOLLHUP) && !has_reset && !conn.has(flag::SHUT_WR);
    let is_orderly = !has(libc::EPOLLERR) && !hangs_up;
    // Report an orderly end only once. A second report, or a report besides the VI's own, would be a false edge. A
    // half that the program itself has shut is not the peer's end. But nothing follows a reset.
    let is_peers = has_reset || !conn.has(flag::SHUT_RD);
    let is_reported = is_peers && replace(&mut guard.own.is_end_reported, true);
    let is_old = is_orderly && (is_reported || !has_reset && ending::is_announced(&guard));
    // After a reset, the kernel socket reports no more bytes and no more room.
    let is_over = is_old && has_reset;
    // A kernel socket that has ended shows its end with every later event. A call that found no bytes or no room
    // must still be notified of new bytes or room.
    if (bytes || room) && !is_over || !is_old {
        listeners::notify_all(&guard);
    } else {
        listeners::wake_all(&guard);
    }
}
