//! Errors in the command line that only the command itself can find.

use std::fmt;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use sovia_cli::similar::similar;

use crate::Cli;

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

/// Adds a suggestion for a misspelt command or value, if clap has found none. clap compares only long words well.
pub(crate) fn with_suggestion(mut error: clap::Error) -> clap::Error {
    let (wrong, known, suggested) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            // The word may be a command of `sovia bench` or `sovia lane`.
            let mut command = Cli::command();
            if let Some(below) = std::env::args().nth(1)
                && let Some(below) = command.find_subcommand(&below)
            {
                command = below.clone();
            }
            let known = command.get_subcommands().filter(|below| !below.is_hide_set());
            let known = known.map(|below| below.get_name().to_owned()).collect();
            (ContextKind::InvalidSubcommand, known, ContextKind::SuggestedSubcommand)
        }
        ErrorKind::InvalidValue => {
            let known = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(values)) => values.clone(),
                _ => Vec::new(),
            };
            (ContextKind::InvalidValue, known, ContextKind::SuggestedValue)
        }
        _ => return error,
    };
    let Some(ContextValue::String(word)) = error.get(wrong) else { return error };
    if error.get(suggested).is_some() {
        return error;
    }
    if let Some(found) = similar(word, known.iter().map(String::as_str)) {
        let found = found.to_owned();
        let value = match suggested {
            ContextKind::SuggestedSubcommand => ContextValue::Strings(vec![found]),
            _ => ContextValue::String(found),
        };
        error.insert(suggested, value);
    }
    error
}

/// Returns an error in the command line, with a text as for `format!`.
macro_rules! wrong {
    ($($text:tt)*) => {
        return Err($crate::usage::usage(anyhow::anyhow!($($text)*)))
    };
}
pub(crate) use wrong;
