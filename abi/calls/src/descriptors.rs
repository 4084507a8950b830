//! Duplicates, closes and configures descriptors.

use crate::boundary::{errno, finish, give, outcome, set_errno, take};
use libc::{c_int, c_ulong};
use sovia_sockets::fallback::{self, Cause};
use sovia_sockets::ops;
use sovia_sockets::process::is_borrowed;
use sovia_sockets::table::{self, Entry};

/// Returns true for a descriptor that Sovia uses itself, and that the program does not know.
fn is_private(fd: c_int) -> bool {
    matches!(table::get(fd), Entry::Private)
}

/// Drops a stale table entry for `fd`, a new descriptor that the kernel has just returned. Returns `fd`. A stale
/// entry means that the program has closed an earlier descriptor `fd` without a hook. The connection of the stale
/// entry ends now.
#[inline]
pub fn created(fd: c_int) -> c_int {
    if fd >= 0 && !table::is_blank(fd) {
        drop_stale(fd);
    }
    fd
}

/// Like [`created`], for a descriptor that has arrived in a message on `channel`. `fd` may be a second descriptor
/// of a connection that this process already has.
pub fn received(channel: c_int, fd: c_int) {
    created(fd);
    if is_borrowed() {
        table::note_alias();
    } else if fd >= 0 {
        let before = errno();
        ops::received(channel, fd);
        set_errno(before);
    }
}

#[cold]
fn drop_stale(fd: c_int) {
    let before = errno();
    // A child of vfork has its own descriptors, which this table does not describe.
    if !is_borrowed() {
        ops::forget(fd);
    }
    set_errno(before);
}

calls! {
    fn close(real, fd: c_int) -> c_int {
        match table::get(fd) {
            Entry::Foreign => table::forget_tcp(fd),
            Entry::Private => {
                set_errno(libc::EBADF);
                return -1;
            }
            Entry::Conn(_) | Entry::Epoll(_) => {
                // A child of vfork shares this table, but has its own descriptors.
                if !is_borrowed() {
                    ops::close(fd);
                }
            }
        }
        real(fd)
    }

    fn dup(real, fd: c_int) -> c_int {
        let new = real(fd);
        if new >= 0 {
            duplicated(fd, new);
        }
        new
    }

    fn dup2(real, fd: c_int, to: c_int) -> c_int {
        if fd != to {
            if is_private(to) {
                set_errno(libc::EBUSY);
                return -1;
            }
            before_replacing(fd, to);
        }
        let new = real(fd, to);
        if new >= 0 && fd != to {
            replaced(fd, new);
        }
        new
    }

    fn dup3(real, fd: c_int, to: c_int, flags: c_int) -> c_int {
        // The kernel refuses other flags before it checks the descriptors.
        if fd != to && flags & !libc::O_CLOEXEC == 0 {
            if is_private(to) {
                set_errno(libc::EBUSY);
                return -1;
            }
            before_replacing(fd, to);
        }
        let new = real(fd, to, flags);
        if new >= 0 {
            replaced(fd, new);
        }
        new
    }

    fn fcntl(real, fd: c_int, command: c_int, argument: usize) -> c_int {
        configuring(fd, command, argument);
        let result = real(fd, command, argument);
        configured(fd, command, argument, result);
        result
    }

    fn ioctl(real, fd: c_int, request: c_ulong, argument: usize) -> c_int {
        let Some(at) = table::conn(fd) else { return real(fd, request, argument) };
        if request == libc::FIONREAD as c_ulong {
            let answer = argument as *mut c_int;
            let kernel = || {
                outcome(real(fd, request, argument) as isize)?;
                take(answer).map(|n| n as usize)
            };
            let result = ops::fionread(fd, at, kernel)
                .and_then(|n| give(answer, n.min(c_int::MAX as usize) as c_int));
            return match result {
                Ok(()) => 0,
                Err(e) => finish(Err(e)) as c_int,
            };
        }
        if request == libc::FIOASYNC as c_ulong {
            fallback::now(fd, at, Cause::Call);
        }
        let result = real(fd, request, argument);
        if result == 0
            && request == libc::FIONBIO as c_ulong
            && let Ok(on) = take(argument as *const c_int)
        {
            ops::nonblocking(at, on != 0);
        }
        result
    }
}

fn duplicated(fd: c_int, new: c_int) {
    created(new);
    before_a_childs(fd);
    replaced(fd, new);
}

/// Moves the connection of `fd` to TCP, if a child of vfork is about to duplicate `fd`. The table cannot have an
/// entry for the child's new descriptor.
fn before_a_childs(fd: c_int) {
    if is_borrowed()
        && let Some(at) = table::conn(fd)
    {
        table::note_alias();
        fallback::now(fd, at, Cause::Spawn);
    }
}

/// Prepares a `dup2` or `dup3` of `fd` to `to`: closes the connection that has the descriptor `to`.
fn before_replacing(fd: c_int, to: c_int) {
    before_a_childs(fd);
    // SAFETY: F_GETFD takes and returns numbers only.
    let valid = unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0;
    if valid && !table::is_blank(to) && !is_borrowed() {
        ops::close(to);
    }
}

fn replaced(fd: c_int, new: c_int) {
    if !is_borrowed() {
        ops::dup(fd, new);
    }
}

/// Moves a connection to TCP before F_SETFL sets O_ASYNC, because only the kernel can raise SIGIO.
fn configuring(fd: c_int, command: c_int, argument: usize) {
    if command == libc::F_SETFL
        && argument as c_int & libc::O_ASYNC != 0
        && let Some(at) = table::conn(fd)
    {
        fallback::now(fd, at, Cause::Call);
    }
}

fn configured(fd: c_int, command: c_int, argument: usize, result: c_int) {
    if result < 0 {
        return;
    }
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicated(fd, result),
        libc::F_SETFL => {
            if let Some(at) = table::conn(fd) {
                ops::nonblocking(at, argument as c_int & libc::O_NONBLOCK != 0);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
