//! Hooks for io_uring. The operations of a ring bypass the hooks. So these hooks answer like a kernel without
//! io_uring, unless the user allows io_uring.
//!
//! [`crate::raw`] refuses the calls through libc's `syscall`. liburing does not call libc's `syscall`: it exports
//! functions with a system call instruction. This module hooks these functions.

use libc::{c_int, c_uint, c_void, size_t};
use sovia_sockets::config::io_uring_allowed;

/// Result of liburing's functions on a kernel without io_uring.
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
