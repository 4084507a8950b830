//! The commands of docs/howto, carried out as they stand there. For root, in namespaces of the test's own.

use sovia_tests::{Launch, Stack, TempDir, skipped, sovia};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const WATCHDOG: Duration = Duration::from_secs(180);

fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/howto")
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
    let paths = [script, pages().join(format!("{page}.md")), sovia(), folder.path().to_owned()];
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

        /// Pages whose commands are carried out here.
        const HERE: &[&str] = &[$($page),*];
    };
}

carried_out! {
    redis: "redis",
    postgresql: "postgresql",
    nginx: "nginx",
    python: "python",
    whole_machine: "whole-machine",
    several_hosts: "several-hosts",
}

/// Pages whose commands other programs carry out: scripts/try-packages, scripts/try-containers, and tests of these topics.
const ELSEWHERE: &[&str] =
    &["systemd", "containers", "kubernetes", "packet-filters", "users-and-sandboxes"];

#[test]
fn each_page_is_carried_out() {
    let entries = fs::read_dir(pages()).unwrap().map(|entry| entry.unwrap().path());
    let pages = entries.filter(|path| path.extension().is_some_and(|it| it == "md"));
    let pages: BTreeSet<String> =
        pages.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let known = HERE.iter().chain(ELSEWHERE).map(|&page| page.to_owned()).collect();
    assert_eq!(pages, known);
}
