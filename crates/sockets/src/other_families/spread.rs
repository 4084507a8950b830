//! Records that processes outside the family may have got connections of the family.

use crate::table::{self, Ref};
use crate::{family, process};
use core::sync::atomic::Ordering;

/// Records that unknown processes may get these connections. Called before this process starts a program that
/// inherits them.
pub(crate) fn spread(inherited: &[(i32, Ref)]) {
    if !process::is_under_seccomp() {
        inherited.iter().for_each(|(_, at)| at.conn.spread());
    }
}

/// Records that this process has taken `fd` from another process. If `fd` is a connection of the family, the
/// family's records no longer name all processes that hold the connection.
pub fn taken(fd: i32) {
    if let Ok(cookie) = sovia_sys::diag::cookie(fd) {
        family::each_conn(|conn| {
            if conn.cookie.load(Ordering::Relaxed) == cookie {
                conn.spread();
            }
        });
    }
}

/// Records that a child will run on this process's memory. The child has all descriptors of this process, but no
/// record names the child. Called before the child is made, unless the child ends at once.
pub(crate) fn shares_memory() {
    table::for_each_conn(|_, at| at.conn.spread());
    process::shares_memory();
}
