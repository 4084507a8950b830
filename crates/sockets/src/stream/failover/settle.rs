//! Moves both directions to the VI before a byte is sent there, if a NIC in software is between the two ends. If
//! each end knows the other end's path, a failover can continue without the NIC.

use super::super::{entering, reflected, rx, send, tx, word};
use crate::conn::{Guard, flag};
use core::sync::atomic::Ordering;
use sovia_proto::path::{Grant, Rx, Switch, Tx};

/// Takes the steps from TCP to the VI that are possible before any byte moves, if a NIC in software is between the
/// two ends.
pub(crate) fn settle(guard: &mut Guard<'_>, fd: i32) {
    if may_switch(guard) {
        send::switch(guard, fd);
    }
    if may_claim(guard) {
        // Bytes that were sent on TCP before the switch may still be unread. They do not delay the claim.
        reflected::claim(guard);
    }
    if may_enter(guard) {
        // A fault is ignored here, because the next call finds and reports it again.
        let _ = entering::next_from(guard);
    }
}

/// Returns true if [`settle`] has a step to take.
pub(crate) fn may_settle(guard: &Guard<'_>) -> bool {
    may_switch(guard) || may_claim(guard) || may_enter(guard)
}

fn may_switch(guard: &Guard<'_>) -> bool {
    let conn = guard.conn;
    conn.tx() == Tx::Tcp
        && reflected::is_reflected(guard)
        && Grant::from_word(tx(guard).path.load(word::GRANT)) == Grant::Granted
        && !conn.has(flag::SHUT_WR | flag::FALLING_BACK | flag::CORRUPT | flag::UNANSWERED)
}

/// Returns the sender's switch, if this end has granted the VI and has not entered it.
fn switch(guard: &Guard<'_>) -> Switch {
    let may = guard.conn.rx() == Rx::Granted
        && reflected::is_reflected(guard)
        && !guard.conn.has(flag::FALLING_BACK | flag::CORRUPT | flag::UNANSWERED);
    Switch::from_word(if may { rx(guard).path.load(word::SWITCH) } else { 0 })
}

fn may_claim(guard: &Guard<'_>) -> bool {
    let read = guard.conn.rx_tcp.load(Ordering::Acquire);
    // If this end has read more than `n` bytes, the sender has cancelled the switch and has continued on TCP.
    matches!(switch(guard), Switch::At(n) if read <= n) && rx(guard).reader.load(word::CLAIM) == 0
}

fn may_enter(guard: &Guard<'_>) -> bool {
    let read = guard.conn.rx_tcp.load(Ordering::Acquire);
    matches!(switch(guard), Switch::Entered(n) if n == read)
}
