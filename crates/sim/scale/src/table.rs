//! Outcomes as lines of text.

use crate::{Outcome, Scenario, ViOutcome};
use core::fmt::Write;

/// Name and width of each column, except the first one.
const COLUMNS: &[(&str, usize)] = &[
    ("goodput", 8),
    ("bulk", 6),
    ("fair", 6),
    ("p50", 10),
    ("p99", 10),
    ("p99.9", 10),
    ("longest", 11),
    ("frames", 10),
    ("again", 9),
    ("mistaken", 9),
    ("overflow", 9),
    ("marked", 9),
    ("cut", 6),
    ("timeouts", 9),
    ("queued", 8),
    ("arrived", 8),
    ("of", 7),
    ("given-up", 9),
    ("stuck", 6),
    ("end", 7),
    ("node", 8),
    ("idle", 8),
];

/// Width of the first column.
const NAME: usize = 34;

/// Like [`COLUMNS`], for scenarios over NICs.
const VI_COLUMNS: &[(&str, usize)] = &[
    ("goodput", 8),
    ("p50", 10),
    ("p99", 10),
    ("p99.9", 10),
    ("longest", 12),
    ("frames", 10),
    ("overflow", 9),
    ("cut", 7),
    ("arrived", 8),
    ("of", 7),
    ("flows-done", 11),
    ("peer-died", 10),
    ("otherwise", 10),
    ("VIs", 6),
    ("NICs", 5),
];

fn row<'c>(name: &str, cells: impl Iterator<Item = &'c str>, columns: &[(&str, usize)]) -> String {
    let mut text = format!("{name:<NAME$}");
    for (cell, (_, width)) in cells.zip(columns) {
        let _ = write!(text, "{cell:>width$}");
    }
    text
}

fn share(thousandths: u32) -> String {
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}

fn micros(nanos: u64) -> String {
    format!("{}.{}", nanos / 1000, nanos / 100 % 10)
}

/// Returns the header line.
pub fn heading() -> String {
    row("scenario", COLUMNS.iter().map(|(name, _)| *name), COLUMNS)
}

/// Returns the header line for scenarios over NICs.
pub fn vi_heading() -> String {
    row("scenario", VI_COLUMNS.iter().map(|(name, _)| *name), VI_COLUMNS)
}

/// Returns the line of a scenario's outcome.
pub fn line(scenario: &Scenario, outcome: &Outcome) -> String {
    let Outcome { latency, frames, state, .. } = outcome;
    let cells = [
        share(outcome.goodput),
        share(outcome.bulk),
        share(outcome.fairness),
        micros(latency.p50),
        micros(latency.p99),
        micros(latency.p999),
        micros(latency.longest),
        frames.sent.to_string(),
        frames.again.to_string(),
        frames.mistaken.to_string(),
        frames.overflowed.to_string(),
        frames.marked.to_string(),
        frames.cut.to_string(),
        frames.timeouts.to_string(),
        frames.queued.to_string(),
        outcome.arrived.to_string(),
        outcome.messages.to_string(),
        outcome.given_up.to_string(),
        outcome.stuck.to_string(),
        state.end.to_string(),
        state.node.to_string(),
        state.idle_node.to_string(),
    ];
    row(&scenario.name, cells.iter().map(String::as_str), COLUMNS)
}

/// Returns the line of a scenario's outcome over NICs.
pub fn vi_line(scenario: &Scenario, outcome: &ViOutcome) -> String {
    let latency = outcome.latency;
    let cells = [
        share(outcome.goodput),
        micros(latency.p50),
        micros(latency.p99),
        micros(latency.p999),
        micros(latency.longest),
        outcome.frames.to_string(),
        outcome.overflowed.to_string(),
        outcome.cut.to_string(),
        outcome.arrived.to_string(),
        outcome.messages.to_string(),
        outcome.done.to_string(),
        outcome.peer_died.to_string(),
        outcome.broken_otherwise.to_string(),
        outcome.vis.to_string(),
        outcome.nics.to_string(),
    ];
    row(&scenario.name, cells.iter().map(String::as_str), VI_COLUMNS)
}
