//! Connections that fall back to TCP, or to a relay, while other threads are in calls on them.

use sovia_tests::scenarios;

scenarios!("taken_back":
    under_a_thread_that_receives,
    under_a_thread_that_polls,
    under_a_thread_that_waits_by_epoll,
    under_a_thread_that_sends,
    under_threads_that_do_both,
    at_both_ends_at_once,
    by_children,
    by_children_that_are_killed,
    by_children_of_both_ends,
    by_children_of_both_ends_that_are_killed,
    by_threads_that_are_cancelled,
    by_threads_of_both_ends_that_are_cancelled,
    left_by_jumps_out_of_a_handler,
    left_by_jumps_at_both_ends,
    by_children_under_edges,
    by_children_of_both_ends_under_edges,
    by_children_that_are_killed_under_edges,
    by_a_child_that_is_older_than_an_entry,
    by_a_child_with_an_older_copy_of_an_entry,
    by_a_child_before_its_parent_leaves_everything,
    by_a_filter_where_the_peer_has_ended,
    by_a_peer_of_one_that_only_counts,
    passed_to_a_child_that_has_it_already,
);
