//! Messages in flight, from which a connector decides if a NIC in software should carry its connection.
//!
//! On a VI between hosts, each message passes the processes of two NICs. A single message therefore takes longer than over
//! TCP. Many messages at the same time share the wake-ups of these processes and the frames between the hosts, and are
//! faster than over TCP. So a connector requests a VI only while this process's connectors have enough small messages in
//! flight. An acceptor requests its VI at once, and gets the VI once the connector has made its request.

use crate::conn::Phase;
use crate::table::{self, Ref};
use core::sync::atomic::Ordering;
use sovia_control::Reason;

/// Average number of bytes of a transfer from which a connection is faster over TCP than through NICs.
const LONG: u64 = 8 << 10;

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

/// Returns the number of messages that this process's connectors have in flight on connections that a NIC may carry.
fn in_flight() -> u32 {
    let mut messages = 0u32;
    table::for_each_conn(|_, at| {
        if at.conn.approach.messages.load(Ordering::Relaxed) == 0 || !at.conn.is_connector() {
            return;
        }
        messages = messages.saturating_add(match at.conn.phase() {
            Phase::Eligible if !has_long(at) => at.conn.approach.in_flight(),
            Phase::Attached => 1,
            _ => 0,
        });
    });
    messages
}

/// Returns true if the connection's messages have been long on average. Such a connection is faster over TCP.
fn has_long(at: Ref) -> bool {
    let conn = at.conn;
    let bytes = conn.tx_tcp.load(Ordering::Relaxed) + conn.rx_tcp.load(Ordering::Relaxed);
    bytes / u64::from(conn.transfers.load(Ordering::Relaxed).max(1)) >= LONG
}
