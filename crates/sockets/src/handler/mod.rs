//! The handler thread, which handles messages for the program (SOVIA_HANDLER, ICS section 4.1 and figure 4).
//!
//! Each process has one handler thread, started with the first connection that asks for it. In each pair, the
//! thread has a ready list as its completion queue. The peer marks VIs with messages in this list. The thread
//! sleeps in the kernel, like a thread that waits for a completion queue. So a message costs two wake-ups: the
//! handler thread's and the program's. With SOVIA_NOTIFY, this thread plays the part of the NIC's thread, and makes
//! another thread ([`notify`]) call back.
//!
//! A forked child does not use the pairs that its parent has made. The parent handles a connection's messages as
//! long as the parent holds the connection, and no child receives or waits on the connection. A child starts its
//! own handler thread for its own connections.

mod notify;

use crate::conn::{Conn, flag};
use crate::pair::{self, DOORBELLS, Pair, ReadyList, notification_sockets};
use crate::per_engine::per_engine;
use crate::stream::handler_queue;
use crate::thread::{self, Ends, OncePerProcess};
use crate::{errno, family, process_slots};
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_proto::configuration::Handling;
use sovia_sync::{RobustBox, rank};
use sovia_sys::{call, poll};
use std::sync::Arc;

/// Index of the doorbell that wakes the handler thread.
const DOORBELL: u32 = DOORBELLS as u32 - 1;
/// Longest time in nanoseconds that the handler thread waits for a connection's lock before it serves other
/// connections. The lock's holder may be moving the connection back to TCP, which lasts until the peer reads.
const LOCK_NS: u64 = 1_000_000;

per_engine! {
    static THREAD: OncePerProcess = OncePerProcess::new();
    /// Pairs that the handler thread serves.
    static SERVED_PAIRS: RobustBox<Vec<ServedPair>, { rank::SERVED_PAIRS }> = RobustBox::new(Vec::new());
    /// Incremented when `SERVED_PAIRS` changes, so that the handler thread copies `SERVED_PAIRS` again.
    static CHANGES: AtomicU32 = AtomicU32::new(0);
}

/// The part of the handler thread that concerns one pair of processes.
#[derive(Debug, Clone)]
struct ServedPair {
    pair: Arc<Pair>,
    ready_list: u32,
}

/// Settings of a connection whose messages the handler thread handles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handles {
    /// The handler thread's ready list in the connection's pair.
    pub(crate) ready_list: u32,
    /// Connection flags that select how messages are handled.
    pub(crate) flags: u32,
}

/// Starts the handler thread for a connection of the pair with index `pair`, if needed. Returns `None` if the
/// program's calls must handle the messages, because the settings say so or no thread can be started.
pub(crate) fn ready(handling: Handling, pair: u32) -> Option<Handles> {
    let flags = match handling {
        Handling::Single => return None,
        Handling::Handler => 0,
        Handling::Notify => flag::NOTIFIED,
    };
    // A forked relative must be able to notice this process's death, to take over.
    if !process_slots::is_known() || !THREAD.ensure(spawn) {
        return None;
    }
    if handling == Handling::Notify && !notify::ensure() {
        return None;
    }
    Some(Handles { ready_list: ready_list(pair)?, flags })
}

/// Returns the handler thread's ready list in the pair `index`, and takes one if necessary.
fn ready_list(index: u32) -> Option<u32> {
    let pair = pair::share(index)?;
    if !pair.is_own() {
        // A forked relative has made this pair and owns the pair's ready lists.
        return None;
    }
    SERVED_PAIRS.with(|served_pairs| {
        served_pairs.retain(|served_pair| pair::is_current(&served_pair.pair));
        if let Some(served_pair) =
            served_pairs.iter().find(|served_pair| Arc::ptr_eq(&served_pair.pair, &pair))
        {
            return Some(served_pair.ready_list);
        }
        let ready_list = pair.take_ready_list(DOORBELL)?;
        served_pairs.push(ServedPair { pair, ready_list });
        CHANGES.fetch_add(1, Ordering::Release);
        // Wake the handler thread, because a sleeping handler thread has not announced its sleep in this pair.
        nudge();
        Some(ready_list)
    })
}

/// Wakes the handler thread and the notifying thread.
pub(crate) fn nudge_all() {
    nudge();
    notify::nudge();
}

fn nudge() {
    if let Some(doorbell) = pair::doorbell(DOORBELL as usize) {
        let _ = call::write(doorbell, &1u64.to_ne_bytes());
    }
}

fn spawn() -> bool {
    let Some(epoll) = pair::epoll_of_doorbell(DOORBELL, 0) else { return false };
    let started = thread::start(run, epoll.raw() as usize as *mut libc::c_void, Ends::OnRequest);
    if started {
        // The handler thread owns the descriptor from now on.
        let _ = epoll.into_raw();
    }
    started
}

impl ServedPair {
    fn ready_list(&self) -> &ReadyList {
        self.pair.ready_list(self.ready_list)
    }
}

extern "C" fn run(argument: *mut libc::c_void) -> *mut libc::c_void {
    let epoll = argument as usize as i32;
    let mut served_pairs: Vec<ServedPair> = Vec::new();
    let mut changes = None;
    // Connections whose locks other threads held, so that the handler thread must try again.
    let mut later: Vec<u32> = Vec::new();
    while !thread::must_end() {
        let now = CHANGES.load(Ordering::Acquire);
        if changes.replace(now) != Some(now) {
            served_pairs = SERVED_PAIRS.with(|served_pairs| served_pairs.clone());
        }
        for index in core::mem::take(&mut later) {
            arrived(index, &mut later);
        }
        for served_pair in &served_pairs {
            served_pair.ready_list().drain(|vi| {
                if let Some(index) = served_pair.pair.conn_on(vi) {
                    arrived(index, &mut later);
                }
            });
        }
        for served_pair in &served_pairs {
            served_pair.ready_list().rung_by(DOORBELL);
            served_pair.ready_list().going_to_sleep();
        }
        let has_event =
            served_pairs.iter().any(|served_pair| served_pair.ready_list().has_events());
        if !has_event {
            let pause = (!later.is_empty()).then_some(LOCK_NS);
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
            match poll::epoll_wait(epoll, &mut events, pause, None).map_err(errno) {
                Ok(n) => {
                    // Take the notifications from processes of other users. Their sockets have room for only about
                    // 270 notifications.
                    for event in &events[..n] {
                        notification_sockets::take_notification(event.u64);
                    }
                }
                Err(libc::EINTR) => {}
                // The program has closed the handler thread's epoll descriptor.
                Err(_) => return core::ptr::null_mut(),
            }
        }
        for served_pair in &served_pairs {
            served_pair.ready_list().awake();
        }
    }
    pair::close_epoll_of_doorbell(epoll);
    core::ptr::null_mut()
}

/// Handles messages that have arrived on the connection `index`, or passes the connection to the notifying thread.
fn arrived(index: u32, later: &mut Vec<u32>) {
    let Some(conn) = family::conn(index) else { return };
    if conn.has(flag::NOTIFIED) {
        notify::call(index);
    } else if !handle(conn) {
        later.push(index);
    }
}

/// Queues messages that have arrived on the connection. Returns false if another thread holds the connection's lock
/// for more than `LOCK_NS`.
fn handle(conn: &Conn) -> bool {
    match conn.lock_within(LOCK_NS) {
        Some(locked) => {
            if let Some(mut guard) = locked.attached() {
                handler_queue::handle_own(&mut guard);
            }
            true
        }
        None => false,
    }
}

/// Takes this module's locks before a fork ([`crate::fork`]).
pub(crate) fn hold() {
    THREAD.hold();
    notify::hold();
    SERVED_PAIRS.hold();
}

/// Releases this module's locks after a fork, in parent and child.
pub(crate) fn release() {
    SERVED_PAIRS.release();
    notify::release();
    THREAD.release();
}

/// Drops the handler thread's pairs. Called after the process has left all pairs.
pub(crate) fn begin_anew() {
    let any = SERVED_PAIRS.with(|served_pairs| !core::mem::take(served_pairs).is_empty());
    if any {
        CHANGES.fetch_add(1, Ordering::Release);
        nudge();
    }
}

/// Drops the parent's pairs and pending calls in a forked child.
pub(crate) fn forked() {
    SERVED_PAIRS.with(Vec::clear);
    notify::forked();
}
