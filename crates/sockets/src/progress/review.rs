//! Moves connections to TCP when a rule, `sovia off` or a packet filter begins to keep them there. When this reason
//! ends, lets the connections leave TCP again.

use crate::conn::Phase;
use crate::fallback::{self, Cause};
use crate::table::{self, Ref};
use crate::{epoll, rendezvous, tcp_reasons};
use core::sync::atomic::Ordering;

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
