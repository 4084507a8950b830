//! Handles a connector that uses its VI before the acceptor has answered the request for the VI
//! ([`flag::UNANSWERED`]).
//!
//! The connector grants the VI together with the request, and continues on TCP. It must know whether the acceptor
//! has taken the request when bytes arrive on TCP, when TCP ends, before a fallback and at a close. To find out,
//! the connector tries to take the request back. The acceptor takes the request, and the connector takes it back,
//! by compare-exchange on the same word of the segment.
//!
//! If taking back fails, the acceptor has taken the request, and the VI is used as usual. If taking back succeeds,
//! the acceptor will never use the VI. Then the connection is on TCP in each direction, and no byte has been sent
//! on the VI.

use super::listeners;
use crate::conn::{Guard, flag};
use crate::{pair, stats};
use core::sync::atomic::Ordering;
use sovia_control::Reason;
use sovia_proto::path::{Rx, Tx};

/// Takes the request for the VI back, if the acceptor has not answered the request. Returns true if this moved the
/// connection to TCP. Then a thread without the connection's lock must complete the fallback
/// ([`crate::fallback::settle`]).
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
    // If this process dies here, a forked relative finds the same state as if the acceptor had taken the request
    // and had then died. The relative then keeps the connection on TCP.
    if is_revoked {
        let (none, why) = (0, Reason::NotTaken as u32 + 1);
        let _ = conn.leaves_for.compare_exchange(none, why, Ordering::Relaxed, Ordering::Relaxed);
        conn.set_rx(Rx::Back);
        conn.set_tx(Tx::Back);
        // Wakes other waiting threads, which must now wait for TCP.
        listeners::notify_all(guard);
    } else if conn.count_once() {
        stats::accelerated();
    }
    conn.clear(flag::UNANSWERED);
    is_revoked
}
