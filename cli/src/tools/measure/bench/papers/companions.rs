//! Results of other commands of `sovia bench`, for the report. Runs each command and reads its lines.

use std::process::Command;

use anyhow::{Context, ensure};

use super::results::Results;
use super::work::Scenario;
use super::{Args, stored};

/// Measures a scenario by its command. Adds its figures, or the reason why there are none.
pub(super) fn measure(scenario: Scenario, how: &Args, all: &mut Vec<Results>) {
    let read = lines(scenario, how).and_then(|text| stored::read(&text, all));
    if let Err(why) = read {
        let why = format!("`sovia bench {scenario}` says: {why:#}");
        eprintln!("sovia: left out: {why}");
        stored::of(scenario, all).left_out.push(why);
    }
}

fn lines(scenario: Scenario, how: &Args) -> anyhow::Result<String> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["bench", scenario.name(), "--json"]);
    command.args(arguments(scenario, how));
    let output = command.output().context("cannot start the command")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.trim().lines().last().unwrap_or("nothing");
    ensure!(output.status.success(), "{}", last.trim_start_matches("sovia: "));
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns arguments that give the command as many runs as the report's own scenarios.
fn arguments(scenario: Scenario, how: &Args) -> Vec<String> {
    let runs = how.runs().to_string();
    let mut arguments = vec!["--runs".to_owned(), runs];
    match scenario {
        Scenario::Hosts => {
            let seconds = how.effort().seconds.to_string();
            arguments.extend([
                "--seconds".to_owned(),
                seconds,
                "--perturbation".to_owned(),
                "0".to_owned(),
            ]);
            if how.quick {
                arguments.push("--quick".to_owned());
            }
        }
        Scenario::Rpc => {
            let seconds = (4.0 * how.effort().seconds).clamp(0.01, 0.2).to_string();
            arguments.extend(["--seconds".to_owned(), seconds]);
        }
        Scenario::Emp => {
            let repetitions = if how.quick { "300" } else { "3000" };
            arguments.extend(["--repetitions".to_owned(), repetitions.to_owned()]);
        }
        Scenario::Ftp if how.quick => {
            // The files whose figures are compared, without the longest.
            arguments
                .extend(["--size", "13827767,19090223", "--client", "tnftp"].map(str::to_owned));
        }
        _ => {}
    }
    arguments
}
