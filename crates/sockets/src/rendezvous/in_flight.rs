//! Messages in flight, from which a connector decides if a NIC in software should carry its connection.
//!
//! On a VI between hosts, each message passes the processes of two NICs. A single message therefore takes longer than over
//! TCP. Many messages at the same time share the wake-ups of these processes and the frames between the hosts, and are
//! faster than over TCP. So a connector requests a VI only while this process's connectors have enough small messages in
//! flight: sent, and not answered. An acceptor requests its VI at once, and gets the VI once the connector has made its
//! request.

use crate::conn::{Guard, Phase, flag};
use crate::pair;
use crate::per_engine::per_engine;
use crate::table::{self, Ref};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sovia_control::{Reason, Traffic};
use sovia_sys::clock;

/// Average number of bytes of a transfer from which a connection is faster over TCP than through NICs.
const LONG: u64 = 1 << 10;
/// Minimum time in nanoseconds between two counts.
const PERIOD_NS: u64 = 1_000_000;
/// A count looks at all connections, and takes at most this part of the time.
const SHARE: u64 = 100;
/// Time in nanoseconds for which a count holds. Meanwhile the connections that were counted take their steps, and leave
/// TCP.
const HOLDS_NS: u64 = 200_000_000;

per_engine! {
    /// Time of the next count.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    /// Largest count that still holds.
    static LARGEST: AtomicU32 = AtomicU32::new(0);
    /// Time of this count.
    static COUNTED_AT: AtomicU64 = AtomicU64::new(0);
}

/// Returns true if a connector must not request a VI from its NIC now, because too few messages are in flight. Stores this
/// reason in the connection. Returns false if it is unknown which NIC carries the connection.
pub(super) fn are_too_few(at: Ref) -> bool {
    let least = at.conn.approach.messages.load(Ordering::Relaxed);
    // With the number 1 a connection does not wait, not even if it is idle or its messages are long.
    if least <= 1 || !at.conn.is_connector() || !has_long(at) && in_flight() >= least {
        return false;
    }
    at.conn.keep_for(Some(Reason::FewMessages));
    true
}

/// Takes in the reports of this process's NICs. Called about once a second. Returns false if there is no NIC.
pub(crate) fn look_at_nics() -> bool {
    let mut any = false;
    pair::each(|_, pair| {
        if pair.is_nic() {
            any = true;
            let words = pair.segment.side(pair.side ^ 1);
            pair.in_flight.take(words.in_flight.load(Ordering::Relaxed));
        }
    });
    any
}

/// Returns true if a NIC carries the connection, and TCP would be faster. Then the process had too few messages in flight
/// in the latest seconds with traffic, or the messages that this end has sent are long. (An end that only receives long
/// messages has few in flight.)
pub(crate) fn is_faster_on_tcp(at: Ref) -> bool {
    let conn = at.conn;
    let least = conn.approach.messages.load(Ordering::Relaxed);
    // A connection whose NIC has died is no longer reflected, and is on its way to TCP.
    let is_carried = at.is_attached_here() && conn.has(flag::REFLECTED) && !conn.is_going_back();
    if least <= 1 || !conn.is_connector() || !is_carried {
        return false;
    }
    let Some(pair) = pair::get(conn.pair.load(Ordering::Relaxed)) else { return false };
    // Half of the number: a connection that is carried must not return to TCP for a small change.
    pair.in_flight.greatest() < least / 2
        || conn.attached().is_some_and(|mut guard| has_sent_long(&mut guard))
}

/// Returns true if the messages that this end has sent on the VI since the last look have been long on average.
fn has_sent_long(guard: &mut Guard<'_>) -> bool {
    /// Number of messages below which an average means nothing.
    const LEAST: u64 = 64;
    let sum = |count: fn(&Traffic) -> u64| count(&guard.traffic) + count(&guard.past);
    let sent = [sum(|traffic| traffic.bytes_sent), sum(|traffic| traffic.messages_sent)];
    let [bytes, messages] = [0, 1].map(|i| sent[i] - guard.seen.sent[i].min(sent[i]));
    if messages < LEAST {
        return false;
    }
    guard.seen.sent = sent;
    bytes / messages >= LONG
}

/// Returns the number of messages that this process's connectors have had in flight, on connections that a NIC may carry.
/// Other threads may store their results at the same time. Then one result is lost, which costs time but does no harm.
fn in_flight() -> u32 {
    let now = clock::now_ns();
    let next = NEXT.load(Ordering::Relaxed);
    let later = now + PERIOD_NS;
    let holds = |now: u64| now.saturating_sub(COUNTED_AT.load(Ordering::Relaxed)) < HOLDS_NS;
    let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
    if now >= next && NEXT.compare_exchange(next, later, success, failure).is_ok() {
        let messages = count();
        if !holds(now) || messages >= LARGEST.load(Ordering::Relaxed) {
            LARGEST.store(messages, Ordering::Relaxed);
            COUNTED_AT.store(now, Ordering::Relaxed);
        }
        let taken = clock::now_ns() - now;
        NEXT.store(now + PERIOD_NS.max(taken * SHARE), Ordering::Relaxed);
    }
    if holds(now) { LARGEST.load(Ordering::Relaxed) } else { 0 }
}

/// Counts the messages in flight now.
fn count() -> u32 {
    let mut messages = 0u32;
    table::for_each_conn(|_, at| {
        let (conn, approach) = (at.conn, &at.conn.approach);
        if approach.messages.load(Ordering::Relaxed) != 0
            && conn.is_connector()
            && conn.phase() == Phase::Eligible
            && approach.note_count(conn.transfers.load(Ordering::Relaxed))
            && !has_long(at)
        {
            messages = messages.saturating_add(approach.in_flight());
        }
    });
    messages
}

/// Returns true if the connection's messages have been long on average. Such a connection is faster over TCP.
fn has_long(at: Ref) -> bool {
    let conn = at.conn;
    let bytes = conn.tx_tcp.load(Ordering::Relaxed) + conn.rx_tcp.load(Ordering::Relaxed);
    bytes / u64::from(conn.transfers.load(Ordering::Relaxed).max(1)) >= LONG
}
