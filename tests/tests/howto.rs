//! Commands in the pages for users, run unchanged. Needs root, and uses namespaces of its own.

use sovia_tests::{Launch, Stack, TempDir, skipped, sovia};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const WATCHDOG: Duration = Duration::from_secs(180);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn carry_out(page: &str) {
    if skipped(page, &["unshare", "ip", "python3", "setpriv"]) {
        return;
    }
    let namespaces = ["--net", "--mount", "--pid", "--fork", "true"];
    let namespaces = Command::new("unshare").args(namespaces).output();
    if !namespaces.as_ref().is_ok_and(|output| output.status.success()) {
        return println!("SKIPPED: {page}: no namespaces: {namespaces:?}");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-py/howto.py");
    let folder = TempDir::new();
    let paths = [script, root().join(page), sovia(), folder.path().to_owned()];
    let mut command = vec!["/usr/bin/python3".to_owned(), "-B".to_owned()];
    command.extend(paths.map(|path| path.display().to_string()));
    Launch::new(Stack::Kernel, command).start().finish(WATCHDOG).expect_ok();
}

macro_rules! carried_out {
    ($($test:ident: $page:literal,)*) => {
        $(
            #[test]
            fn $test() {
                carry_out($page);
            }
        )*

        /// Pages whose commands are run here.
        const HERE: &[&str] = &[$($page),*];
    };
}

carried_out! {
    readme: "README.md",
    quickstart: "docs/quickstart.md",
    redis: "docs/howto/redis.md",
    postgresql: "docs/howto/postgresql.md",
    nginx: "docs/howto/nginx.md",
    python: "docs/howto/python.md",
    whole_machine: "docs/howto/whole-machine.md",
    several_hosts: "docs/howto/several-hosts.md",
    packet_filters: "docs/howto/packet-filters.md",
    users_and_sandboxes: "docs/howto/users-and-sandboxes.md",
    capacity: "docs/operate/capacity.md",
    monitor: "docs/operate/monitor.md",
    off_switch: "docs/operate/off-switch.md",
    security_summary: "docs/operate/security-summary.md",
    troubleshoot: "docs/operate/troubleshoot.md",
}

/// Pages for users with a task.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/howto", "docs/operate"] {
        let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap());
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        pages.extend(names.filter(|it| it.ends_with(".md")).map(|name| format!("{folder}/{name}")));
    }
    pages
}

/// A block of a page: the text after its fence, and its lines. An indented block has no fence.
fn blocks(text: &str) -> Vec<(String, Vec<&str>)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, Vec<&str>)> = None;
    let mut before = "";
    for line in text.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => open = Some((info.to_owned(), Vec::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some((_, lines)), None) => lines.push(line),
            (None, None) if line.starts_with("    ") && before.is_empty() => {
                blocks.push(("indented".to_owned(), vec![line]));
            }
            (None, None) => {}
        }
        before = line;
    }
    blocks
}

/// Returns the reason why nothing runs a block of commands, or `None` if a program does.
fn idle(page: &str, info: &str, commands: &[&str]) -> Option<String> {
    let mut words = info.split_whitespace();
    if words.next() != Some("sh") {
        return (info == "indented").then(|| "a block without a fence".to_owned());
    }
    let Some(by) = words.find_map(|word| word.strip_prefix("by=")) else {
        return (!HERE.contains(&page)).then(|| "no program carries it out".to_owned());
    };
    let Ok(program) = fs::read_to_string(root().join(by)) else {
        return Some(format!("there is no {by}"));
    };
    if by == "Makefile" {
        let is_target = |command: &str| {
            let target = command.trim_start_matches("sudo ").strip_prefix("make ");
            let target = target.and_then(|it| it.split_whitespace().next()).unwrap_or_default();
            program.lines().any(|line| line.starts_with(&format!("{target}:")))
        };
        let wrong = commands.iter().find(|command| !is_target(command));
        return wrong.map(|command| format!("no target: {command}"));
    }
    (!program.contains(page)).then(|| format!("{by} does not read the page"))
}

#[test]
fn every_command_for_users_is_carried_out() {
    let mut idles = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        for (info, lines) in blocks(&text) {
            let why = idle(&page, &info, &lines);
            idles.extend(why.map(|why| format!("{page}: {why}: {:?}", lines.first())));
        }
    }
    assert!(idles.is_empty(), "{}", idles.join("\n"));
}
