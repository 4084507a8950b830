//! Programs built against libsovia, with each other, with preloaded programs, and with programs on
//! the kernel. Their transcripts must equal those over the kernel alone.

use sovia_tests::{Scenario, scenarios};

scenarios!("stream_calls", Scenario::native:
    partial_reads_leave_the_rest,
    partial_reads_over_ipv6,
    zero_length_calls,
    readv_scatters,
    writev_and_sendmsg_gather,
    addresses_of_a_connected_stream,
    recvmmsg_takes_several,
    sendmmsg_sends_several,
    peek_leaves_the_bytes,
    waitall_waits_for_all,
    dontwait_does_not_wait,
    trunc_discards,
);

scenarios!("bad_arguments", Scenario::native:
    reading_into_a_bad_pointer,
    scattering_into_bad_pointers,
    writing_from_a_bad_pointer,
    descriptors_that_are_closed_or_no_stream,
    calls_that_are_not_for_sockets,
    flags_of_every_kind,
);

scenarios!("bad_arguments", may_stay: a_socket_that_is_not_connected);

scenarios!("files", Scenario::native:
    sendfile_sends_what_it_says,
    sendfile_of_more_than_there_is_room_for,
    sendfile_after_shutdown,
    sendfile_between_writes,
    splice_from_a_pipe,
    splice_to_a_pipe,
    a_relay_of_splices,
);

scenarios!("urgent", Scenario::native:
    the_urgent_byte_beside_the_stream,
    the_urgent_byte_in_line,
    the_urgent_byte_from_the_client,
);

scenarios!("nonblocking", Scenario::native:
    nothing_to_read_is_eagain,
    pieces_of_64_fill_no_earlier_than_tcp,
    pieces_of_65536_fill_no_earlier_than_tcp,
    the_server_fills_too,
    both_directions_fill_at_once,
    a_blocked_writer_goes_on_with_the_reader,
    a_large_nonblocking_write_is_taken_in_part,
);

scenarios!("poll_select", Scenario::native:
    poll_shows_each_state,
    poll_shows_a_reset,
    poll_shows_ones_own_shutdown,
    poll_waits_as_long_as_asked,
    poll_checks_its_arguments,
    select_shows_each_state,
    ppoll_lets_signals_in_while_waiting,
    poll_mixes_kinds_of_descriptors,
    poll_over_thirty_streams,
);

scenarios!("epoll_modes", Scenario::native:
    level_triggered_while_there_is_something,
    level_triggered_room_to_write,
    edge_triggered_once_for_each_arrival,
    edge_triggered_both_ways,
    edge_triggered_when_room_comes_back,
    level_triggered_when_room_comes_back,
    one_shot_until_armed_again,
    leaving_and_coming_back,
    epoll_shows_half_close_and_hang_up,
    epoll_shows_a_reset,
    epoll_shows_a_reset_as_an_edge,
    epoll_checks_its_arguments,
    epoll_waits_as_long_as_asked,
);

scenarios!("epoll_sets", Scenario::native:
    epoll_mixes_kinds_of_descriptors,
    neither_kind_starves_the_other,
    sets_within_sets_and_under_poll,
    a_stream_in_several_sets,
    a_stream_under_two_numbers,
    an_entry_outlives_its_number,
    a_number_that_is_used_again,
    a_set_inherited_by_a_child,
    a_childs_own_set,
    joining_before_connecting,
    fifty_streams_in_a_set,
);

scenarios!("epoll_threads", Scenario::native:
    joining_a_set_that_is_waited_for,
    leaving_a_set_that_is_waited_for,
    closing_what_is_polled,
    shutting_what_is_read,
    closing_what_is_read,
    closing_what_is_read_by_several,
    closing_under_a_blocked_write,
    closing_one_of_two_numbers,
    closing_under_a_cancelled_read,
    two_threads_wait_for_one_set,
    exclusive_entries_of_two_sets,
    a_pool_of_threads_with_one_shots,
);

scenarios!("signals", Scenario::native:
    a_signal_interrupts,
    a_signal_that_restarts,
    a_part_is_kept_when_interrupted,
    a_part_is_kept_when_a_handler_restarts,
    a_restarting_handler_during_a_blocked_write,
    a_handler_closes_what_is_waited_for,
    a_timeout_does_not_restart,
    a_signal_during_a_blocked_write,
    ctrl_c_kills_whoever_waits,
    stopping_and_continuing,
    jumping_out_of_a_wait,
    a_storm_of_signals,
    writing_in_a_handler,
    cancelling_a_waiting_thread,
);

scenarios!("dup", Scenario::native:
    every_kind_of_duplicate_works,
    the_last_number_ends_the_stream,
    duplicates_share_their_flags,
    wrong_numbers_are_refused,
    a_file_takes_a_streams_number,
    a_stream_takes_anothers_number,
    a_closed_number_is_used_again,
    closing_everything_in_a_loop,
);

scenarios!("stdio", Scenario::native:
    fdopen_reads_and_writes,
    exit_flushes_a_file,
    much_through_fwrite_and_fread,
    reads_and_writes_in_turn,
    a_file_in_a_child,
    a_file_that_must_wait,
    a_file_before_the_connection,
);

scenarios!("options", Scenario::native:
    options_are_kept,
    options_with_structures,
    receive_timeouts,
    send_timeouts,
    bytes_are_counted,
    modes_and_flags,
    sigio_when_bytes_come,
    a_low_water_mark,
    the_cork,
);

scenarios!("connect", Scenario::native:
    addresses_are_the_kernels,
    addresses_over_ipv6,
    one_listener_for_both_families,
    accept_with_flags,
    connecting_without_blocking,
    connections_are_refused,
    many_connections_of_one_pair,
    descriptors_run_out,
    other_sockets_are_left_alone,
);

scenarios!("connect", may_stay:
    bytes_before_the_accept,
    one_way_from_the_start,
    short_connections,
);

scenarios!("shutdown", Scenario::native:
    the_client_closes_half,
    the_server_closes_half,
    half_close_over_ipv6,
    shutting_the_reading_half,
    shutting_both_halves,
    writing_after_ones_own_shutdown,
    writing_after_the_peer_closed,
    closing_with_unread_bytes_resets,
    a_reset_is_told_once_by_so_error,
    a_reset_is_told_once_by_send,
    lingering_zero_resets,
    lingering_waits_no_longer_than_needed,
    a_close_ends_a_blocked_read,
    a_reset_ends_a_blocked_read,
    what_was_sent_before_exit_arrives,
    both_close_half_at_once,
    a_wrong_half_is_refused,
);

scenarios!("death", Scenario::native:
    little_is_sent_before_death,
    much_is_sent_before_death,
    gathered_bytes_before_death,
    a_death_ends_a_blocked_read,
    a_death_shows_in_epoll,
    an_exit_after_sending,
    a_reader_dies_in_full_swing,
    killed_at_any_moment,
    one_of_two_dies_sending,
    the_parent_of_two_dies,
);

scenarios!("fork", Scenario::native:
    workers_share_a_listener,
    a_child_for_each_connection,
    a_child_takes_a_connection_over,
    parent_and_child_take_turns,
    a_child_goes_on_without_its_parent,
    three_generations,
    children_write_whole_records,
    both_ends_fork,
    parent_and_child_both_read,
    a_childs_shutdown_is_its_parents,
    unread_bytes_are_there_for_either,
);

scenarios!("passing", Scenario::native:
    a_stream_is_given_away,
    a_stream_is_lent,
    a_stream_is_given_away_with_unread_bytes,
    a_stream_goes_there_and_back,
    a_stream_is_handed_to_oneself,
);

scenarios!("bulk", Scenario::native:
    ping_pong_of_random_sizes,
    sizes_around_every_border,
    sixty_four_megabytes_each_way_at_once,
    sixty_four_megabytes_each_way_by_edges,
    a_stream_of_pieces_of_every_size,
);

scenarios!("bulk", single:
    a_megabyte_of_single_bytes_before_the_first_read,
    both_directions_before_the_first_read,
    ping_pong_with_oneself,
    polling_both_ends,
);

scenarios!("threads", Scenario::native:
    two_writers_and_two_readers,
    readers_without_a_lock,
    small_messages_both_ways,
    streams_that_come_and_go_in_threads,
    shutting_what_others_write_to,
);

scenarios!("stalled", Scenario::native: a_stalled_stream_beside_busy_ones);

fn may_stay(scenario: Scenario) -> Scenario {
    scenario.native().may_stay_on_tcp()
}

fn single(scenario: Scenario) -> Scenario {
    scenario.native().single()
}
