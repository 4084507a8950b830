//! TCP sockets without a connection. The table records these sockets, so that Sovia need not ask the kernel.
//!
//! A socket that this process has made is *fresh* under two conditions. No other process can have got the socket.
//! No socket option that matters to a VI has been set. A connection of a fresh socket has the kernel's default
//! options, and only this process receives its bytes.

use super::slots::FIRST;
use super::word::{KIND, TCP};
use crate::per_engine::per_engine;
use crate::process;
use core::sync::atomic::{AtomicU32, Ordering};

/// Bit in a TCP socket's word. If the bit is set, the socket is fresh as long as the word's lower half equals
/// `SHARED`.
const FRESH: u64 = 1 << 55;

per_engine! {
    /// Number of times that other processes may have got sockets of this process. This happens at a fork, at an
    /// exec, and when descriptors are duplicated or sent.
    static SHARED: AtomicU32 = AtomicU32::new(0);
}

fn fresh_word() -> u64 {
    TCP | FRESH | u64::from(SHARED.load(Ordering::Relaxed))
}

/// Records that `fd` is a TCP socket without a connection, or a listener. The socket does not count as fresh.
pub fn note_tcp(fd: i32) {
    if !process::is_borrowed()
        && let Some(slot) = FIRST.get(fd as u32 as usize)
    {
        let _ = slot.compare_exchange(0, TCP, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Records that `fd` is a TCP socket that this process has just made.
pub fn note_new_tcp(fd: i32) {
    if process::is_borrowed() {
        return;
    }
    if let Some(slot) = FIRST.get(fd as u32 as usize) {
        let before = slot.load(Ordering::Relaxed);
        // The entry may be left from an earlier descriptor with this number, which was closed without a hook.
        if before == 0 || before & KIND == TCP {
            let _ =
                slot.compare_exchange(before, fresh_word(), Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// Removes the record of the TCP socket `fd`, which is about to be closed.
#[inline]
pub fn forget_tcp(fd: i32) {
    replace(fd, 0);
}

/// Records that an option that matters to a VI has been set on the socket `fd`.
pub fn note_option_of_tcp(fd: i32) {
    if process::is_borrowed() {
        // The parent has the same socket, under a number that this process does not know.
        note_shared();
    } else {
        replace(fd, TCP);
    }
}

#[inline]
fn replace(fd: i32, word: u64) {
    if let Some(slot) = FIRST.get(fd as u32 as usize) {
        let before = slot.load(Ordering::Relaxed);
        if before & KIND == TCP && !process::is_borrowed() {
            let _ = slot.compare_exchange(before, word, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// Records that other processes may have got sockets of this process. No socket made so far is fresh any more.
pub fn note_shared() {
    SHARED.fetch_add(1, Ordering::Relaxed);
}

/// Returns true if `fd` is a TCP socket. Asks the kernel if the table has no record of `fd`.
pub fn is_tcp(fd: i32) -> bool {
    is_noted_tcp(fd) || sovia_sys::call::is_tcp(fd)
}

/// Returns true if the table records `fd` as a TCP socket. The record is right unless the program has closed `fd`
/// without a hook.
pub fn is_noted_tcp(fd: i32) -> bool {
    let slot = FIRST.get(fd as u32 as usize);
    slot.is_some_and(|slot| slot.load(Ordering::Acquire) & KIND == TCP) && !process::is_elsewhere()
}

/// Returns true if `fd` is a fresh TCP socket.
pub(crate) fn is_fresh_tcp(fd: i32) -> bool {
    let slot = FIRST.get(fd as u32 as usize);
    slot.is_some_and(|slot| slot.load(Ordering::Acquire) == fresh_word())
        && !process::is_elsewhere()
        && !process::is_borrowed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_fresh_until_another_process_may_have_it_or_an_option_is_set() {
        process::own();
        // No other test uses this number.
        let fd = FIRST.len() as i32 - 7;
        note_tcp(fd);
        assert!(is_noted_tcp(fd) && !is_fresh_tcp(fd));
        let ends: [fn(i32); 3] = [|_| note_shared(), note_option_of_tcp, forget_tcp];
        for end in ends {
            note_new_tcp(fd);
            assert!(is_noted_tcp(fd) && is_fresh_tcp(fd));
            end(fd);
            assert!(!is_fresh_tcp(fd));
        }
        assert!(!is_noted_tcp(fd));
    }
}
