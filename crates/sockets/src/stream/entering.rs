//! The receiver's steps from TCP to the VI: it grants, and at the sender's switch it enters.

use super::{handled, load, rx, store, tell_writer, word};
use crate::conn::{Guard, WINDOW_MAX, flag};
use core::sync::atomic::Ordering;
use sovia_proto::path::{CANCELLED, ENTERED, Grant, Rx};

/// Publishes a grant, or its end.
pub(crate) fn say_grant(guard: &mut Guard<'_>, grant: u64) {
    guard.own.grant = grant;
    store(&super::rx(guard).path, word::GRANT, grant);
}

/// The sender's switch, or 0 if it has not switched or has taken it back.
pub(super) fn switched(guard: &Guard<'_>) -> u64 {
    match load(&rx(guard).path, word::SWITCH) {
        CANCELLED => 0,
        word => word,
    }
}

/// TCP has been read up to the switch: goes over to the VI, unless the sender has just taken the
/// switch back.
pub(super) fn enter(guard: &mut Guard<'_>, switch: u64) -> bool {
    let path = &rx(guard).path;
    let entered = path.0[word::SWITCH]
        .compare_exchange(switch, switch | ENTERED, Ordering::AcqRel, Ordering::Acquire)
        .is_ok();
    if entered {
        guard.conn.set_rx(Rx::Vi);
        // It has said so before it switched.
        let window = load(&rx(guard).writer, word::WINDOW).min(u64::from(WINDOW_MAX));
        guard.flow.face(window as u16);
        say_grant(guard, Grant::Entered as u64);
        tell_writer(guard.conn, guard.endpoint_ref());
        // What came before has been counted as unread, whoever handles messages.
        handled::handle(guard);
    }
    entered
}

/// Grants the VI, unless another thread is inside a kernel receive.
pub(crate) fn grant(guard: &mut Guard<'_>) {
    let conn = guard.conn;
    if conn.rx() != Rx::Tcp || conn.has(flag::RETREATING) {
        return;
    }
    conn.set_rx(Rx::Granted);
    core::sync::atomic::fence(Ordering::SeqCst);
    if conn.rx_pins.load(Ordering::SeqCst) != 0 {
        conn.set_rx(Rx::Tcp);
        return;
    }
    say_grant(guard, Grant::Granted as u64);
}
