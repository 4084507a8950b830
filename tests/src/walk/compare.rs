//! Compares a walk over the kernel with the same over Sovia, and shortens one in which they differ.

use super::run::{Pace, walk};
use super::script::Script;
use super::seeds::MOVED;
use crate::pairing::Stack;
use crate::transcript::difference;
use std::path::Path;
use std::time::Duration;

/// What goes on between processes has no bound. A difference counts when it stays however long the walkers rest.
const RESTS: [Duration; 3] =
    [Duration::from_millis(2), Duration::from_millis(20), Duration::from_millis(200)];

/// What came of a comparison.
#[derive(Debug)]
pub enum Verdict {
    /// Both see the same.
    Same,
    /// The kernel does not see the same twice.
    Undecided,
    /// They differ in what docs/surface.md says that may: how an end or a reset shows once the connection has gone back to
    /// TCP, or is behind a relay. The bytes are the same.
    Known(String),
    /// They differ: how.
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

/// Compares the two stacks at one rest.
pub fn compare_at(program: &Path, script: &Script, rest: Duration) -> Verdict {
    if !script.is_fair() {
        return Verdict::Undecided;
    }
    let on = |stack| walk(program, script, Pace { stack, rest });
    let (kernel, sovia) = (on(Stack::Kernel), on(Stack::Sovia));
    let Some(text) = difference(&kernel.text, &sovia.text) else { return Verdict::Same };
    if kernel.text != on(Stack::Kernel).text {
        Verdict::Undecided
    } else if sovia.relayed
        || is_edge_of_a_move(script, &kernel.text, &sovia.text)
        || goes_back(script, &kernel.text, &sovia.text) && bytes(&kernel.text) == bytes(&sovia.text)
    {
        Verdict::Known(text)
    } else {
        Verdict::Differ(text)
    }
}

/// Whether a connection may have gone back to TCP by the first step that is seen differently.
fn goes_back(script: &Script, kernel: &str, sovia: &str) -> bool {
    let same = kernel.lines().zip(sovia.lines()).take_while(|(one, other)| one == other).count();
    let taken = &script.steps[..script.steps.len().min(same + 1)];
    let has = |action: &str| taken.iter().any(|step| step.action.starts_with(action));
    has("child") || has("give") || has("splice") || has("add") && has("fork")
}

/// Returns true if the first difference is an edge that Sovia reports once more. It may, while the connection moves to its VI.
fn is_edge_of_a_move(script: &Script, kernel: &str, sovia: &str) -> bool {
    let has_edges = script.steps.iter().any(|step| step.action.contains("edge"));
    let mut lines = kernel.lines().zip(sovia.lines());
    let Some((of_kernel, of_sovia)) = lines.find(|(one, other)| one != other) else { return false };
    let all_told = |line: &str| line.split(", ").all(|told| of_sovia.contains(told));
    let is_more = of_kernel.contains(" events ")
        && (of_kernel.ends_with(": none")
            || all_told(of_kernel.split_once(": ").map_or("", |(_, told)| told)));
    let moves =
        script.warmup < MOVED || script.steps.iter().any(|step| step.action.starts_with("open"));
    moves && has_edges && is_more
}

/// The bytes that the walkers have received, in order; and what must not be.
fn bytes(text: &str) -> Vec<&str> {
    let tells =
        |line: &&str| line.contains(" bytes ") || line.contains("HANGS") || line.contains("DIED");
    text.lines().filter(tells).map(|line| line.rsplit(": ").next().unwrap_or(line)).collect()
}

/// A shorter walk in which the two stacks still differ: no single step of it can be left out.
pub fn shorten(program: &Path, script: &Script) -> Script {
    // A short rest, for some hundred walks are taken.
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
