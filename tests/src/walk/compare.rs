//! Compares a walk over the kernel with the same over Sovia, and shortens one in which they differ.

use super::known;
use super::run::{Pace, walk};
use super::script::Script;
use crate::pairing::Stack;
use crate::transcript::difference;
use std::path::Path;
use std::time::Duration;

/// Rest times between steps. Events between processes take unlimited time, so a difference counts only if it
/// stays with each of these.
const RESTS: [Duration; 3] =
    [Duration::from_millis(2), Duration::from_millis(20), Duration::from_millis(200)];

/// Result of a comparison.
#[derive(Debug)]
pub enum Verdict {
    /// Both stacks show the same.
    Same,
    /// The kernel does not show the same twice.
    Undecided,
    /// They differ only as docs/reference/functions.md allows. An end or a reset may show differently once the connection has gone back
    /// to TCP, or is behind a relay. The bytes are the same.
    Known(String),
    /// The stacks differ, with the difference.
    Differ(String),
}

/// Compares the two stacks on a walk.
pub fn compare(program: &Path, script: &Script) -> Verdict {
    let mut verdict = Verdict::Same;
    for rest in RESTS {
        verdict = compare_at(program, script, rest);
        if matches!(verdict, Verdict::Same) {
            break;
        }
    }
    verdict
}

/// Compares the two stacks with one rest.
pub fn compare_at(program: &Path, script: &Script, rest: Duration) -> Verdict {
    if !script.is_fair() {
        return Verdict::Undecided;
    }
    let on = |stack| walk(program, script, Pace { stack, rest });
    let (kernel, sovia) = (on(Stack::Kernel), on(Stack::Sovia));
    let Some(text) = difference(&kernel.text, &sovia.text) else { return Verdict::Same };
    if kernel.text != on(Stack::Kernel).text {
        Verdict::Undecided
    } else if sovia.relayed || known::is_known(script, &kernel.text, &sovia.text) {
        Verdict::Known(text)
    } else {
        Verdict::Differ(text)
    }
}

/// Returns a shorter walk in which the two stacks still differ. No single step can be left out of
/// it.
pub fn shorten(program: &Path, script: &Script) -> Script {
    // A short rest, because some hundred walks run.
    let differs =
        |script: &Script| matches!(compare_at(program, script, RESTS[1]), Verdict::Differ(_));
    let mut shortest = script.clone();
    let mut part = shortest.steps.len().div_ceil(2);
    while part > 0 {
        let mut from = 0;
        while from < shortest.steps.len() {
            let mut shorter = shortest.clone();
            shorter.steps.drain(from..(from + part).min(shorter.steps.len()));
            if differs(&shorter) {
                shortest = shorter;
            } else {
                from += part;
            }
        }
        part /= 2;
    }
    shortest
}
