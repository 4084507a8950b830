//! Stack space that the library needs of a program; threads and signal handlers may have little.

use sovia_tests::Scenario;

#[test]
fn calls_on_a_connection() {
    Scenario::c("stacks", "calls_on_a_connection").run_accelerated();
}

#[test]
fn calls_in_which_the_ends_meet() {
    Scenario::c("stacks", "calls_in_which_the_ends_meet").run_accelerated();
}
