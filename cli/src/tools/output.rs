//! Standard output. A command fails if it cannot write its result.

use std::fmt::Display;
use std::io::{Write, stdout};

use anyhow::Context;

/// Writes text and flushes it.
pub(crate) fn put(text: impl Display) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    let done = write!(out, "{text}").and_then(|()| out.flush());
    done.context("cannot write to standard output")
}

/// Like `println`, but returns the error.
macro_rules! put_line {
    () => { $crate::output::put("\n") };
    ($($format:tt)*) => { $crate::output::put(format_args!("{}\n", format_args!($($format)*))) };
}
pub(crate) use put_line;
