//! Reads what processes under Sovia show of their connections, while they run ([`sovia_control::board`]).
//!
//! A process's files are found through `/proc/PID/fd`, so the kernel decides which processes may be looked at: those of
//! one's own user, and all of them for root. They are read, never mapped: so a reader changes nothing, not even how much
//! memory a process uses, and nothing that a process does to its files ends a reader. The process notices nothing.
//!
//! What the kernel says of a process (its id, user, program, network namespace) is believed; what the process writes is
//! checked for its form and shown as that process's word.
//!
//! - `parts`: work that threads share; `text`: names of programs, made fit to be shown; `process`: what the kernel says of a process;
//! - `files`: the files of one; `scan`: all processes, and their connections;
//! - `pairs`: which two connections are the ends of one; `rates`: what has happened between two looks;
//!   `metrics`: counters for Prometheus.

#![forbid(unsafe_code)]

mod files;
mod metrics;
mod pairs;
mod parts;
mod process;
mod rates;
mod scan;
mod text;

pub use files::unsettled;
pub use metrics::{Metrics, key};
pub use pairs::{Pairs, pairs};
pub use parts::in_parts;
pub use process::{Process, exists};
pub use rates::{Rate, Rates};
pub use scan::{Connection, Family, Id, Scan, Unreadable, scan, scan_of};
pub use text::shown;
