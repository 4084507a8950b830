//! What backpressure takes goes back when it is over, and is bounded.

use sovia_tests::Scenario;

/// 300 slow readers, drained and closed.
#[test]
fn memory_goes_back_when_connections_end() {
    Scenario::c("memory", "connections_that_end").run_accelerated();
}

/// The same, and the connections stay and are used again.
#[test]
fn memory_goes_back_when_backpressure_is_over() {
    Scenario::c("memory", "connections_that_stay").run_accelerated();
}

/// 8 MiB for all connections together, and what each has for nothing.
#[test]
fn memory_is_bounded() {
    let case = Scenario::c("memory", "a_limit").env("SOVIA_MEMORY", 8);
    case.env("SOVIA_TESTS_MOST", 48 << 10).run_accelerated();
}

/// 1 MiB for a process and its children, of which forty have ended with unread bytes.
#[test]
fn the_dead_use_no_memory() {
    let case = Scenario::c("memory", "children_that_end").may_stay_on_tcp();
    case.env("SOVIA_MEMORY", 1).run_accelerated();
}
