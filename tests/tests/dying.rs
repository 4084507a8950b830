//! Peers that die without closing: the error that the survivor gets, when, and from which call
//! first.

use sovia_tests::scenarios;

scenarios!("dying":
    unread_bytes_are_told_by_recv,
    unread_bytes_that_nothing_looked_at,
    bytes_read_in_part,
    unread_bytes_are_told_by_peek,
    unread_bytes_are_told_by_send,
    unread_bytes_are_told_by_so_error,
    unread_bytes_are_told_by_writev,
    unread_bytes_end_a_blocked_recv,
    unread_bytes_are_told_by_the_first_send,
    unread_bytes_at_exit,
    unread_bytes_at_exec,
    last_bytes_come_before_the_reset,
    a_level_is_told_of_a_reset,
    an_edge_is_told_of_a_reset,
    a_death_with_all_read_is_a_quiet_end,
    a_death_ends_a_blocked_write,
    a_death_ends_a_long_write,
    a_death_shows_in_poll_for_room,
    a_death_shows_in_select_for_room,
    a_death_shows_in_epoll_for_room,
    a_death_shows_as_an_edge_for_room,
    a_death_shows_in_a_oneshot_for_room,
    an_exit_shows_in_poll_for_room,
    an_exec_shows_in_poll_for_room,
    an_exit_shows_in_epoll_for_room,
    an_exec_shows_in_epoll_for_room,
    a_death_behind_full_tcp,
    a_death_of_the_half_closed,
    a_child_of_the_half_closed_dies,
    both_of_two_die,
    a_child_dies_and_then_its_parent,
    both_of_two_die_with_a_writer_waiting,
);
