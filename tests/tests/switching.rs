//! Scenarios that begin before, at and after the switch to shared memory: no byte,
//! event or end may be lost wherever it falls.

use sovia_tests::Scenario;

fn across(program: &'static str, cases: &[&str]) {
    for case in cases {
        Scenario::c(program, case).run_across_the_switch();
    }
}

#[test]
fn calls_across_the_switch() {
    across(
        "stream_calls",
        &[
            "partial_reads_leave_the_rest",
            "writev_and_sendmsg_gather",
            "recvmmsg_takes_several",
            "peek_leaves_the_bytes",
            "waitall_waits_for_all",
        ],
    );
}

#[test]
fn closing_across_the_switch() {
    across(
        "shutdown",
        &[
            "the_client_closes_half",
            "writing_after_the_peer_closed",
            "closing_with_unread_bytes_resets",
            "what_was_sent_before_exit_arrives",
        ],
    );
}

#[test]
fn filling_across_the_switch() {
    across(
        "nonblocking",
        &[
            "single_bytes_fill_no_earlier_than_tcp",
            "pieces_of_4096_fill_no_earlier_than_tcp",
            "both_directions_fill_at_once",
        ],
    );
}

#[test]
fn events_across_the_switch() {
    across("poll_select", &["poll_shows_each_state", "poll_over_thirty_streams"]);
    across(
        "epoll_modes",
        &[
            "level_triggered_while_there_is_something",
            "edge_triggered_once_for_each_arrival",
            "edge_triggered_both_ways",
            "one_shot_until_armed_again",
        ],
    );
    across("epoll_sets", &["fifty_streams_in_a_set", "a_stream_in_several_sets"]);
}

#[test]
fn processes_across_the_switch() {
    across(
        "fork",
        &[
            "a_child_for_each_connection",
            "parent_and_child_take_turns",
            "a_child_writes_and_its_parent_reads",
            "unread_bytes_are_there_for_either",
        ],
    );
    across("exec", &["a_client_becomes_itself", "unread_bytes_cross_an_exec"]);
    across("passing", &["a_stream_is_given_away_with_unread_bytes"]);
}

#[test]
fn traffic_across_the_switch() {
    across("bulk", &["sizes_around_every_border", "sixty_four_megabytes_each_way_by_edges"]);
    across("threads", &["two_writers_and_two_readers", "small_messages_both_ways"]);
}

#[test]
fn death_across_the_switch() {
    across("death", &["little_is_sent_before_death", "much_is_sent_before_death"]);
}
