//! Stores the output of scenarios over the kernel, so that a run in another configuration need not run them again.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, ExitStatus};

use serde_json::{Value, json};

use crate::launch::Outcome;
use crate::workspace::build_dir;

/// Prefixes of variables that decide the output of a scenario.
const DECIDE: [&str; 3] = ["SOVIA_TEST_", "SOVIA_TESTS_EARLY", "SOVIA_STRESS_"];

/// Identifies a run over the kernel: the program's bytes, its arguments and environment, and the kernel.
#[derive(Debug)]
pub(crate) struct Key(String);

impl Key {
    /// Makes the key of a run of `programs`, files whose contents decide the output, with the arguments and
    /// environment `words`.
    pub(crate) fn new(programs: &[PathBuf], words: &[String]) -> Self {
        let mut hasher = DefaultHasher::new();
        for program in programs {
            fs::read(program).unwrap_or_default().hash(&mut hasher);
        }
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        // SAFETY: geteuid has no preconditions.
        let user = unsafe { libc::geteuid() };
        let mut inherited: Vec<String> = env::vars()
            .filter(|(name, _)| DECIDE.iter().any(|start| name.starts_with(start)))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        inherited.sort();
        let hash = hasher.finish();
        let (words, inherited) = (words.join(" "), inherited.join(" "));
        Self(format!("{hash:016x} {} {user} {inherited} {words}", kernel.trim()))
    }

    fn file(&self) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        build_dir().join("transcripts").join(format!("{:016x}.json", hasher.finish()))
    }
}

/// Returns the stored outcomes of both ends; `None` if there are none for this key.
pub(crate) fn load(key: &Key) -> Option<Vec<Outcome>> {
    let stored: Value = serde_json::from_slice(&fs::read(key.file()).ok()?).ok()?;
    if stored["key"] != *key.0 {
        return None;
    }
    let text = |end: &Value, name: &str| Some(end[name].as_str()?.to_owned());
    let outcome = |end: &Value| {
        let status = i32::try_from(end["status"].as_i64()?).ok()?;
        Some(Outcome {
            stdout: text(end, "stdout")?,
            stderr: text(end, "stderr")?,
            status: Some(ExitStatus::from_raw(status)),
            stuck: Vec::new(),
        })
    };
    stored["ends"].as_array()?.iter().map(outcome).collect()
}

/// Stores the outcomes of both ends. A failure does no harm: the next run executes the scenario
/// again.
pub(crate) fn store(key: &Key, ends: &[&Outcome]) {
    let status = |end: &Outcome| end.status.map(ExitStatusExt::into_raw);
    let ends: Vec<Value> = ends
        .iter()
        .map(|end| json!({ "stdout": end.stdout, "stderr": end.stderr, "status": status(end) }))
        .collect();
    let _ = write(&key.file(), &json!({ "key": key.0, "ends": ends }).to_string());
}

/// Writes a file whole or not at all, because several test programs store at once.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    fs::create_dir_all(file.parent().expect("a file lies in a folder"))?;
    let fresh = file.with_extension(format!("{}", process::id()));
    fs::write(&fresh, text)?;
    fs::rename(&fresh, file)
}

#[cfg(test)]
mod tests {
    use super::{Key, load, store};
    use crate::launch::Outcome;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn outcome(text: &str) -> Outcome {
        let status = Some(ExitStatus::from_raw(3 << 8));
        Outcome { stdout: text.into(), stderr: "e".into(), status, stuck: Vec::new() }
    }

    #[test]
    fn stored_outcomes_are_loaded_by_the_same_key_alone() {
        let words = |word: &str| [word.to_owned(), std::process::id().to_string()];
        let (key, other) = (Key::new(&[], &words("a")), Key::new(&[], &words("b")));
        store(&key, &[&outcome("one"), &outcome("two")]);
        let loaded = load(&key).expect("outcomes were stored");
        let texts: Vec<&str> = loaded.iter().map(|end| end.stdout.as_str()).collect();
        assert_eq!(texts, ["one", "two"]);
        assert_eq!(loaded[0].status.and_then(|status| status.code()), Some(3));
        assert!(load(&other).is_none());
        std::fs::remove_file(key.file()).expect("the stored file can be removed");
    }

    #[test]
    fn key_depends_on_the_contents_of_the_programs() {
        let folder = crate::TempDir::new();
        let program = folder.path().join("program");
        std::fs::write(&program, "1").expect("a file");
        let before = Key::new(std::slice::from_ref(&program), &[]);
        std::fs::write(&program, "2").expect("a file");
        assert_ne!(before.0, Key::new(&[program], &[]).0);
    }
}
