//! What a descriptor must be that a peer hands over as its doorbell.

use sovia_sys::{Fd, call};

/// Whether writing to a descriptor can neither block nor do anything but count: it is an eventfd, and
/// non-blocking.
///
/// Its owner may still make it blocking later, as both have the same open file; docs/reference/security.md says what
/// follows from that.
pub fn is_doorbell(door: &Fd) -> bool {
    let mut target = [0u8; 64];
    let n = call::read_link(door.raw(), &mut target).unwrap_or(0);
    target[..n].starts_with(b"anon_inode:[eventfd]") && call::is_nonblocking(door.raw())
}
