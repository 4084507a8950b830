//! What `LD_PRELOAD` loads: the libc functions by which a program reaches a stream socket.
//!
//! A hook decodes its arguments, asks [`sovia_sockets::table`] whether the descriptor is on record, and
//! if not calls the real function: one load and one jump more than without Sovia. The logic is in
//! the `sovia` crate; here is the ABI only.

#![allow(missing_docs, reason = "the functions are libc's and documented there")]
#![allow(unreachable_pub, reason = "they are reached by name, from C")]
#![allow(clippy::missing_safety_doc, reason = "each hook has the contract of its libc function")]

#[macro_use]
mod real;
mod descriptors;
mod memory;
mod poll;
mod process;
mod raw;
mod receive;
mod send;
mod sockets;

use sovia_sockets::Outcome;

/// Turns an outcome into what libc functions return, with `errno` set on failure.
fn finish(outcome: Outcome) -> isize {
    match outcome {
        Ok(n) => n as isize,
        Err(e) => {
            set_errno(e);
            -1
        }
    }
}

fn set_errno(e: i32) {
    // SAFETY: glibc's pointer to this thread's errno.
    unsafe { *libc::__errno_location() = e };
}

fn errno() -> i32 {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

/// A libc function's return value as an outcome.
fn outcome(result: isize) -> Outcome {
    usize::try_from(result).map_err(|_| errno())
}

/// Runs before the program's own code, after the libraries it needs have been loaded.
extern "C" fn start() {
    let before = errno();
    real::resolve_all();
    process::resolve_variadic();
    sovia_sockets::start();
    process::start();
    set_errno(before);
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn end() {
    sovia_sockets::finish();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;
