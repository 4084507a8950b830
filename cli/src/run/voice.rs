//! Verbosity of `sovia run` on standard error.

use std::fmt::Display;
use std::io::{Write, stderr};

/// Writes to standard error. The program runs even if the write fails, for example because the disk is full or the
/// reader has gone.
pub(super) fn say(text: impl Display) {
    let _ = stderr().write_all(text.to_string().as_bytes());
}

/// Verbosity. Each level also prints the lines of the levels before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Voice {
    /// Errors that keep the program from being started.
    Errors,
    /// The reason why the program cannot be accelerated.
    Obstacles,
    /// A summary at the end: accelerated connections, and the reasons for the others.
    Results,
    /// The program's environment at the start, and advice and further counters at the end.
    Reasons,
}

/// The command line's words for it.
#[derive(clap::Args)]
pub(super) struct Words {
    /// Print only errors that keep the program from starting
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// When the program ends, report how many connections were accelerated, and why others stayed on TCP. With -vv,
    /// also report how to move connections off TCP, how often threads slept, and which messages Sovia ignored. When the
    /// program starts, -vv reports its library, rules, protocol and agent
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

impl Words {
    pub(super) fn voice(&self) -> Voice {
        match (self.quiet, self.verbose) {
            (true, _) => Voice::Errors,
            (false, 0) => Voice::Obstacles,
            (false, 1) => Voice::Results,
            (false, _) => Voice::Reasons,
        }
    }
}
