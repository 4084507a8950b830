//! io_uring: the operations of a ring pass every hook, so programs are told that there is none, unless the
//! user allows it.
//!
//! Those that come by libc's `syscall` are refused there ([`crate::process`]). liburing makes the call by an
//! instruction of its own, in functions that it exports.

use libc::{c_int, c_uint, c_void, size_t};
use sovia_sockets::config::io_uring_allowed;

/// What liburing's functions return where the kernel has no rings.
const NONE: c_int = -libc::ENOSYS;

hooks! {
    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int {
        if io_uring_allowed() { real!()(entries, ring, flags) } else { NONE }
    }

    fn io_uring_queue_init_params(
        entries: c_uint, ring: *mut c_void, parameters: *mut c_void,
    ) -> c_int {
        if io_uring_allowed() { real!()(entries, ring, parameters) } else { NONE }
    }

    fn io_uring_queue_init_mem(
        entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void,
        len: size_t,
    ) -> c_int {
        if io_uring_allowed() { real!()(entries, ring, parameters, memory, len) } else { NONE }
    }

    fn io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_int {
        if io_uring_allowed() { real!()(entries, parameters) } else { NONE }
    }
}
