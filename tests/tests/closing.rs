//! Half close, full close, reset and death: the effects at the other end.

use sovia_tests::{Scenario, scenarios};

scenarios!("shutdown":
    the_client_closes_half,
    the_server_closes_half,
    half_close_over_ipv6,
    shutting_the_reading_half,
    shutting_both_halves,
    bytes_where_both_halves_are_shut,
    many_bytes_where_both_halves_are_shut,
    closing_with_unread_bytes_and_the_reading_half_shut,
    writing_after_ones_own_shutdown,
    writing_after_the_peer_closed,
    closing_with_unread_bytes_resets,
    a_reset_is_told_once_by_so_error,
    a_reset_connection_cannot_be_shut,
    a_reset_is_told_after_shutting_the_reading_half,
    unread_bytes_where_both_have_ended,
    a_write_of_nothing_leaves_the_reset,
    a_reset_is_told_once_by_send,
    lingering_waits_no_longer_than_needed,
    what_was_sent_before_exit_arrives,
    last_words_are_seen_before_the_end,
    a_wrong_half_is_refused,
);

scenarios!("shutdown", Scenario::may_stay_on_tcp: half_close_of_a_fresh_connection, shut_before_the_ends_meet);

scenarios!("death":
    little_is_sent_before_death,
    little_is_sent_and_read_after_death,
    small_pieces_before_death,
    much_is_sent_before_death,
    the_server_sends_and_dies,
    gathered_bytes_before_death,
    a_death_ends_a_blocked_read,
    a_death_in_recv,
    a_death_shows_in_epoll,
    a_death_shows_in_poll,
    an_abort_after_sending,
    an_exit_after_sending,
    a_reader_dies_in_full_swing,
    a_reader_dies_without_reading,
    killed_at_any_moment,
    one_of_two_dies_idle,
    one_of_two_dies_waiting,
    one_of_two_dies_sending,
    the_parent_of_two_dies,
    going_back_after_a_reset,
    a_child_that_only_looks_sees_the_end,
);
