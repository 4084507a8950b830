//! `sovia doctor`: checks what lets connections of this user leave TCP on this host, and what keeps them on TCP.

mod carriers;
mod host;
mod system;
mod trial;

use serde::Serialize;

use sovia_cli::error_text::without_numbers;

use crate::output::put_line;

/// Report what keeps programs on TCP here, and how to change that
///
/// The command looks at the system as a program of this user sees it. The command checks the kernel, libc, limits,
/// namespaces, control groups, devices and the agent. The command opens each carrier that Virtual Interfaces can use on
/// this system. At the end, two processes exchange messages over TCP and over Sovia.
///
/// The exit status is 0 if programs of this user leave TCP, and 1 if something keeps them on TCP. The exit status is 2
/// if the command line is wrong.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Skip the test in which two processes exchange messages
    #[arg(long)]
    no_trial: bool,
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// No fault.
    Good,
    /// Programs leave TCP, but some programs or some carriers may not.
    Note,
    /// Programs stay on TCP.
    Bad,
}

/// One check and its result.
#[derive(Debug, Serialize)]
struct Finding {
    verdict: Verdict,
    /// Subject of the check.
    what: &'static str,
    /// Description of the result.
    found: String,
    /// Advice to the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    fn good(what: &'static str, found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Good, what, found: found.into(), advice: None }
    }

    fn note(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { verdict: Verdict::Note, what, found: found.into(), advice: Some(advice.into()) }
    }

    fn bad(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { verdict: Verdict::Bad, what, found: found.into(), advice: Some(advice.into()) }
    }
}

/// Runs the checks, and prints each result at once. Returns true if programs leave TCP.
pub(crate) fn doctor(args: &Args) -> anyhow::Result<bool> {
    let mut are_well = true;
    let mut say = |mut finding: Finding| -> anyhow::Result<()> {
        finding.found = without_numbers(&finding.found);
        are_well &= finding.verdict != Verdict::Bad;
        if args.json {
            return put_line!("{}", serde_json::to_string(&finding)?);
        }
        let verdict = match finding.verdict {
            Verdict::Good => "ok",
            Verdict::Note => "note",
            Verdict::Bad => "TCP",
        };
        put_line!("{verdict:<5}{:<20}{}", finding.what, finding.found)?;
        finding.advice.map_or(Ok(()), |advice| put_line!("{:25}{advice}", ""))
    };
    for look in host::LOOKS {
        say(look())?;
    }
    for finding in carriers::look() {
        say(finding)?;
    }
    if !args.no_trial {
        say(trial::look())?;
    }
    Ok(are_well)
}
