//! What `LD_PRELOAD` loads: the libc functions by which a program reaches a stream socket.
//!
//! A hook asks [`sovia_sockets::table`] whether the descriptor is on record, and if not calls the
//! real function: one load and one jump more than without Sovia. What several C interfaces do with
//! a call is in `sovia-calls`; here are libc's names, and what only a library that stands before
//! libc has to do.
//!
//! The unit tests call hooks as Rust functions. Their program exports no name, has no constructor, and keeps its own
//! allocator (`cfg(not(test))`): its calls of libc reach libc.

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
mod handles;
mod heap;
mod jumps;
mod limits;
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
mod tables;
#[cfg(test)]
mod tests;

// Without it the library would need libgcc_s.so.1, which not every image has.
use sovia_unwinder as _;

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use sovia_calls::boundary::{errno, finish, outcome, set_errno};
use sovia_sys::call;
use std::sync::Once;

/// Whether the program has rights by its file that the process had not which started it: setuid, setgid, capabilities. The
/// dynamic linker takes no library of LD_PRELOAD's into it then, but those of /etc/ld.so.preload, and the variables are those of a
/// user with fewer rights.
fn gains_rights() -> bool {
    // SAFETY: a look at what the kernel has passed.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether the system's rules leave the program no connection. Where LD_PRELOAD names the library they do not count: the program's
/// environment says what is accelerated, and the process may have been left connections by the one that it was before.
fn is_left_alone() -> bool {
    process::start();
    !process::is_asked_for() && !sovia_sockets::config::follow_system()
}

static STANDS_ASIDE: AtomicBool = AtomicBool::new(false);

/// Runs before the program's own code, after the libraries it needs have been loaded. Constructors of those have run by then: one of
/// them that is written for Sovia has had this done already, by what it asks.
extern "C" fn start() {
    static STARTED: Once = Once::new();
    static BY: AtomicI32 = AtomicI32::new(0);
    // To look this library up has the dynamic linker call its constructor, if it has not yet.
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
    real::resolve_all();
    process::resolve_variadic();
    let gains_rights = gains_rights();
    if gains_rights || is_left_alone() {
        // The hooks find nothing recorded, so each call is libc's. In a program that gains rights no variable is read. No descriptor is
        // made.
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

/// Asked by the runtime of AddressSanitizer, in programs that do not answer themselves. Its functions stand
/// before libc's if it is loaded before libc, and after ours all the same: it need not be the first.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn __asan_default_options() -> *const libc::c_char {
    c"verify_asan_link_order=0".as_ptr()
}

/// The engine's own functions, for libsovia and the Rust crate: one engine serves the process.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn sovia_native(version: u32) -> *const sovia_sockets::native::Table {
    start();
    sovia_sockets::native::lend_table(version)
}

/// Whether the system's rules leave the program alone, for the same two: they serve it themselves then.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn sovia_stands_aside() -> u32 {
    start();
    u32::from(STANDS_ASIDE.load(Ordering::Relaxed))
}
