//! TCP sockets without a connection, recorded to save a question to the kernel.
//!
//! A socket that this process has made is *fresh* under two conditions. No other program can have got it, and no option
//! that matters to a VI has been set. Then its connection has the kernel's default options, and this process receives
//! its bytes.

use super::slots::FIRST;
use super::word::{KIND, TCP};
use crate::per_engine::per_engine;
use crate::process;
use core::sync::atomic::{AtomicU32, Ordering};

/// Bit in a TCP socket's word. The socket is fresh if the count in the lower half is the current one.
const FRESH: u64 = 1 << 55;

per_engine! {
    /// Number of times that other processes may have got sockets of this one. This happens at a fork, at an exec, and
    /// when descriptors are duplicated or sent.
    static SHARED: AtomicU32 = AtomicU32::new(0);
}

fn fresh_word() -> u64 {
    TCP | FRESH | u64::from(SHARED.load(Ordering::Relaxed))
}

/// Records that `fd` is a TCP socket without a connection, or a listener.
pub fn note_tcp(fd: i32) {
    if !process::is_borrowed()
        && let Some(slot) = FIRST.get(fd as u32 as usize)
    {
        let _ = slot.compare_exchange(0, TCP, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Records a TCP socket that this process has just made.
pub fn note_new_tcp(fd: i32) {
    if process::is_borrowed() {
        return;
    }
    if let Some(slot) = FIRST.get(fd as u32 as usize) {
        let before = slot.load(Ordering::Relaxed);
        // The number's last descriptor may have been closed without a hook.
        if before == 0 || before & KIND == TCP {
            let _ =
                slot.compare_exchange(before, fresh_word(), Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// Removes the record of a TCP socket that is about to be closed.
#[inline]
pub fn forget_tcp(fd: i32) {
    replace(fd, 0);
}

/// Records that an option that matters to a VI has been set on the socket.
pub fn note_option_of_tcp(fd: i32) {
    if process::is_borrowed() {
        // The parent has the same socket.
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

/// Records that other processes may have got sockets of this one. No socket made so far is fresh any more.
pub fn note_shared() {
    SHARED.fetch_add(1, Ordering::Relaxed);
}

/// Returns true if `fd` is a TCP socket. Asks the kernel if the table has no record.
pub fn is_tcp(fd: i32) -> bool {
    is_noted_tcp(fd) || sovia_sys::call::is_tcp(fd)
}

/// Returns true if the table records `fd` as a TCP socket. No call that Sovia sees has given the number to another
/// descriptor since.
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
        // No other test has this number.
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
