//! Environment variables that the library reads. The library cannot report an invalid value, so `sovia run` checks
//! them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;

use anyhow::{anyhow, bail};
use sovia_control::env as names;
use sovia_proto::configuration::Configuration;
use sovia_proto::configuration::text::ParseError;

use crate::similar::{similar, suggestion};

/// Returns a line for each variable of a running process that the library ignores, because its name is misspelt or its
/// value is invalid. Returns nothing if the caller may not read the process's environment.
pub fn ignored_by_library(pid: i32) -> Vec<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let variables = environment.split(|&byte| byte == 0).filter_map(|variable| {
        let at = variable.iter().position(|&byte| byte == b'=')?;
        Some((OsStr::from_bytes(&variable[..at]), OsStr::from_bytes(&variable[at + 1..])))
    });
    let variables: Vec<(OsString, OsString)> =
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let value_of = |asked: &str| {
        let found = variables.iter().find(|(name, _)| name == asked);
        found.map(|(_, value)| value.clone())
    };
    let mut lines = misspelt(variables.iter().map(|(name, _)| name.clone()));
    let protocol = value_of(names::PROTOCOL);
    lines.extend(faults(value_of));
    if let Some(text) = protocol
        && let Err(error) = check_protocol(names::PROTOCOL, &text.to_string_lossy())
    {
        lines.push(error.to_string());
    }
    lines
}

/// Checks the settings of the papers' protocol, which an option or a variable of name `whence` gives.
///
/// # Errors
/// The reason why no connection can have these settings.
pub(super) fn check_protocol(whence: &str, text: &str) -> anyhow::Result<()> {
    Configuration::of_socket(text).map(drop).map_err(|error| {
        let suggestion = match &error {
            ParseError::Word(word) => suggestion(word, Configuration::words()),
            _ => String::new(),
        };
        anyhow!("{whence}: {error}{suggestion}")
    })
}

/// Finds variables whose names are misspelt names of the library's variables. Returns a line for each.
pub(super) fn misspelt(variables: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut lines = Vec::new();
    for variable in variables {
        let Some(name) = variable.to_str().filter(|name| name.starts_with(names::PREFIX)) else {
            continue;
        };
        let of = |name: &'static str| name.strip_prefix(names::PREFIX).unwrap_or(name);
        if names::VARIABLES.contains(&name) {
            continue;
        }
        if let Some(known) =
            similar(&name[names::PREFIX.len()..], names::VARIABLES.iter().copied().map(of))
        {
            lines.push(format!("unknown variable {name}: did you mean {}{known}?", names::PREFIX));
        }
    }
    lines
}

/// Checks variables whose values are numbers or words. Rules and protocols are checked where they are parsed.
///
/// # Errors
/// An error for a value that the library would ignore.
pub(super) fn check(value_of: impl Fn(&str) -> Option<OsString>) -> anyhow::Result<()> {
    match faults(value_of).into_iter().next() {
        Some(fault) => bail!(fault),
        None => Ok(()),
    }
}

/// Returns a line for each value that the library would ignore.
fn faults(value_of: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, expected) in [
        (names::SPIN, "microseconds, such as 50"),
        (names::MEET, "a number of transfers, such as 0"),
        (names::MEMORY, "MiB, such as 512"),
    ] {
        let Some(value) = value_of(name).filter(|value| !value.is_empty()) else { continue };
        if number(&value).is_none() {
            lines.push(format!("{name}: expected {expected}, not `{}`", value.to_string_lossy()));
        }
    }
    if let Some(value) = value_of(names::IO_URING)
        && value != names::IO_URING_ALLOW
        && !value.is_empty()
    {
        let (name, allow) = (names::IO_URING, names::IO_URING_ALLOW);
        lines.push(format!("{name}: expected `{allow}`, not `{}`", value.to_string_lossy()));
    }
    lines
}

fn number(value: &OsStr) -> Option<u32> {
    value.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(name: &'static str, value: &'static str) -> Result<(), String> {
        let value_of = |asked: &str| (asked == name).then(|| OsString::from(value));
        check(value_of).map_err(|error| error.to_string())
    }

    #[test]
    fn a_value_that_the_library_would_ignore_is_an_error() {
        for (name, value) in
            [("SOVIA_SPIN", "0"), ("SOVIA_MEMORY", "512"), ("SOVIA_IO_URING", "allow")]
        {
            assert_eq!(checked(name, value), Ok(()));
        }
        for (name, value, expected) in [
            ("SOVIA_SPIN", "fast", "SOVIA_SPIN: expected microseconds, such as 50, not `fast`"),
            ("SOVIA_MEET", "-1", "SOVIA_MEET: expected a number of transfers, such as 0, not `-1`"),
            ("SOVIA_MEMORY", "1G", "SOVIA_MEMORY: expected MiB, such as 512, not `1G`"),
            ("SOVIA_IO_URING", "yes", "SOVIA_IO_URING: expected `allow`, not `yes`"),
        ] {
            assert_eq!(checked(name, value), Err(expected.to_owned()));
        }
    }

    #[test]
    fn ignored_variables_of_a_process_are_found() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .env_clear()
            .env("SOVIA_SPIN", "fast")
            .env("SOVIA_MEMRY", "5")
            .env("SOVIA_MEET", "0")
            .env("SOVIA_PROTOCOL", "w=99")
            .spawn()
            .unwrap();
        let lines = ignored_by_library(child.id() as i32);
        child.kill().and_then(|()| child.wait()).unwrap();
        let expected = [
            "unknown variable SOVIA_MEMRY: did you mean SOVIA_MEMORY?",
            "SOVIA_SPIN: expected microseconds, such as 50, not `fast`",
            "SOVIA_PROTOCOL: w is 99, and must be 1 to 32 packets for sockets",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_name_with_a_slip_is_reported_and_others_are_not() {
        let lines = |name: &str| misspelt([OsString::from(name)].into_iter());
        let expected = "unknown variable SOVIA_MEMRY: did you mean SOVIA_MEMORY?";
        assert_eq!(lines("SOVIA_MEMRY"), [expected]);
        for name in ["SOVIA_MEMORY", "SOVIA_TESTS_SCALE", "SOVIA_BIN", "SOVIA_LIB", "PATH"] {
            assert_eq!(lines(name), [""; 0], "{name}");
        }
    }
}
