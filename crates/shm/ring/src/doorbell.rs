//! Checks a file descriptor that a peer passes as its doorbell.

use sovia_sys::{Fd, call};

/// Returns true if `doorbell` is a non-blocking eventfd, so that a write can neither block nor do anything but count.
///
/// The owner can still make the eventfd blocking later, because both processes share the open file description.
/// docs/reference/security.md describes the consequences.
pub fn is_doorbell(doorbell: &Fd) -> bool {
    let mut target = [0u8; 64];
    let n = call::read_link(doorbell.raw(), &mut target).unwrap_or(0);
    target[..n].starts_with(b"anon_inode:[eventfd]") && call::is_nonblocking(doorbell.raw())
}
