//! Combines small messages (ICS section 4.2), if the program or the user has asked for it.
//!
//! The sender puts a small message into the segment's overflow buffer at once. The receiver takes the message as soon
//! as it looks. Only the notification is delayed. So combining saves the sender a packet and a fence, and saves
//! wake-ups of a sleeping receiver. If the sender dies, no message is lost.
//!
//! The sender notifies the receiver
//!
//! 1. when the delay is over,
//! 2. when a chunk of bytes is waiting,
//! 3. with a longer message,
//! 4. when the program receives, waits or closes,
//! 5. when the program switches combining off. `TCP_NODELAY` switches it off, unless `TCP_CORK` is set.

use super::{tell_reader, tx, word};
use crate::conn::{Conn, Guard, Phase, flag};
use crate::per_engine::per_engine;
use crate::{kernel_sockets, table};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_proto::order::Next;
use sovia_proto::path::Tx;
use sovia_sys::{call, clock};

per_engine! {
    /// Earliest time at which some receiver must be notified; `NEVER` if no receiver waits.
    static DUE: AtomicU64 = AtomicU64::new(NEVER);
}
const NEVER: u64 = u64::MAX;
/// Delay before the next look at a connection on which a signal handler has interrupted a call, in nanoseconds.
const INTERRUPTED_NS: u64 = 1_000_000;

/// Returns true if a message of `len` bytes waits for others.
#[inline]
pub(super) fn wants(guard: &Guard<'_>, len: usize) -> bool {
    len < guard.protocol.below as usize && guard.conn.has(flag::COMBINES)
}

/// Adds `bytes` to the number of sent bytes that the receiver does not know about yet.
pub(super) fn wait(guard: &mut Guard<'_>, bytes: usize) {
    let first = guard.untold == 0;
    guard.untold = guard.untold.saturating_add(bytes as u32);
    if guard.untold >= guard.protocol.chunk {
        tell(guard);
    } else if first {
        let due = clock::now_ns() + guard.protocol.delay_ns;
        guard.due = due;
        if DUE.fetch_min(due, Ordering::AcqRel) > due {
            // The progress thread would sleep longer than that.
            kernel_sockets::nudge();
        }
    }
}

/// Notifies the receiver of waiting bytes. Bytes that the receiver has already taken cause no event: an epoll set would
/// report them twice.
#[inline(always)]
pub(crate) fn tell(guard: &mut Guard<'_>) {
    if guard.untold != 0 {
        tell_now(guard);
    }
}

#[cold]
#[inline(never)]
fn tell_now(guard: &mut Guard<'_>) {
    guard.untold = 0;
    let taken = tx(guard).reader.load(word::HEAD);
    if guard.gatherer.next(taken) == Next::Gather {
        tell_reader(guard);
    }
}

/// Returns the time until a receiver must be notified, in nanoseconds.
pub(crate) fn pause() -> Option<u64> {
    let due = DUE.load(Ordering::Acquire);
    (due != NEVER).then(|| due.saturating_sub(clock::now_ns()))
}

/// Notifies every receiver whose delay is over.
pub(crate) fn serve() {
    let now = clock::now_ns();
    if DUE.load(Ordering::Acquire) <= now {
        serve_until(now);
    }
}

/// Notifies all receivers, because the calling thread is about to wait.
#[inline]
pub(crate) fn before_waiting() {
    if DUE.load(Ordering::Relaxed) != NEVER {
        serve_until(NEVER);
    }
}

#[cold]
fn serve_until(now: u64) {
    DUE.store(NEVER, Ordering::Release);
    table::for_each_conn(|_, at| {
        if at.conn.phase() != Phase::Attached || !at.conn.has(flag::COMBINES) {
            return;
        }
        if at.conn.is_mine() {
            // The calling thread runs a signal handler that has interrupted a call on this connection.
            DUE.fetch_min(clock::now_ns() + INTERRUPTED_NS, Ordering::AcqRel);
            kernel_sockets::nudge();
            return;
        }
        let Some(mut guard) = at.attached().filter(|guard| guard.untold != 0) else { return };
        if guard.due <= now || at.conn.tx() != Tx::Vi {
            tell(&mut guard);
        } else {
            DUE.fetch_min(guard.due, Ordering::AcqRel);
        }
    });
}

/// Checks whether the program has switched combining on or off for a connection.
pub(crate) fn switch(guard: &mut Guard<'_>, fd: i32) {
    let conn: &Conn = guard.conn;
    if guard.protocol.below == 0 {
        return;
    }
    let is_set = |name| call::getsockopt::<i32>(fd, libc::IPPROTO_TCP, name).unwrap_or(0) != 0;
    if !is_set(libc::TCP_NODELAY) || is_set(libc::TCP_CORK) {
        conn.set(flag::COMBINES);
    } else {
        conn.clear(flag::COMBINES);
        tell(guard);
    }
}
