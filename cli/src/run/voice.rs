//! How much `sovia run` says of itself, on standard error.

use std::fmt::Display;
use std::io::{Write, stderr};

/// Writes to standard error. Where that takes nothing (a full disk, a reader that has gone) the program runs all the same.
pub(super) fn say(text: impl Display) {
    let _ = stderr().write_all(text.to_string().as_bytes());
}

/// Each level says what the one before it does, and more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Voice {
    /// Why nothing was started.
    Errors,
    /// That the program cannot be accelerated.
    Obstacles,
    /// At the end, what was accelerated, and why the rest was not.
    Results,
    /// At the start, what the program is started with; at the end, what would change that connections were on TCP.
    Reasons,
}

/// The command line's words for it.
#[derive(clap::Args)]
pub(super) struct Words {
    /// Print only errors that keep the program from starting
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// When the program ends, report how many connections were accelerated, and why others stayed on TCP. With -vv,
    /// also report how to move connections off TCP and, when the program starts, its library, rules, protocol and agent
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
