//! Checks that manual pages and completions agree with the programs' arguments.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::common::{Said, is_there, skipped};

/// Makes the folder that `sovia-tools manual` writes, as in `make build`.
fn manual() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut tools = Command::new(env!("CARGO_BIN_EXE_sovia-tools"));
    let said = Said::from(tools.arg("manual").arg(folder.path()).output().unwrap());
    assert_eq!((said.code(), said.out.as_str(), said.err.as_str()), (0, "", ""));
    folder
}

#[test]
fn run_has_the_same_help_from_both_programs() {
    let help = |program: &str| {
        Said::from(Command::new(program).args(["run", "--help"]).output().unwrap()).out
    };
    let own = help(env!("CARGO_BIN_EXE_sovia"));
    assert!(own.contains("Usage: sovia run [OPTIONS]"), "{own}");
    assert_eq!(own, help(env!("CARGO_BIN_EXE_sovia-tools")));
}

/// Formats the manual pages with `man`, which must print no warning.
#[test]
fn each_command_has_a_page_without_warnings() {
    let folder = manual();
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

/// Returns the completions that bash offers for the last of `words`.
fn offered_by_bash(script: &Path, words: &[&str]) -> Vec<String> {
    offered(script, "_sovia", words)
}

/// Calls one function of the script. Returns its completions for the last of `words`.
fn offered(script: &Path, function: &str, words: &[&str]) -> Vec<String> {
    let typed = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let line = format!(
        "source '{}'; COMP_WORDS=({typed}); COMP_CWORD={}; {function} sovia '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        words.len() - 1,
    );
    let said = Said::from(Command::new("bash").args(["--norc", "-c", &line]).output().unwrap());
    assert_eq!(said.code(), 0, "{said:?}");
    said.out.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_the_command_of_the_program_that_is_run() {
    let folder = manual();
    let script = folder.path().join("bash/sovia");
    let offered = |words: &[&str]| offered(&script, "_sovia_or_program", words);
    assert_eq!(offered(&["sovia", "ru"]), ["run"]);
    assert_eq!(offered(&["sovia", "run", "--proto"]), ["--protocol"]);
    for before in [
        &["run"][..],
        &["run", "--"],
        &["run", "-v", "--only", "port", "=", "5", "--except", "a", "--"],
        &["run", "--respect-filters", "--trust", "user", "=", "redis"],
        &["run", "--only", "=", "port", "=", "6379", "--protocol", "=", "auto"],
        &[
            "run",
            "--only",
            "addr",
            "=",
            "fd00",
            "::",
            "/8",
            "--respect-filters",
            "=",
            "port",
            "=",
            "1",
        ],
    ] {
        let words = [&["sovia"], before, &["printenv"]].concat();
        assert!(offered(&words).contains(&"printenv".to_owned()), "{before:?}");
    }
    // Without bash-completion, the completions are file names: the program's own completion cannot be found.
    assert_eq!(offered(&["sovia", "run", "--", "ls", "/etc/hostna"]), ["/etc/hostname"]);
    assert_eq!(offered(&["sovia", "run", "ls", "/etc/hostna"]), ["/etc/hostname"]);
}

#[test]
fn bash_completes_commands_of_all_programs() {
    let folder = manual();
    let script = folder.path().join("bash/sovia");
    assert_eq!(offered_by_bash(&script, &["sovia", "ru"]), ["run"]);
    assert_eq!(offered_by_bash(&script, &["sovia", "bench", "lat"]), ["latency"]);
    assert_eq!(offered_by_bash(&script, &["sovia", "agent", "--new"]), ["--new-key"]);
    assert_eq!(offered_by_bash(&script, &["sovia", "lane", "up", "--mt"]), ["--mtu"]);
    let waits = offered_by_bash(&script, &["sovia", "bench", "latency", "--wait", "b"]);
    assert_eq!(waits, ["block"]);
}

#[test]
fn bash_completes_units_of_enable_and_disable() {
    let folder = manual();
    let script = folder.path().join("bash/with-units");
    let own = fs::read_to_string(folder.path().join("bash/sovia")).unwrap();
    let systemctl = "systemctl() { printf '%s\\n' 'redis-server.service enabled enabled' 'cron.service enabled'; }\n";
    fs::write(&script, systemctl.to_owned() + &own).unwrap();
    let offered = |words: &[&str]| offered(&script, "_sovia_or_program", words);
    for before in [&["enable"][..], &["disable"], &["enable", "--now"]] {
        let words = [&["sovia"], before, &["re"]].concat();
        assert_eq!(offered(&words), ["redis-server"], "{before:?}");
    }
    assert_eq!(offered(&["sovia", "enable", "--dr"]), ["--dry-run"]);
    assert!(!offered(&["sovia", "enable", "--only", "re"]).contains(&"redis-server".to_owned()));
}

#[test]
fn fish_completes_the_command_line_of_the_program() {
    let test = "fish_completes_the_command_line_of_the_program";
    if !is_there("fish") {
        return skipped(test, "fish is not installed");
    }
    let folder = manual();
    let script = folder.path().join("fish/sovia.fish").display().to_string();
    let offered = |line: &str| {
        let command = format!("source '{script}'; complete -C '{line}'");
        let said = Said::from(Command::new("fish").args(["-N", "-c", &command]).output().unwrap());
        said.out.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for before in ["run", "run --", "run -v --only port=5 --trust any --", "run -q"] {
        let found = offered(&format!("sovia {before} printen"));
        assert!(found.contains(&"printenv".to_owned()), "{before}: {found:?}");
    }
    assert_eq!(offered("sovia run -- ls /etc/hostna"), ["/etc/hostname"]);
    assert_eq!(offered("sovia run --proto"), ["--protocol"]);
    assert_eq!(offered("sovia ru"), ["run"]);
}
