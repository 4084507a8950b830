//! What `sovia run` and the processes it accelerates tell each other.
//!
//! Downwards go the [`Rules`], which say what connections may leave TCP, as text in the
//! environment. Upwards come counters, in a [`StatsPage`] that all processes of a run map.
//! What it shows of its connections while it runs is its [`board`]. [`mod@env`] names the variables that carry both. What a process tells the program that it becomes is a
//! [`inheritance::Inheritance`].
//!
//! The injected library must never meet its own hooks, so this crate has no standard library
//! to reach a file or a socket with: it is `no_std`, and allocates only to describe an error.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod board;
pub mod env;
pub mod inheritance;
mod reason;
mod rules;
mod stats;
mod term;
mod users;

pub use reason::{Junk, Reason};
pub use rules::{Effect, RULES_MAX, Rules};
pub use stats::{PageError, StatsPage, Traffic};
pub use term::{End, NAME_BYTES_MAX, NicName, RuleError, RuleFault};
