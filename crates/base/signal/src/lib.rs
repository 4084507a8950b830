//! Signals and faults, as far as they meet Sovia's own code.
//!
//! - [`access`]: copies between the program's memory and ours that report a bad address instead of
//!   killing the program.
//! - [`chain`]: the handler that stands before every handler of the program. A signal that arrives in a
//!   section ([`sovia_sync::section`]) is queued again and delivered when the section ends, so a handler
//!   may make any call, and may leave by `siglongjmp`, and no lock is ever left behind.
//! - [`interrupt`]: system calls that sleep, and that no handler of the program slips past.
//! - [`thread`]: what belongs to the calling thread, readable in a handler.
//!
//! Nothing here allocates, takes a lock of libc's or calls a function that Sovia interposes.

pub mod access;
pub mod chain;
pub mod interrupt;
pub mod thread;
