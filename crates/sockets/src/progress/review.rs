//! Moves connections to TCP when a rule, `sovia off` or a packet filter begins to keep them there. When this reason
//! ends, lets the connections leave TCP again. Also moves connections to TCP that a NIC in software carries, if TCP
//! would be faster.

use crate::conn::Phase;
use crate::fallback::{self, Cause};
use crate::rendezvous::in_flight;
use crate::table::{self, Ref};
use crate::{epoll, rendezvous, tcp_reasons};
use core::sync::atomic::Ordering;
use sovia_control::Reason;

/// Checks all connections of this process, if a reason to keep connections on TCP has changed.
pub(super) fn after_change() {
    if !tcp_reasons::take_change() {
        return;
    }
    let mut all: Vec<(i32, Ref)> = Vec::new();
    table::for_each_conn(|fd, at| all.push((fd, at)));
    for (fd, at) in all {
        let conn = at.conn;
        match conn.phase() {
            Phase::Attached => {
                if let Some(reason) = rendezvous::refusal(fd, at) {
                    fallback::soon(fd, at, Cause::Kept(reason));
                }
            }
            // Make the next transfers check if the connection may have a VI now.
            Phase::Eligible if conn.approach.kept_for().is_some() => {
                conn.approach.note_message(conn.transfers.load(Ordering::Relaxed));
            }
            // Make the next call try another rendezvous, for a connection that fell back to TCP.
            Phase::Plain => {
                let seen = conn.again.load(Ordering::Relaxed);
                if seen != 0 {
                    let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
                    let _ = conn.again.compare_exchange(seen, 1, success, failure);
                }
            }
            _ => {}
        }
    }
    epoll::leave_shared();
}

/// Moves connections to TCP that a NIC carries, if TCP would be faster. Called about once a second.
pub(super) fn of_carried() {
    if !in_flight::look_at_nics() {
        return;
    }
    let mut all: Vec<(i32, Ref)> = Vec::new();
    table::for_each_conn(|fd, at| {
        if in_flight::is_faster_on_tcp(at) {
            all.push((fd, at));
        }
    });
    for (fd, at) in all {
        fallback::soon(fd, at, Cause::Kept(Reason::FewMessages));
    }
}
