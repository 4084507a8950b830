//! Tests of `sovia agent --new-key`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("sovia-key-{name}-{}", std::process::id()))
}

/// Runs some shell commands, then makes a key.
fn new_key(before: &str, path: &Path) -> Output {
    let script = format!("{before} exec \"$0\" agent --new-key \"$1\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_sovia-tools")]).arg(path);
    shell.stdin(Stdio::null()).output().expect("a shell starts")
}

#[test]
fn folder_of_a_new_key_is_made() {
    let folder = folder("folder");
    let path = folder.join("etc").join("agent.key");
    let output = new_key("", &path);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout.len(), 45, "{output:?}");
    assert!(path.exists());
    std::fs::remove_dir_all(&folder).expect("it is this test's");
}

/// Simulates a full disk: the key's file may have no bytes.
#[test]
fn key_that_cannot_be_written_leaves_no_file_and_says_why_once() {
    let folder = folder("full");
    let path = folder.join("agent.key");
    let output = new_key("trap '' XFSZ; ulimit -f 0;", &path);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("File too large").count(), 1, "{said}");
    assert!(!path.exists());
    assert!(new_key("", &path).status.success(), "nothing is in its way");
    std::fs::remove_dir_all(&folder).expect("it is this test's");
}
