//! TCP sockets without a connection, noted so that the kernel need not be asked of them.

use super::slots::FIRST;
use super::word::TCP;
use crate::process;
use core::sync::atomic::Ordering;

/// Notes that `fd` is a TCP socket, which has no connection yet or listens: the kernel need not be asked then.
pub fn note_tcp(fd: i32) {
    if !process::is_borrowed()
        && let Some(slot) = FIRST.get(fd as u32 as usize)
    {
        let _ = slot.compare_exchange(0, TCP, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// The number is about to be closed: that is forgotten.
#[inline]
pub fn forget_tcp(fd: i32) {
    if let Some(slot) = FIRST.get(fd as u32 as usize)
        && slot.load(Ordering::Relaxed) == TCP
        && !process::is_borrowed()
    {
        let _ = slot.compare_exchange(TCP, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Whether `fd` is a TCP socket. Asks the kernel where that has not been noted.
pub fn is_tcp(fd: i32) -> bool {
    is_noted_tcp(fd) || sovia_sys::call::is_tcp(fd)
}

/// Whether that has been noted, and no call that Sovia sees has given the number to another descriptor since.
pub fn is_noted_tcp(fd: i32) -> bool {
    let slot = FIRST.get(fd as u32 as usize);
    slot.is_some_and(|slot| slot.load(Ordering::Acquire) == TCP) && !process::is_elsewhere()
}
