//! Combines small messages (ICS section 4.2), if the program or the user has switched combining on.
//!
//! The sender puts a small message into the segment's overflow buffer at once, but delays the receiver's
//! notification. A receiver that polls gets the message without delay. Combining saves the sender a packet and a
//! memory fence, and saves wake-ups of a sleeping receiver. If the sender dies, no message is lost.
//!
//! The sender notifies the receiver
//!
//! - when the delay is over;
//! - when a chunk of combined bytes has been sent;
//! - with a longer message;
//! - when the program receives, waits or closes;
//! - when the program switches combining off. `TCP_NODELAY` does this, unless `TCP_CORK` is set.

use super::{notify_reader, tx, word};
use crate::conn::{Conn, Guard, Phase, flag};
use crate::per_engine::per_engine;
use crate::{kernel_sockets, table};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_proto::order::Next;
use sovia_proto::path::Tx;
use sovia_sys::{call, clock};

per_engine! {
    /// Earliest time at which any receiver must be notified; `NEVER` if no notification is pending.
    static DUE: AtomicU64 = AtomicU64::new(NEVER);
}
const NEVER: u64 = u64::MAX;
/// Delay in nanoseconds before [`serve_until`] tries again to notify a receiver. Used if a signal handler has
/// interrupted a call on the same connection.
const INTERRUPTED_NS: u64 = 1_000_000;

/// Returns true if a message of `len` bytes is combined with later messages.
#[inline]
pub(super) fn wants(guard: &Guard<'_>, len: usize) -> bool {
    len < guard.protocol.below as usize && guard.conn.has(flag::COMBINES)
}

/// Counts `bytes` combined bytes that were sent without notifying the receiver. Notifies the receiver once a whole
/// chunk has been sent.
pub(super) fn wait(guard: &mut Guard<'_>, bytes: usize) {
    let first = guard.unnotified == 0;
    guard.unnotified = guard.unnotified.saturating_add(bytes as u32);
    if guard.unnotified >= guard.protocol.chunk {
        notify_receiver(guard);
    } else if first {
        let due = clock::now_ns() + guard.protocol.delay_ns;
        guard.due = due;
        if DUE.fetch_min(due, Ordering::AcqRel) > due {
            // Wakes the progress thread, which would otherwise sleep beyond `due`.
            kernel_sockets::nudge();
        }
    }
}

/// Notifies the receiver of combined bytes, unless the receiver has already taken them. A notification of bytes
/// that were taken would make an epoll set report them twice.
#[inline(always)]
pub(crate) fn notify_receiver(guard: &mut Guard<'_>) {
    if guard.unnotified != 0 {
        notify_receiver_now(guard);
    }
}

#[cold]
#[inline(never)]
fn notify_receiver_now(guard: &mut Guard<'_>) {
    guard.unnotified = 0;
    let taken = tx(guard).reader.load(word::HEAD);
    if guard.coalescer.next(taken) == Next::Coalesce {
        notify_reader(guard);
    }
}

/// Returns the time in nanoseconds until the next receiver must be notified, or `None` if no notification is
/// pending.
pub(crate) fn pause() -> Option<u64> {
    let due = DUE.load(Ordering::Acquire);
    (due != NEVER).then(|| due.saturating_sub(clock::now_ns()))
}

/// Notifies every receiver whose delay for combined messages is over.
pub(crate) fn serve() {
    let now = clock::now_ns();
    if DUE.load(Ordering::Acquire) <= now {
        serve_until(now);
    }
}

/// Notifies all receivers of combined messages. Called when the calling thread is about to wait.
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
            // The calling thread runs a signal handler that has interrupted a call on this connection. So this
            // thread must not use the connection now.
            DUE.fetch_min(clock::now_ns() + INTERRUPTED_NS, Ordering::AcqRel);
            kernel_sockets::nudge();
            return;
        }
        let Some(mut guard) = at.attached().filter(|guard| guard.unnotified != 0) else { return };
        if guard.due <= now || at.conn.tx() != Tx::Vi {
            notify_receiver(&mut guard);
        } else {
            DUE.fetch_min(guard.due, Ordering::AcqRel);
        }
    });
}

/// Switches combining on or off for a connection, by its present TCP_NODELAY and TCP_CORK options.
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
        notify_receiver(guard);
    }
}
