//! A short `sovia bench latency`: two processes communicate over TCP, and then over Sovia.

use std::process::Command;

use anyhow::{Context, bail};
use serde::Deserialize;

use super::Finding;

/// A line of the measurement's output.
#[derive(Deserialize)]
struct Line {
    layer: String,
    median: f64,
    unit: String,
    accelerated_runs: Option<u32>,
}

/// Checks whether two programs of this user leave TCP, and reports the gain.
pub(super) fn look() -> Finding {
    if !super::host::has_loopback() {
        return Finding::bad(
            "trial",
            "did not run: 127.0.0.1 is not reachable",
            "see the line `loopback`",
        );
    }
    match talk() {
        Ok((tcp, sovia)) if sovia.accelerated_runs.is_some_and(|runs| runs > 0) => Finding::good(
            "trial",
            format!(
                "4 bytes one way, blocking: {:.2} {} over Sovia, {:.2} {} over TCP",
                sovia.median, sovia.unit, tcp.median, tcp.unit
            ),
        ),
        Ok(_) => Finding::bad(
            "trial",
            "two processes of this user stayed on TCP",
            "`sovia run -v -- PROGRAM` reports why",
        ),
        Err(error) => Finding::bad("trial", format!("{error:#}"), "the trial did not run"),
    }
}

fn talk() -> anyhow::Result<(Line, Line)> {
    let words =
        "bench latency --layers tcp,sovia --size 4 --wait block --runs 1 --seconds 0.2 --json";
    let output = Command::new("/proc/self/exe")
        .args(words.split(' '))
        .output()
        .context("cannot start sovia bench")?;
    if !output.status.success() {
        bail!("sovia bench: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Line>, _>>()?;
    let mut tcp = None;
    let mut sovia = None;
    for line in lines {
        match line.layer.as_str() {
            "tcp" => tcp = Some(line),
            "sovia" => sovia = Some(line),
            _ => {}
        }
    }
    tcp.zip(sovia).context("sovia bench measured nothing")
}
