//! Combining small messages (ICS section 4.2), where it has been asked for.
//!
//! A small message goes to the gathered bytes of the segment, from where the receiver takes it as
//! soon as it looks; what waits is only the news of it. So combining saves the sender the packet and
//! the fence, and a sleeping receiver its wake-ups, and a message is not lost with its sender. The
//! receiver is told (1) when the delay is over, (2) when a chunk of bytes waits, (3) with a larger
//! message, (4) when the program receives, waits or closes, and when it switches combining off:
//! `TCP_NODELAY` does that, and `TCP_CORK` overrules it.

use super::{tell_reader, tx, word};
use crate::conn::{Conn, Guard, Phase, flag};
use crate::per_engine::per_engine;
use crate::{kernel_sockets, table};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_proto::order::Next;
use sovia_proto::path::Tx;
use sovia_sys::{call, clock};

per_engine! {
    /// When the receiver of some connection must be told at the latest; `NEVER` if none waits.
    static DUE: AtomicU64 = AtomicU64::new(NEVER);
}
const NEVER: u64 = u64::MAX;
/// When it is looked again at a connection that was in the middle of a call.
const INTERRUPTED_NS: u64 = 1_000_000;

/// Whether a message of so many bytes waits for others.
#[inline]
pub(super) fn wants(guard: &Guard<'_>, len: usize) -> bool {
    len < guard.protocol.below as usize && guard.conn.has(flag::COMBINES)
}

/// So many bytes more wait for the receiver to be notified of them.
pub(super) fn wait(guard: &mut Guard<'_>, bytes: usize) {
    let first = guard.untold == 0;
    guard.untold = guard.untold.saturating_add(bytes as u32);
    if guard.untold >= guard.protocol.chunk {
        tell(guard);
    } else if first {
        let due = clock::now_ns() + guard.protocol.delay_ns;
        guard.due = due;
        if DUE.fetch_min(due, Ordering::AcqRel) > due {
            // The thread sleeps for longer than that.
            kernel_sockets::nudge();
        }
    }
}

/// Tells the receiver of what waits. What it has taken meanwhile is no news: an epoll set would report
/// it a second time.
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

/// How long until a receiver must be told (nanoseconds).
pub(crate) fn pause() -> Option<u64> {
    let due = DUE.load(Ordering::Acquire);
    (due != NEVER).then(|| due.saturating_sub(clock::now_ns()))
}

/// Tells every receiver for which the delay is over.
pub(crate) fn serve() {
    let now = clock::now_ns();
    if DUE.load(Ordering::Acquire) <= now {
        serve_until(now);
    }
}

/// The calling thread is about to wait for something, and says nothing more until then.
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
            // A signal handler waits that has interrupted a call on it.
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

/// The program may have switched combining for a connection.
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
