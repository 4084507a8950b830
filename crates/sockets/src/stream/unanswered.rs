//! Handles a connector that has its VI before the answer to its request ([`flag::UNANSWERED`]).
//!
//! The connector grants the VI together with the request, and continues on TCP. A word of the segment's table decides
//! whether the acceptor takes the request. Both ends change this word by compare-exchange. The connector must know the
//! answer when bytes come on TCP, when TCP ends, before a fallback and at a close. Then the connector takes the request
//! back.
//!
//! If that fails, the acceptor has taken the request, and the connection is an ordinary one. If it succeeds, no other
//! end has taken the VI or will take it. Then the connection is back on TCP in both directions, and nothing has ever
//! been on the VI.

use super::listeners;
use crate::conn::{Guard, flag};
use crate::{pair, stats};
use core::sync::atomic::Ordering;
use sovia_control::Reason;
use sovia_proto::path::{Rx, Tx};

/// Takes the request back if it has not been answered. Returns true if the connection is on TCP from here on. A thread
/// that holds no lock must then make it an ordinary socket ([`crate::fallback::settle`]).
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
    // If this process dies here, a forked relative finds the VI as if the acceptor had taken the request and had then
    // died. So the connection stays on TCP.
    if is_revoked {
        let (none, why) = (0, Reason::PeerPlain as u32 + 1);
        let _ = conn.leaves_for.compare_exchange(none, why, Ordering::Relaxed, Ordering::Relaxed);
        conn.set_rx(Rx::Back);
        conn.set_tx(Tx::Back);
        // Other waiting threads look again.
        listeners::tell_all(guard);
    } else if conn.count_once() {
        stats::accelerated();
    }
    conn.clear(flag::UNANSWERED);
    is_revoked
}
