//! Data that `sovia run` and the processes under Sovia exchange.
//!
//! `sovia run` passes [`Rules`] to processes, as text in the environment. The rules say which connections may leave
//! TCP. The processes of a run count their connections in a common [`StatsPage`]. [`stats_page`] is the statistics
//! page, on which other processes can see the connections of a running process. [`mod@env`] names the environment
//! variables. An [`inheritance::Inheritance`] is the data about connections that a process passes to the program that
//! it executes.
//!
//! This crate is `no_std`, because files and sockets of the standard library would call the hooks of the injected
//! library. The crate allocates only small objects: rules, a path, a list of processes, texts of errors.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod env;
pub mod inheritance;
mod reason;
mod rules;
mod stats;
pub mod stats_page;
mod term;
mod users;

pub use reason::{Junk, Reason};
pub use rules::{Effect, RULES_MAX, Rules};
pub use stats::{PageError, StatsPage, Traffic};
pub use term::{End, NAME_BYTES_MAX, NicName, NicRule, RuleError, RuleFault};
