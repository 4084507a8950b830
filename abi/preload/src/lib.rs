//! The library that `LD_PRELOAD` loads: hooks for the libc functions by which a program reaches a stream socket.
//!
//! A hook looks the descriptor up in [`sovia_sockets::table`]. If the table has no entry for the descriptor, the
//! hook calls the real function. Such a call costs a few instructions more than without Sovia. `sovia-calls`
//! implements the calls for all C interfaces. This crate exports libc's names, and does the work that only an
//! interposed library must do.
//!
//! The unit tests call hooks as Rust functions. The test program exports no names, has no constructor and keeps its
//! own allocator (`cfg(not(test))`). So its own libc calls reach libc.

#![allow(missing_docs, reason = "the functions are libc's and documented there")]
#![allow(unreachable_pub, reason = "they are reached by name, from C")]
#![allow(clippy::missing_safety_doc, reason = "each hook has the contract of its libc function")]
#![cfg_attr(test, allow(dead_code, reason = "the tests do not call every hook"))]
#![cfg_attr(test, allow(non_snake_case, reason = "the names are libc's"))]

#[macro_use]
mod real;
mod aliases;
mod asynchronous;
mod bindings;
mod children;
mod creating;
mod credentials;
mod descriptors;
mod exec_lists;
mod handles;
mod heap;
mod jumps;
mod limits;
mod look_ups;
mod memory;
mod objects;
mod poll;
mod process;
mod raw;
mod read_only;
mod receive;
mod rings;
mod send;
mod signals;
mod sockets;
mod spawning;
mod stdio;
mod symbols;
mod tables;
#[cfg(test)]
mod tests;
mod waiting;

// Makes the library independent of libgcc_s.so.1, which some images lack.
use sovia_unwinder as _;

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use sovia_calls::boundary::{errno, finish, outcome, set_errno};
use sovia_sys::call;
use std::sync::Once;

/// Returns true if the program gained rights by its file: setuid, setgid or capabilities. The dynamic linker loads
/// the libraries of /etc/ld.so.preload into such a program, but no library of LD_PRELOAD. Sovia must not trust the
/// environment of such a program, which comes from a user with fewer rights.
fn gains_rights() -> bool {
    // SAFETY: `getauxval` only reads the vector that the kernel has passed.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Returns true if the system's rules let no connection of the program be accelerated. If LD_PRELOAD names this
/// library, the function returns false: then the environment has the rules, and the process may have inherited
/// connections.
fn is_left_alone() -> bool {
    process::start();
    !process::is_asked_for() && !sovia_sockets::config::follow_system()
}

static STANDS_ASIDE: AtomicBool = AtomicBool::new(false);

/// Starts the library. Runs before the program's own code, but after the constructors of the libraries that the
/// program needs. A library that is written for Sovia may cause an earlier start through [`sovia_native`] or
/// [`sovia_stands_aside`].
extern "C" fn start() {
    static STARTED: Once = Once::new();
    static BY: AtomicI32 = AtomicI32::new(0);
    // `begin` looks up symbols. The dynamic linker may then call this function again in the same thread, as a
    // constructor.
    let me = call::gettid();
    if !STARTED.is_completed() && BY.load(Ordering::Relaxed) == me {
        return;
    }
    STARTED.call_once(|| {
        BY.store(me, Ordering::Relaxed);
        begin();
    });
}

fn begin() {
    let before = errno();
    look_ups::resolve_all();
    let gains_rights = gains_rights();
    if gains_rights || is_left_alone() {
        // The table stays empty, so the hooks pass each call to libc. This branch opens no descriptor. In a program
        // that gains rights, it reads no environment variable.
        STANDS_ASIDE.store(!gains_rights, Ordering::Relaxed);
        sovia_sockets::stay_out();
        set_errno(before);
        return;
    }
    handles::start();
    signals::start();
    jumps::start();
    heap::start();
    stdio::start();
    sovia_sockets::start();
    if process::is_asked_for() {
        sovia_sockets::join();
    }
    set_errno(before);
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn end() {
    sovia_sockets::finish();
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// Returns options for AddressSanitizer's runtime, if the program defines none. The options turn off the check that
/// the runtime's library is loaded first. The runtime may be loaded after this library, as long as it is loaded
/// before libc.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn __asan_default_options() -> *const libc::c_char {
    c"verify_asan_link_order=0".as_ptr()
}

/// Returns the engine's functions to libsovia or to the crate `sovia`. So one engine serves the whole process.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn sovia_native(version: u32) -> *const sovia_sockets::native::Table {
    start();
    sovia_sockets::native::lend_table(version)
}

/// Returns 1 if this library does nothing in the program, because the system's rules allow no acceleration. Then
/// libsovia or the crate `sovia` starts an engine of its own.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn sovia_stands_aside() -> u32 {
    start();
    u32::from(STANDS_ASIDE.load(Ordering::Relaxed))
}
