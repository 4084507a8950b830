//! stdio on connections. libc's streams, including the standard streams, call the hooks through changed tables
//! ([`jump_tables`]). This module has hooks for functions that print to a descriptor without a stream, and for
//! functions that close a stream's descriptor.

mod jump_tables;
mod print;
mod stream;
mod variadic;

use core::sync::atomic::{AtomicBool, Ordering};
use libc::{FILE, c_char, c_int, c_void};
use sovia_calls::boundary::{errno, set_errno};
use sovia_sockets::fallback::{self, Cause};
use sovia_sockets::process::is_borrowed;
use sovia_sockets::table::{self, Entry};
use sovia_sockets::{config, ops};

/// Replaces the functions of libc's streams. The library's constructor calls this function, before the program's
/// own code runs.
pub(crate) fn start() {
    if !jump_tables::replace() {
        config::has_strange_streams();
    }
}

/// Moves the connection of `fd` to TCP, before libc reads or writes `fd` without calling a hook.
pub(crate) extern "C" fn before_libc(fd: c_int) {
    if let Some(at) = table::conn(fd) {
        fallback::now(fd, at, Cause::Call);
    }
}

/// Flushes a stream and closes the connection that has the stream's descriptor number. Call this before `pclose`,
/// which closes the descriptor, and before `freopen`, which opens another file with the same number.
///
/// # Safety
/// The stream must be open, or null.
pub(crate) unsafe fn gives_up(file: *mut FILE) {
    if file.is_null() {
        return;
    }
    // SAFETY: the caller guarantees that the stream is open.
    unsafe {
        let fd = libc::fileno(file);
        if !matches!(table::get(fd), Entry::Foreign | Entry::Private) && !is_borrowed() {
            libc::fflush(file);
            ops::close(fd);
        }
    }
}

unsafe extern "C" {
    static stderr: *mut FILE;
    fn fwide(file: *mut FILE, mode: c_int) -> c_int;
}

/// Set if libc also prints log messages to the standard error (LOG_PERROR). libc prints them without calling a
/// hook.
static LOGS_ARE_PRINTED: AtomicBool = AtomicBool::new(false);

/// Moves the standard error's connection to TCP, if libc is about to print a log message there.
pub(crate) extern "C" fn before_log(_: c_int) {
    if LOGS_ARE_PRINTED.load(Ordering::Relaxed) {
        before_libc(libc::STDERR_FILENO);
    }
}

hooks! {
    fn pclose(file: *mut FILE) -> c_int {
        gives_up(file);
        real!()(file)
    }

    /// Prints a message to a connection by Sovia's own code, if `stderr` has no orientation yet (bytes or wide
    /// characters). In this case libc would print through a duplicate of the descriptor, to leave the orientation
    /// open.
    fn perror(text: *const c_char) -> () {
        let number = errno();
        let fd = if stderr.is_null() { -1 } else { libc::fileno(stderr) };
        if !stream::is_ours(fd) || fwide(stderr, 0) != 0 {
            set_errno(number);
            return real!()(text);
        }
        print::error(fd, text, number);
    }

    fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
        if !stream::is_ours(fd) {
            return real!()(fd, format, arguments);
        }
        print::formatted(fd, None, format, arguments)
    }

    fn __vdprintf_chk(
        fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void,
    ) -> c_int {
        if !stream::is_ours(fd) {
            return real!()(fd, flag, format, arguments);
        }
        print::formatted(fd, Some(flag), format, arguments)
    }

    fn herror(text: *const c_char) -> () {
        before_libc(libc::STDERR_FILENO);
        real!()(text)
    }

    fn psiginfo(info: *const libc::siginfo_t, text: *const c_char) -> () {
        before_libc(libc::STDERR_FILENO);
        real!()(info, text)
    }

    fn openlog(name: *const c_char, options: c_int, facility: c_int) -> () {
        LOGS_ARE_PRINTED.store(options & libc::LOG_PERROR != 0, Ordering::Relaxed);
        real!()(name, options, facility)
    }

    fn vsyslog(priority: c_int, format: *const c_char, arguments: *mut c_void) -> () {
        before_log(priority);
        real!()(priority, format, arguments)
    }

    fn __vsyslog_chk(
        priority: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void,
    ) -> () {
        before_log(priority);
        real!()(priority, flag, format, arguments)
    }
}

#[cfg(test)]
mod tests;
