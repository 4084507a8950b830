//! Tables stored beside the tests.

use std::fs;
use std::path::PathBuf;

/// Compares a table with the stored table `name`. With the variable `ACCEPT`, stores the table instead.
///
/// # Panics
/// Panics with each line that differs.
#[track_caller]
pub(crate) fn compare(name: &str, table: &str) {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tables", name].iter().collect();
    if std::env::var_os("ACCEPT").is_some() {
        return fs::write(&path, table).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let (was, is): (Vec<_>, Vec<_>) = (kept.lines().collect(), table.lines().collect());
    let lines = (0..was.len().max(is.len())).map(|line| (was.get(line), is.get(line)));
    let differs = |(was, is): (Option<&&str>, Option<&&str>)| {
        let line = |line: Option<&&str>| line.map_or(String::new(), |line| (*line).to_owned());
        (was != is).then(|| format!("  was {}\n  is  {}", line(was), line(is)))
    };
    let changed: Vec<_> = lines.filter_map(differs).collect();
    assert!(
        changed.is_empty(),
        "tables/{name} has changed. If that is what you want, run the test again with ACCEPT=1:\n{}\n  \
         of  {}",
        changed.join("\n"),
        is.first().unwrap_or(&"")
    );
}
