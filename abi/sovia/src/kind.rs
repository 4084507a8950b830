//! Which descriptors are SOCK_VIA's: one bit for each number.
//!
//! The engine knows connections only. That a socket is to become one, or that a listener's are to
//! be, is known here.

use core::sync::atomic::{AtomicU64, Ordering};
use libc::c_int;
use sovia_sockets::table::FDS;

/// SOCK_VIA in `sovia.h`. The kernel has no such type, so a plain `socket` refuses it.
pub const SOCK_VIA: c_int = 12;
/// The bits of `socket`'s type that are a type; the others are flags.
pub const TYPE_MASK: c_int = 0xf;

static BITS: [AtomicU64; FDS / 64] = [const { AtomicU64::new(0) }; FDS / 64];

fn place(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((BITS.get(fd / 64)?, 1 << (fd % 64)))
}

/// Whether `fd` is a socket of type SOCK_VIA.
#[inline]
pub fn is_via(fd: c_int) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// Says that it is, or is not.
pub fn set(fd: c_int, via: bool) {
    if let Some((word, bit)) = place(fd) {
        if via {
            word.fetch_or(bit, Ordering::Relaxed);
        } else if word.load(Ordering::Relaxed) & bit != 0 {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

/// `to` has become what `from` is.
pub fn copy(from: c_int, to: c_int) {
    set(to, is_via(from));
}
