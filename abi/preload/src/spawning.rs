//! Hooks for posix_spawn. By file actions a program can pass descriptors to a child, even descriptors with
//! close-on-exec.

use crate::process::in_this_root;
use core::sync::atomic::{AtomicU64, Ordering};
use libc::{c_char, c_int, c_void, pid_t};
use sovia_sockets::exec;
use sovia_sockets::fallback::{self, Cause};
use sovia_sockets::process::is_borrowed;
use sovia_sockets::table;

/// Number of descriptors for which `GIVEN` has a bit. A connection with a higher descriptor moves to TCP as soon as
/// the program adds the descriptor to file actions.
const NUMBERS: usize = 1 << 16;

sovia_sys::tables! {
    /// Descriptors, one bit each, whose duplicates the program has requested in any file actions. Only libc knows
    /// which file actions contain a descriptor. So more connections than necessary may move to TCP, which does no
    /// harm.
    static GIVEN: [AtomicU64; NUMBERS / 64] = [const { AtomicU64::new(0) }; NUMBERS / 64];
}

/// Records that a child may get a duplicate of `fd`. When a child starts, [`before_spawn`] moves the connection of
/// `fd` to TCP. By then `fd` may belong to another connection.
fn given(fd: c_int) {
    match usize::try_from(fd) {
        Ok(number) if number < NUMBERS => {
            GIVEN[number / 64].fetch_or(1 << (number % 64), Ordering::Relaxed);
        }
        Ok(_) => hand_over(fd),
        Err(_) => {}
    }
}

/// Moves the connection of `fd` to TCP, because a child is about to get `fd`.
fn hand_over(fd: c_int) {
    if let Some(at) = table::conn(fd) {
        fallback::now(fd, at, Cause::Passed);
    }
}

fn before_spawn(actions: *const c_void) {
    exec::before_spawn();
    if actions.is_null() || is_borrowed() {
        return;
    }
    for (i, word) in GIVEN.iter().enumerate() {
        let mut bits = word.load(Ordering::Relaxed);
        while bits != 0 {
            hand_over((i * 64 + bits.trailing_zeros() as usize) as c_int);
            bits &= bits - 1;
        }
    }
}

hooks! {
    fn posix_spawn_file_actions_adddup2(actions: *mut c_void, fd: c_int, to: c_int) -> c_int {
        given(fd);
        real!()(actions, fd, to)
    }

    fn posix_spawn(
        pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void,
        argv: *const *mut c_char, envp: *const *mut c_char,
    ) -> c_int {
        before_spawn(actions);
        in_this_root(envp.cast(), |envp| {
            real!()(pid, path, actions, attributes, argv, envp.cast())
        })
    }

    fn posix_spawnp(
        pid: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void,
        argv: *const *mut c_char, envp: *const *mut c_char,
    ) -> c_int {
        before_spawn(actions);
        in_this_root(envp.cast(), |envp| {
            real!()(pid, file, actions, attributes, argv, envp.cast())
        })
    }
}
