//! Counters for Prometheus: a file that is written again and again, for the textfile collector of its node exporter.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context;
use sovia_board::{Metrics, scan, shown};

use crate::databases;

/// Writes the counters of all programs under Sovia to `path`, a first time before this returns `ready`, and then every
/// `interval`. A reader finds all of the file or all of the one before.
///
/// # Errors
/// Once the file cannot be written, or /proc not be read.
pub fn serve(path: &Path, interval: Duration, ready: impl FnOnce()) -> anyhow::Result<()> {
    // Beside it, and with a name that the collector passes over: it takes what ends with `.prom`.
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
