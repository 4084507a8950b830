//! Signals and faults that concern Sovia's own code.
//!
//! - [`access`]: copies between the program's memory and Sovia's memory. The copies report a bad address instead
//!   of killing the program.
//! - [`chain`]: the signal handler that runs before every handler of the program. This handler defers a signal
//!   that arrives in a critical section ([`sovia_sync::critical_section`]) until the section ends. So a program's
//!   handler may make any call, and may leave by `siglongjmp`, without leaving a lock behind.
//! - [`interrupt`]: sleeping system calls that a handler of the program always interrupts.
//! - [`thread`]: data of the calling thread, which a handler may read.
//!
//! No function here allocates, takes a lock of libc or calls a function that Sovia interposes.

pub mod access;
pub mod chain;
pub mod interrupt;
pub mod thread;
