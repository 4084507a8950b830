//! Epoll instances that forked processes share.

use sovia_tests::{Pairing, Scenario, scenarios};

scenarios!("epoll_shared":
    a_child_adds_to_a_shared_set,
    a_child_removes_from_a_shared_set,
    a_parent_adds_to_a_shared_set,
    a_parent_adds_to_a_set_that_its_child_has_not_used,
    a_parent_changes_an_entry_before_its_child_waits,
    a_parent_asks_for_less_before_its_child_waits,
    a_parent_removes_an_entry_before_its_child_waits,
    a_parent_changes_an_entry_and_leaves_the_set,
    a_parent_removes_an_entry_and_leaves_the_set,
    a_parent_has_an_event_and_leaves_the_set,
    a_set_is_passed_in_a_message,
    a_parent_takes_a_shot_before_its_child_waits,
    a_child_waits_behind_the_end,
    a_child_adds_behind_the_end,
    a_child_changes_behind_the_end,
    a_child_ignores_a_shared_set,
);

/// Also, the connection stays on its VI.
#[test]
fn children_are_killed_with_sets_of_their_own() {
    let case = Scenario::c("epoll_shared", "children_are_killed_with_sets_of_their_own");
    case.run();
    let seen = case.observe(Pairing::SOVIA);
    for (role, outcome) in &seen.ends {
        assert!(outcome.stderr.contains("stayed on TCP: 0"), "{role}: {outcome:#?}");
    }
}
