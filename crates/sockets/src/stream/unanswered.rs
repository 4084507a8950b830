//! A connector that has its VI before its request has been answered ([`flag::UNANSWERED`]).
//!
//! It grants the VI with the request, and goes on on TCP. Whether the acceptor takes the request or not is decided by
//! one word of the table, which both ends change by compare-exchange: whatever makes this end ask (bytes on TCP, the
//! end of TCP, a way back, a close) asks by taking the request back. If that fails the acceptor has taken it, and the
//! connection is one like any other. If it succeeds no other end has come to the VI or will, and the connection is back on
//! TCP in both directions: nothing has ever been on the VI.

use super::listeners;
use crate::conn::{Guard, flag};
use crate::{pair, stats};
use core::sync::atomic::Ordering;
use sovia_control::Reason;
use sovia_proto::path::{Rx, Tx};

/// Finds out whether the request has been answered, and takes it back if it has not. True if the connection is on TCP
/// from here on: a thread that holds no lock makes it an ordinary socket ([`crate::fallback::settle`]).
#[inline]
pub(crate) fn settle(guard: &mut Guard<'_>) -> bool {
    guard.conn.has(flag::UNANSWERED) && settle_now(guard)
}

#[cold]
#[inline(never)]
fn settle_now(guard: &mut Guard<'_>) -> bool {
    let conn = guard.conn;
    let vi = conn.vi.load(Ordering::Relaxed);
    let revoke = |pair: &pair::Pair| {
        let is_revoked = pair.revoke(vi);
        pair.answers.store(!is_revoked, Ordering::Relaxed);
        is_revoked
    };
    let is_revoked = pair::of(guard).is_some_and(revoke);
    // Should this process die here, a relative finds the VI as an acceptor would leave it that has taken the request
    // and not come: the connection stays on TCP.
    if is_revoked {
        let (none, why) = (0, Reason::PeerPlain as u32 + 1);
        let _ = conn.leaves_for.compare_exchange(none, why, Ordering::Relaxed, Ordering::Relaxed);
        conn.set_rx(Rx::Back);
        conn.set_tx(Tx::Back);
        // Other threads that wait look again.
        listeners::tell_all(guard);
    } else if conn.count_once() {
        stats::accelerated();
    }
    conn.clear(flag::UNANSWERED);
    is_revoked
}
