//! kill -9 during transfers: no sent byte is lost, no process waits for a dead one, and nothing of the
//! dead process remains.

use sovia_tests::{Leftovers, Pairing, Scenario, scenarios};

scenarios!("kills":
    a_connector_is_killed,
    an_acceptor_is_killed,
    a_relative_is_killed_sending,
    a_relative_is_killed_receiving,
    a_relative_is_killed_copying,
);

#[test]
fn nothing_of_the_dead_is_left() {
    let before = Leftovers::before();
    for case in ["a_connector_is_killed", "an_acceptor_is_killed", "a_relative_is_killed_sending"] {
        Scenario::c("kills", case).observe(Pairing::SOVIA);
    }
    let left = before.after();
    assert!(left.is_empty(), "left behind: {left:?}");
}
