//! Connections that packet filters take back to TCP, or let go to a VI again.

use crate::conn::Phase;
use crate::retreat::{self, Cause};
use crate::table::{self, Ref};
use crate::{epoll, meeting};
use core::sync::atomic::Ordering;
use sovia_control::Reason;

/// Looks at all connections of this process after a change of the filters.
pub(super) fn look_at_all() {
    let mut all: Vec<(i32, Ref)> = Vec::new();
    table::for_each_conn(|fd, at| all.push((fd, at)));
    for (fd, at) in all {
        let conn = at.conn;
        match conn.phase() {
            Phase::Attached => match meeting::filtered(fd, at) {
                None => {}
                Some(Reason::NoFilterAgent) => retreat::soon(fd, at, Cause::NoFilterAgent),
                Some(_) => retreat::soon(fd, at, Cause::PacketFilter),
            },
            // The next transfers find out whether it may have a VI now.
            Phase::Candidate if conn.approach.kept_for().is_some() => {
                conn.approach.note_message(conn.transfers.load(Ordering::Relaxed));
            }
            _ => {}
        }
    }
    epoll::leave_shared();
}
