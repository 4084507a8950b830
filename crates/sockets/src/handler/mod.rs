//! The thread that handles messages for the program (SOVIA_HANDLER, ICS section 4.1 and figure 4).
//!
//! One for each process, started with the first connection that asks for it. In each pair it has a
//! ready list, which is its completion queue: the peer marks there the VIs on which something has arrived.
//! It sleeps in the kernel, as a thread that waits for a completion queue does, so a message costs two
//! wake-ups: the thread's, and the program's. For SOVIA_NOTIFY it is the NIC's thread, which has
//! another one, [`notify`], call back.
//!
//! A forked child has no part in the pairs that its parent has made. Their connections go on being handled by the parent as long as
//! that holds them and no child receives on them or waits for them. For connections of its own it starts its own
//! threads.

mod notify;

use crate::conn::{Conn, flag};
use crate::pair::{self, DOORBELLS, Pair, ReadyList, bells};
use crate::per_engine::per_engine;
use crate::stream::handled;
use crate::thread::{self, Ends, OncePerProcess};
use crate::{errno, family, members};
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_proto::configuration::Handling;
use sovia_sync::{RobustBox, rank};
use sovia_sys::{call, poll};
use std::sync::Arc;

/// The doorbell that wakes the thread.
const DOORBELL: u32 = DOORBELLS as u32 - 1;
/// How long the thread waits for a connection's lock before it sees to others. Its holder may be
/// taking the connection back to TCP, for as long as the peer does not read.
const LOCK_NS: u64 = 1_000_000;

per_engine! {
    static THREAD: OncePerProcess = OncePerProcess::new();
    /// The pairs that the thread waits for.
    static LANES: RobustBox<Vec<Lane>, { rank::LANES }> = RobustBox::new(Vec::new());
    /// Changes when those do.
    static CHANGES: AtomicU32 = AtomicU32::new(0);
}

/// What connects the thread with one pair of processes.
#[derive(Debug, Clone)]
struct Lane {
    pair: Arc<Pair>,
    ready_list: u32,
}

/// How a thread of this process is to handle the messages of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handles {
    /// The thread's ready list in the connection's pair.
    pub(crate) ready_list: u32,
    /// Flags of the connection that say how.
    pub(crate) flags: u32,
}

/// Has a thread ready for a connection of that pair; `None` if its calls handle its messages, because
/// that is what is chosen, or no thread can be had.
pub(crate) fn ready(handling: Handling, pair: u32) -> Option<Handles> {
    let flags = match handling {
        Handling::Single => return None,
        Handling::Handler => 0,
        Handling::Notify => flag::NOTIFIED,
    };
    // A relative that would take over must be able to tell when this process has gone.
    if !members::is_known() || !THREAD.ensure(spawn) {
        return None;
    }
    if handling == Handling::Notify && !notify::ensure() {
        return None;
    }
    Some(Handles { ready_list: ready_list(pair)?, flags })
}

/// The thread's ready list in a pair.
fn ready_list(index: u32) -> Option<u32> {
    let pair = pair::share(index)?;
    if !pair.is_own() {
        // Its ready lists are its maker's.
        return None;
    }
    LANES.with(|lanes| {
        lanes.retain(|lane| pair::is_current(&lane.pair));
        if let Some(lane) = lanes.iter().find(|lane| Arc::ptr_eq(&lane.pair, &pair)) {
            return Some(lane.ready_list);
        }
        let ready_list = pair.take_ready_list(DOORBELL)?;
        lanes.push(Lane { pair, ready_list });
        CHANGES.fetch_add(1, Ordering::Release);
        // A handler's thread that sleeps has not announced that in this pair.
        nudge();
        Some(ready_list)
    })
}

/// Wakes the handlers' threads.
pub(crate) fn nudge_all() {
    nudge();
    notify::nudge();
}

fn nudge() {
    if let Some(door) = pair::door(DOORBELL as usize) {
        let _ = call::write(door, &1u64.to_ne_bytes());
    }
}

fn spawn() -> bool {
    let Some(epoll) = pair::epoll_of_door(DOORBELL, 0) else { return false };
    let started = thread::start(run, epoll.raw() as usize as *mut libc::c_void, Ends::WhenTold);
    if started {
        // The thread's.
        let _ = epoll.into_raw();
    }
    started
}

impl Lane {
    fn ready_list(&self) -> &ReadyList {
        self.pair.ready_list(self.ready_list)
    }
}

extern "C" fn run(argument: *mut libc::c_void) -> *mut libc::c_void {
    let epoll = argument as usize as i32;
    let mut lanes: Vec<Lane> = Vec::new();
    let mut changes = None;
    // Connections whose locks others held.
    let mut later: Vec<u32> = Vec::new();
    while !thread::must_end() {
        let now = CHANGES.load(Ordering::Acquire);
        if changes.replace(now) != Some(now) {
            lanes = LANES.with(|lanes| lanes.clone());
        }
        for index in core::mem::take(&mut later) {
            arrived(index, &mut later);
        }
        for lane in &lanes {
            lane.ready_list().drain(|vi| {
                if let Some(index) = lane.pair.conn_on(vi) {
                    arrived(index, &mut later);
                }
            });
        }
        for lane in &lanes {
            lane.ready_list().rung_by(DOORBELL);
            lane.ready_list().going_to_sleep();
        }
        let news = lanes.iter().any(|lane| lane.ready_list().has_news());
        if !news {
            let pause = (!later.is_empty()).then_some(LOCK_NS);
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
            match poll::epoll_wait(epoll, &mut events, pause, None).map_err(errno) {
                Ok(n) => {
                    // They are taken: of another user's rings there is room for some 270.
                    for event in &events[..n] {
                        bells::heard(event.u64);
                    }
                }
                Err(libc::EINTR) => {}
                // The program has closed our descriptor behind our back.
                Err(_) => return core::ptr::null_mut(),
            }
        }
        for lane in &lanes {
            lane.ready_list().awake();
        }
    }
    pair::leave_door(epoll);
    core::ptr::null_mut()
}

/// Something has arrived on a connection.
fn arrived(index: u32, later: &mut Vec<u32>) {
    let Some(conn) = family::conn(index) else { return };
    if conn.has(flag::NOTIFIED) {
        notify::call(index);
    } else if !handle(conn) {
        later.push(index);
    }
}

/// Handles what has arrived on a connection; false if others hold its lock for long.
fn handle(conn: &Conn) -> bool {
    match conn.lock_within(LOCK_NS) {
        Some(locked) => {
            if let Some(mut guard) = locked.attached() {
                handled::handle_own(&mut guard);
            }
            true
        }
        None => false,
    }
}

/// Around fork: see [`crate::fork`].
pub(crate) fn hold() {
    THREAD.hold();
    notify::hold();
    LANES.hold();
}

/// After fork, in both.
pub(crate) fn release() {
    LANES.release();
    notify::release();
    THREAD.release();
}

/// The process has left all pairs.
pub(crate) fn begin_anew() {
    let any = LANES.with(|lanes| !core::mem::take(lanes).is_empty());
    if any {
        CHANGES.fetch_add(1, Ordering::Release);
        nudge();
    }
}

/// In a forked child, which begins without threads and pairs of its own.
pub(crate) fn forked() {
    LANES.with(Vec::clear);
    notify::forked();
}
