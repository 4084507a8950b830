//! Counters for Prometheus: a file that is rewritten periodically, for the textfile collector of the node exporter.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context;
use sovia_stats_page::{Metrics, scan, shown};

use crate::databases;

/// Writes the counters of all programs under Sovia to `path`, and then again every `interval`. Calls `ready` after the
/// first write. A reader always finds a whole file, the new one or the old one.
///
/// # Errors
/// An error when the file cannot be written or /proc cannot be read.
pub fn serve(path: &Path, interval: Duration, ready: impl FnOnce()) -> anyhow::Result<()> {
    // The new file is in the same folder. The collector ignores its name, because it does not end with `.prom`.
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut metrics = Metrics::default();
    let mut names: HashMap<u32, String> = HashMap::new();
    let mut ready = Some(ready);
    loop {
        let found = scan().context("cannot read /proc")?;
        for process in &found.processes {
            names.entry(process.uid).or_insert_with(|| name_of(process.uid));
        }
        let text = metrics.next(&found, |uid| names.get(&uid).cloned().unwrap_or(uid.to_string()));
        fs::write(&beside, text)
            .and_then(|()| fs::rename(&beside, path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        if let Some(ready) = ready.take() {
            ready();
        }
        sleep(interval);
    }
}

fn name_of(uid: u32) -> String {
    match databases::name_of_user(uid) {
        Ok(Some(name)) => shown(name.as_bytes()),
        _ => uid.to_string(),
    }
}
