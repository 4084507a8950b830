//! Reads the statistics pages of running processes ([`sovia_control::stats_page`]).
//!
//! A reader finds a process's files through `/proc/PID/fd`. So the kernel decides which processes a user may look
//! at: the user's own, and all processes for root. The reader reads the files and never maps them. So a reader
//! changes nothing, not even a process's memory usage. A process cannot crash the reader by changing the files.
//!
//! A process's id, user, program and network namespace come from the kernel, and the reader trusts them. The reader
//! checks the form of everything that the process has written, and shows the values as that process's statement.
//!
//! - `parts`: work that threads share; `text`: program names that are safe to print; `process`: the kernel's data
//!   about a process;
//! - `files`: the files of one process; `scan`: all processes and their connections;
//! - `pairs`: the two ends of each connection; `rates`: changes between two scans; `metrics`: counters for
//!   Prometheus.

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
