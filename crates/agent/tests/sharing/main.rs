//! Tests of a port that programs share: a killed program, a killed agent, and programs that try to harm others.
//!
//! Agents and programs that the tests kill are processes, which run this program again. `faults` and `last_words`
//! contain the tests with these processes. `strangers` contains the tests of programs that break the protocol.

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
