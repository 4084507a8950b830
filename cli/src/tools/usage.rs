//! Errors in the command line that only the command itself can find.

use std::fmt;

/// Exit status for an error in the command line. clap uses the same status.
pub(crate) const STATUS: u8 = 2;

/// An error in the command line.
#[derive(Debug)]
struct UsageError(anyhow::Error);

impl fmt::Display for UsageError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#}", self.0)
    }
}

impl std::error::Error for UsageError {}

/// Marks an error as one in the command line.
pub(crate) fn usage(error: impl Into<anyhow::Error>) -> anyhow::Error {
    UsageError(error.into()).into()
}

/// Returns true if an error was marked by [`usage`].
pub(crate) fn is_usage(error: &anyhow::Error) -> bool {
    error.is::<UsageError>()
}

/// Returns an error in the command line, with a text as for `format!`.
macro_rules! wrong {
    ($($text:tt)*) => {
        return Err($crate::usage::usage(anyhow::anyhow!($($text)*)))
    };
}
pub(crate) use wrong;
