//! Checks if only this process holds a connection from another family.

use super::families::{self, FamilyNumber};
use crate::table::Ref;
use core::sync::atomic::Ordering;
use sovia_sys::call;

/// Stores in a connection of this process which record the connection has in the family `which`.
pub(super) fn inherit(here: Ref, which: FamilyNumber, index: u32, generation: u32) {
    families::begin(which);
    let approach = &here.conn.approach;
    approach.place_there.store(u64::from(index) << 32 | u64::from(generation), Ordering::Relaxed);
    approach.inherited.store(which.word(), Ordering::Release);
    here.conn.has_carried();
}

/// Returns true if no other process holds the connection. Only a connection from another family needs a check.
pub(crate) fn is_alone(fd: i32, at: Ref) -> bool {
    at.conn.approach.inherited.load(Ordering::Acquire) == 0 || has_come_to_be_alone(fd, at)
}

/// Returns true if the kernel must raise signals for the socket's events, or must process the socket's stream.
/// Another process may have requested this.
pub(crate) fn is_for_kernel(fd: i32) -> bool {
    let flags = call::fcntl(fd, libc::F_GETFL, 0).unwrap_or(libc::O_ASYNC as usize);
    let protocol = call::getsockopt::<[u8; 16]>(fd, libc::IPPROTO_TCP, libc::TCP_ULP);
    flags & libc::O_ASYNC as usize != 0 || protocol.is_ok_and(|name| name[0] != 0)
}

#[cold]
fn has_come_to_be_alone(fd: i32, at: Ref) -> bool {
    let approach = &at.conn.approach;
    let Some(which) = FamilyNumber::from_word(approach.inherited.load(Ordering::Acquire)) else {
        return true;
    };
    let place = approach.place_there.load(Ordering::Relaxed);
    // Check for requests to the kernel last. The requests of other processes are visible once those processes no
    // longer hold the connection.
    if !families::none_holds(which, (place >> 32) as u32, place as u32) || is_for_kernel(fd) {
        return false;
    }
    if approach.inherited.swap(0, Ordering::AcqRel) != 0 {
        families::decided(which);
    }
    true
}
