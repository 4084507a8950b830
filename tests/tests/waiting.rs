//! Non-blocking streams, poll, select and epoll, signals and threads that wait.

use sovia_tests::{Scenario, scenarios};

scenarios!("nonblocking":
    nothing_to_read_is_eagain,
    pieces_of_64_fill_no_earlier_than_tcp,
    pieces_of_4096_fill_no_earlier_than_tcp,
    pieces_of_65536_fill_no_earlier_than_tcp,
    the_server_fills_too,
    both_directions_fill_at_once,
    a_blocked_writer_goes_on_with_the_reader,
    a_large_nonblocking_write_is_taken_in_part,
    a_polled_writer_is_far_ahead,
);

/// Four million system calls over the kernel take time on a busy machine.
#[test]
fn single_bytes_fill_no_earlier_than_tcp() {
    Scenario::c("nonblocking", "single_bytes_fill_no_earlier_than_tcp").watchdog(240).run();
}

scenarios!("poll_select":
    poll_shows_each_state,
    poll_shows_a_reset,
    poll_shows_ones_own_shutdown,
    poll_waits_as_long_as_asked,
    poll_checks_its_arguments,
    select_shows_each_state,
    ppoll_lets_signals_in_while_waiting,
    poll_mixes_kinds_of_descriptors,
    poll_over_thirty_streams,
    poll_tells_of_all_while_one_goes_back,
    poll_reports_what_was_ready_before,
    select_reports_what_was_ready_before,
);

/// Calls that do not spin sleep in the kernel each time.
#[test]
fn a_call_that_sleeps_reports_what_was_ready_before() {
    for case in ["poll_reports_what_was_ready_before", "select_reports_what_was_ready_before"] {
        Scenario::c("poll_select", case).env("SOVIA_SPIN", 0).run_accelerated();
    }
}

scenarios!("poll_edges":
    select_waits_for_what_its_sets_show,
    poll_takes_as_many_as_there_may_be,
    poll_of_what_another_thread_closes,
    select_of_what_another_thread_closes,
    a_masked_storm_interrupts_no_wait,
);

scenarios!("epoll_modes":
    level_triggered_room_to_write,
    edge_triggered_once_for_each_arrival,
    edge_triggered_once_for_an_end,
    edge_triggered_once_for_an_end_behind_bytes,
    edge_triggered_both_ways,
    edge_triggered_when_room_comes_back,
    level_triggered_when_room_comes_back,
    one_shot_until_armed_again,
    one_shot_stays_silent_back_on_tcp,
    leaving_and_coming_back,
    epoll_shows_half_close_and_hang_up,
    epoll_shows_a_reset,
    epoll_shows_a_reset_as_an_edge,
    epoll_checks_its_arguments,
    epoll_waits_as_long_as_asked,
);

scenarios!("epoll_sets":
    epoll_mixes_kinds_of_descriptors,
    neither_kind_starves_the_other,
    sets_within_sets_and_under_poll,
    a_stream_in_several_sets,
    a_stream_under_two_numbers,
    an_entry_outlives_its_number,
    an_entry_outlives_its_number_by_a_child,
    an_entry_outlives_its_number_by_a_childs_program,
    a_number_that_is_used_again,
    a_set_under_another_number,
    a_descriptor_is_told_of_once,
    a_set_inherited_by_a_child,
    a_childs_own_set,
    joining_before_connecting,
    fifty_streams_in_a_set,
);

scenarios!("epoll_threads":
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

scenarios!("signals":
    a_signal_interrupts,
    a_signal_that_restarts,
    a_part_is_kept_when_interrupted,
    a_part_is_kept_when_a_handler_restarts,
    a_restarting_handler_during_a_blocked_write,
    a_handler_closes_what_is_waited_for,
    a_timeout_does_not_restart,
    a_signal_during_a_blocked_write,
    a_signal_while_a_write_copies,
    ctrl_c_kills_whoever_waits,
    stopping_and_continuing,
    jumping_out_of_a_wait,
    a_storm_of_signals,
    writing_in_a_handler,
    cancelling_a_waiting_thread,
    a_write_is_where_a_thread_is_cancelled,
);

scenarios!("unwinding":
    threads_end_in_their_handlers,
);

scenarios!("sleepers":
    waits_for_several_are_cancelled,
    a_limited_wait_beside_many,
    waits_for_several_are_left_by_jumps,
    a_signal_that_only_a_mask_lets_in,
);
