//! Moves connections back to TCP while a rule or a packet filter keeps them there. Lets them leave TCP again
//! afterwards.

use crate::conn::Phase;
use crate::fallback::{self, Cause};
use crate::table::{self, Ref};
use crate::{epoll, kept, meeting};
use core::sync::atomic::Ordering;

/// Checks all connections of this process if a reason to stay on TCP has changed.
pub(super) fn after_change() {
    if !kept::take_change() {
        return;
    }
    let mut all: Vec<(i32, Ref)> = Vec::new();
    table::for_each_conn(|fd, at| all.push((fd, at)));
    for (fd, at) in all {
        let conn = at.conn;
        match conn.phase() {
            Phase::Attached => {
                if let Some(reason) = meeting::refusal(fd, at) {
                    fallback::soon(fd, at, Cause::Kept(reason));
                }
            }
            // The next transfers check whether the connection may have a VI now.
            Phase::Candidate if conn.approach.kept_for().is_some() => {
                conn.approach.note_message(conn.transfers.load(Ordering::Relaxed));
            }
            // The next call lets a connection that fell back try a rendezvous again.
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
