//! Scenarios that begin before, at and after the switch to shared memory. The switch may lose no
//! byte, event or end.

use sovia_tests::{known_limits, scenarios_across_the_switch};

scenarios_across_the_switch!("stream_calls":
    partial_reads_leave_the_rest,
    writev_and_sendmsg_gather,
    recvmmsg_takes_several,
    waitall_waits_for_all,
    peek_leaves_the_bytes,
);

scenarios_across_the_switch!("ends":
    a_hangup_alone_is_told_to_another_thread,
);

scenarios_across_the_switch!("handlers":
    jumping_out_of_writes,
    jumping_out_of_reads,
    cancelling_writers,
    cancelling_readers,
);

scenarios_across_the_switch!("kills":
    a_relative_is_killed_sending,
    a_relative_is_killed_receiving,
);

scenarios_across_the_switch!("dying":
    a_death_ends_a_long_write,
    an_edge_is_told_of_a_reset,
    an_exec_shows_in_poll_for_room,
);

scenarios_across_the_switch!("death":
    going_back_after_a_reset,
);

scenarios_across_the_switch!("exec":
    a_child_becomes_another_program,
    a_child_leaves_the_library,
    vfork_and_exec,
);

scenarios_across_the_switch!("shutdown":
    the_client_closes_half,
    writing_after_the_peer_closed,
    closing_with_unread_bytes_resets,
    what_was_sent_before_exit_arrives,
);

scenarios_across_the_switch!("nonblocking":
    pieces_of_64_fill_no_earlier_than_tcp,
    pieces_of_4096_fill_no_earlier_than_tcp,
    both_directions_fill_at_once,
);

scenarios_across_the_switch!("poll_select":
    poll_shows_each_state,
    poll_over_thirty_streams,
);

scenarios_across_the_switch!("epoll_modes":
    one_shot_until_armed_again,
);

known_limits!("epoll_modes", "one more edge than the kernel's at the switch", run_across_the_switch:
    edge_triggered_once_for_each_arrival,
    edge_triggered_both_ways,
);

known_limits!("epoll_sets", "one more edge than the kernel's at the switch", run_across_the_switch:
    a_stream_in_several_sets,
);

scenarios_across_the_switch!("epoll_sets":
    fifty_streams_in_a_set,
    sets_within_sets_and_under_poll,
);

scenarios_across_the_switch!("fork":
    a_child_for_each_connection,
    parent_and_child_take_turns,
    a_child_writes_and_its_parent_reads,
    unread_bytes_are_there_for_either,
);

scenarios_across_the_switch!("exec":
    a_client_becomes_itself,
    unread_bytes_cross_an_exec,
);

scenarios_across_the_switch!("passing":
    a_stream_is_given_away_with_unread_bytes,
);

scenarios_across_the_switch!("bulk":
    sizes_around_every_border,
    sixty_four_megabytes_each_way_by_edges,
);

scenarios_across_the_switch!("threads":
    two_writers_and_two_readers,
    small_messages_both_ways,
);

scenarios_across_the_switch!("death":
    little_is_sent_before_death,
    much_is_sent_before_death,
);
