//! Outcomes as lines of text.

use crate::{Outcome, Scenario};
use core::fmt::Write;

/// Name and width of each column, the first one's aside.
const COLUMNS: &[(&str, usize)] = &[
    ("goodput", 8),
    ("bulk", 6),
    ("fair", 6),
    ("p50", 10),
    ("p99", 10),
    ("p99.9", 10),
    ("longest", 10),
    ("frames", 10),
    ("again", 9),
    ("mistaken", 9),
    ("overflow", 9),
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

/// The names of the columns.
pub fn heading() -> String {
    let mut text = format!("{:<NAME$}", "scenario");
    for &(name, width) in COLUMNS {
        let _ = write!(text, "{name:>width$}");
    }
    text
}

/// What came of a scenario.
pub fn line(scenario: &Scenario, outcome: &Outcome) -> String {
    let Outcome { latency, frames, state, .. } = outcome;
    let share = |thousandths: u32| format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    let micros = |nanos: u64| format!("{}.{}", nanos / 1000, nanos / 100 % 10);
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
    let mut text = format!("{:<NAME$}", scenario.name);
    for (cell, (_, width)) in cells.iter().zip(COLUMNS) {
        let _ = write!(text, "{cell:>width$}");
    }
    text
}
