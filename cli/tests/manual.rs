//! Manual pages and completions say what the programs parse.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Said, is_there, skipped};
use sovia_cli::definition::Definition;
use sovia_control::env;
use sovia_manual::{command, definition, sections, whole, write_completions, write_pages};

/// The programs that `sovia` becomes.
const OTHERS: &[&str] = &[
    env!("CARGO_BIN_EXE_sovia-bench"),
    env!("CARGO_BIN_EXE_sovia-agent"),
    env!("CARGO_BIN_EXE_sovia-lane"),
    env!("CARGO_BIN_EXE_sovia-admin"),
    env!("CARGO_BIN_EXE_sovia-watch"),
];

fn sovia() -> clap::Command {
    let others: Vec<_> = OTHERS.iter().map(PathBuf::from).collect();
    command(whole(Path::new(env!("CARGO_BIN_EXE_sovia")), &others).unwrap())
}

/// The help of each command of a program, by its words, is that of the command made from its definition.
fn compare(program: &str, words: &mut Vec<String>, definition: &Definition, whole: &clap::Command) {
    let help = Said::from(Command::new(program).args(&*words).arg("--help").output().unwrap());
    // The definition leaves its own name for the usage line to the program, such as `sovia bench latency`.
    let body = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim_end).filter(|line| !line.starts_with("Usage: "));
        lines.map(str::to_owned).collect()
    };
    let asked = ["sovia"].into_iter().chain(words.iter().map(String::as_str)).chain(["--help"]);
    let made = whole.clone().try_get_matches_from(asked).unwrap_err().to_string();
    assert_eq!(body(&made), body(&help.out), "{program} {words:?}");
    for below in &definition.subcommands {
        words.push(below.name.clone());
        compare(program, words, below, whole);
        words.pop();
    }
}

#[test]
fn commands_made_from_definitions_have_the_help_of_the_programs() {
    for program in [env!("CARGO_BIN_EXE_sovia")].iter().chain(OTHERS) {
        let made = command(definition(Path::new(program)).unwrap());
        let mut own = definition(Path::new(program)).unwrap();
        // Their help is another program's.
        own.subcommands.retain(|below| !below.is_passed_on);
        compare(program, &mut Vec::new(), &own, &made);
    }
}

/// Pages of manuals as `man` formats them, without a complaint of its.
#[test]
fn each_command_has_a_page_without_warnings() {
    let folder = tempfile::tempdir().unwrap();
    write_pages(sovia(), folder.path()).unwrap();
    let pages: BTreeSet<_> = fs::read_dir(folder.path().join("man1"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for page in
        ["sovia.1", "sovia-run.1", "sovia-agent.1", "sovia-lane-up.1", "sovia-bench-latency.1"]
    {
        assert!(pages.contains(page), "{page} is missing of {pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("endpoint")), "a hidden command: {pages:?}");
    if !is_there("man") {
        return skipped("each_command_has_a_page_without_warnings", "man is not installed");
    }
    for page in &pages {
        let path = folder.path().join("man1").join(page);
        let mut man = Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l"]).arg(path).env("MANWIDTH", "100");
        let said = Said::from(man.output().unwrap());
        assert_eq!((said.code(), said.err.as_str()), (0, ""), "{page}");
        assert!(said.out.contains("SYNOPSIS"), "{page}: {}", said.out);
    }
}

/// What bash offers for the last of `words`.
fn offered_by_bash(script: &Path, words: &[&str]) -> Vec<String> {
    let typed = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let line = format!(
        "source '{}'; COMP_WORDS=({typed}); COMP_CWORD={}; _sovia sovia '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        words.len() - 1,
    );
    let said = Said::from(Command::new("bash").args(["--norc", "-c", &line]).output().unwrap());
    assert_eq!(said.code(), 0, "{said:?}");
    said.out.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_of_all_programs() {
    let folder = tempfile::tempdir().unwrap();
    write_completions(sovia(), folder.path()).unwrap();
    let script = folder.path().join("bash/sovia");
    assert_eq!(offered_by_bash(&script, &["sovia", "ru"]), ["run"]);
    assert_eq!(offered_by_bash(&script, &["sovia", "bench", "lat"]), ["latency"]);
    assert_eq!(offered_by_bash(&script, &["sovia", "agent", "--new"]), ["--new-key"]);
    assert_eq!(offered_by_bash(&script, &["sovia", "lane", "up", "--mt"]), ["--mtu"]);
    let waits = offered_by_bash(&script, &["sovia", "bench", "latency", "--wait", "b"]);
    assert_eq!(waits, ["block"]);
}

#[test]
fn the_manual_has_each_variable_of_the_library() {
    let known: Vec<_> = sections::VARIABLES.iter().map(|(name, _)| *name).collect();
    for name in
        [env::RULES, env::AGENT, env::STATS, env::IO_URING, env::SPIN, env::PROTOCOL, env::PRELOAD]
    {
        assert!(known.contains(&name), "{name} is not in the manual");
    }
}
