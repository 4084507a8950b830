//! A port that programs share: what becomes of them when one of them, or the agent, is killed; and what one of them can do to others.
//!
//! Agents and programs that are to be killed are processes, which run this program again: `faults` and `last_words` have the tests with these,
//! `strangers` those of programs that do not keep to what is agreed on.

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod last_words;
mod process;
mod strangers;

use via_conformance::run::{Trial, conclude};

fn main() {
    if process::is_one() {
        return process::play();
    }
    let trial = |(name, test): (&'static str, fn())| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    conclude(
        faults::TESTS
            .iter()
            .chain(strangers::TESTS)
            .chain(last_words::TESTS)
            .copied()
            .map(trial)
            .collect(),
    );
}
