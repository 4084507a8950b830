//! Runs one scenario once and shows both transcripts, to examine a failure: `pair APP CASE
//! [kernel|sovia|libsovia [kernel|sovia|libsovia]]`. The server's stack comes first. `APP.py` names
//! a Python program. The word `both` instead of the stacks runs a single process.

use std::env;
use std::process::ExitCode;

use sovia_tests::{Pairing, Scenario, Stack};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let [app, case, stacks @ ..] = words.as_slice() else {
        eprintln!(
            "usage: pair APP[.py] CASE [STACK [STACK]] [both], where STACK is kernel, sovia or libsovia"
        );
        return ExitCode::from(2);
    };
    // The name lives as long as the process.
    let app: &'static str = app.clone().leak();
    let mut scenario = match app.strip_suffix(".py") {
        Some(name) => Scenario::python(name, case),
        None => Scenario::c(app, case),
    };
    if stacks.iter().any(|word| word == "both") {
        scenario = scenario.single();
    }
    let mut chosen = stacks.iter().filter(|word| *word != "both").map(|word| match word.as_str() {
        "kernel" => Stack::Kernel,
        "libsovia" => Stack::Native,
        _ => Stack::Sovia,
    });
    let server = chosen.next().unwrap_or(Stack::Sovia);
    let pairing = Pairing { server, client: chosen.next().unwrap_or(server) };
    let seen = scenario.observe(pairing);
    for (role, outcome) in &seen.ends {
        println!("--- {role}\n{}", outcome.transcript().trim_end());
        for process in &outcome.stuck {
            println!("still there: {process}");
        }
        print!("{}", outcome.stderr);
    }
    if seen.ends.iter().all(|(_, outcome)| outcome.success()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
