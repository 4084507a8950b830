//! Bitmap of the descriptors that are sockets of type SOCK_VIA.
//!
//! The engine knows only connections. This bitmap also has sockets that are not connected yet, and listeners, whose
//! accepted sockets are of the listener's type.

use core::sync::atomic::{AtomicU64, Ordering};
use libc::c_int;
use sovia_sockets::table::FDS;

/// SOCK_VIA in `sovia.h`. The kernel has no such type, so plain `socket(2)` refuses the value.
pub const SOCK_VIA: c_int = 12;
/// Mask of the bits of `socket`'s type argument that hold the type. The other bits are flags.
pub const TYPE_MASK: c_int = 0xf;

static BITS: [AtomicU64; FDS / 64] = [const { AtomicU64::new(0) }; FDS / 64];

fn place(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((BITS.get(fd / 64)?, 1 << (fd % 64)))
}

/// Returns true if `fd` is a socket of type SOCK_VIA.
#[inline]
pub fn is_via(fd: c_int) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// Sets or clears the type SOCK_VIA of `fd`.
pub fn set(fd: c_int, via: bool) {
    if let Some((word, bit)) = place(fd) {
        if via {
            word.fetch_or(bit, Ordering::Relaxed);
        } else if word.load(Ordering::Relaxed) & bit != 0 {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

/// Gives `to` the type of `from`.
pub fn copy(from: c_int, to: c_int) {
    set(to, is_via(from));
}
