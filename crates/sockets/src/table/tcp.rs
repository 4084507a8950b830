//! TCP sockets without a connection, noted so that the kernel need not be asked of them.
//!
//! One that this process has made is *fresh* for as long as no other program can have come to it, and none of the
//! options has been set that a VI must know of: then its connection has the options that the kernel begins with, and
//! what comes for it this process receives.

use super::slots::FIRST;
use super::word::{KIND, TCP};
use crate::per_engine::per_engine;
use crate::process;
use core::sync::atomic::{AtomicU32, Ordering};

/// In the word of a TCP socket: it is fresh, if the count in the lower half is the present one.
const FRESH: u64 = 1 << 55;

per_engine! {
    /// How often other processes may have come to sockets of this one: at a fork, at the start of another program, and
    /// when descriptors are duplicated or sent.
    static SHARED: AtomicU32 = AtomicU32::new(0);
}

fn fresh_word() -> u64 {
    TCP | FRESH | u64::from(SHARED.load(Ordering::Relaxed))
}

/// Notes that `fd` is a TCP socket, which has no connection yet or listens: the kernel need not be asked then.
pub fn note_tcp(fd: i32) {
    if !process::is_borrowed()
        && let Some(slot) = FIRST.get(fd as u32 as usize)
    {
        let _ = slot.compare_exchange(0, TCP, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Notes a TCP socket that this process has just made.
pub fn note_new_tcp(fd: i32) {
    if process::is_borrowed() {
        return;
    }
    if let Some(slot) = FIRST.get(fd as u32 as usize) {
        let before = slot.load(Ordering::Relaxed);
        // The number's last owner may have been closed past every hook.
        if before == 0 || before & KIND == TCP {
            let _ =
                slot.compare_exchange(before, fresh_word(), Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// The number is about to be closed: that is forgotten.
#[inline]
pub fn forget_tcp(fd: i32) {
    replace(fd, 0);
}

/// An option of the socket has been set that a VI must know of.
pub fn note_option_of_tcp(fd: i32) {
    if process::is_borrowed() {
        // The socket is the parent's as well.
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

/// Other processes may have come to sockets of this one: none is fresh that has been made so far.
pub fn note_shared() {
    SHARED.fetch_add(1, Ordering::Relaxed);
}

/// Whether `fd` is a TCP socket. Asks the kernel where that has not been noted.
pub fn is_tcp(fd: i32) -> bool {
    is_noted_tcp(fd) || sovia_sys::call::is_tcp(fd)
}

/// Whether that has been noted, and no call that Sovia sees has given the number to another descriptor since.
pub fn is_noted_tcp(fd: i32) -> bool {
    let slot = FIRST.get(fd as u32 as usize);
    slot.is_some_and(|slot| slot.load(Ordering::Acquire) & KIND == TCP) && !process::is_elsewhere()
}

/// Whether `fd` is a fresh TCP socket.
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
        // A number that no other test has.
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
