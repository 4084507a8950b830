//! Streams that several processes share, inherit and hand to each other.

use sovia_tests::{Pairing, Scenario, scenarios};

scenarios!("fork":
    workers_share_a_listener,
    a_child_for_each_connection,
    a_child_takes_a_connection_over,
    parent_and_child_take_turns,
    a_child_writes_and_its_parent_reads,
    children_that_leave_it_alone,
    a_child_goes_on_without_its_parent,
    a_daemon_goes_on_without_its_ancestors,
    three_generations,
    children_write_whole_records,
    both_ends_fork,
    parent_and_child_are_both_woken,
    parent_and_child_both_read,
    a_childs_shutdown_is_its_parents,
    unread_bytes_are_there_for_either,
    a_hundred_children,
);

/// With `SOVIA_MEET=0`, ends often meet peers whose process has just ended.
#[test]
fn children_serve_two_threads_in_a_hurry() {
    let scenario = Scenario::c("fork", "children_serve_two_threads_in_a_hurry");
    scenario.may_stay_on_tcp().env("SOVIA_MEET", "0").run_accelerated();
}

#[test]
fn children_that_change_their_rights_leave_no_record() {
    let scenario = Scenario::c("fork", "children_that_change_their_rights_leave_no_record");
    scenario.may_stay_on_tcp().run_accelerated();
}

/// Python counts threads in the same way, and warns if a process with several threads forks. `single` selects a
/// protocol without a handler thread.
#[test]
fn a_program_of_one_thread_stays_one() {
    let scenario = Scenario::c("fork", "a_program_of_one_thread_stays_one");
    scenario.env("SOVIA_PROTOCOL", "single").run_accelerated();
}

scenarios!("waiting":
    a_program_that_waits_after_a_fork_answers_its_peer,
);

scenarios!("exec":
    a_client_becomes_itself,
    a_server_becomes_itself,
    both_become_themselves,
    unread_bytes_cross_an_exec,
    a_reset_before_an_exec,
    a_reset_before_a_successor_writes,
    a_reset_before_leaving_the_library,
    a_close_with_unread_before_an_exec,
    many_unread_bytes_cross_an_exec,
    a_sender_closes_before_a_successor_reads,
    a_sender_exits_before_a_successor_reads,
    a_sender_execs_before_a_successor_reads,
    a_sender_goes_on_before_a_successor_reads,
    an_exec_while_the_peer_is_stopped,
    an_exec_while_the_peer_computes,
    a_child_becomes_another_program_while_the_peer_is_stopped,
    a_vforked_child_becomes_another_program_while_the_peer_is_stopped,
    leaving_the_library_while_the_peer_is_stopped,
    leaving_the_library_while_the_peer_computes,
    becoming_a_program_without_the_library,
    unread_bytes_for_a_program_without_the_library,
    much_unread_for_a_program_without_the_library,
    much_unread_for_a_program_that_begins_late,
    much_unread_for_a_child_without_the_library,
    much_unread_for_a_vforked_child_without_the_library,
    much_unread_for_a_process_that_receives_the_stream,
    a_command_runs_amid_much_unread,
    what_was_sent_before_an_exec_arrives,
    close_on_exec_ends_the_stream,
    an_exec_that_fails,
    a_child_becomes_another_program,
    a_child_leaves_the_library,
    vfork_and_exec,
    posix_spawn_with_and_without_the_stream,
    system_and_popen,
);

// Bytes that are unread when the peer has finished.
scenarios!("rest":
    a_child_reads_it_as_its_input,
    a_vforked_child_reads_it_as_its_input,
    a_child_that_reads_nothing_leaves_it,
    a_vforked_child_that_reads_nothing_leaves_it,
    another_process_gets_it,
    children_take_parts_of_it,
    vforked_children_take_parts_of_it,
    much_of_it_is_for_both,
    it_is_for_a_program_without_its_library,
    it_is_for_a_vforked_program_without_its_library,
    a_relative_reads_what_a_program_ignores,
    a_relative_reads_what_a_program_ignores_after_an_exit,
    a_relative_of_a_program_without_its_library_is_not_misled_by_an_exit,
    a_relative_of_a_program_without_its_library_is_not_misled,
    a_relative_of_a_vforked_program_without_its_library_is_not_misled,
    a_relative_of_a_program_that_takes_a_byte_is_not_misled,
    a_relative_reads_what_a_command_leaves,
    the_process_lets_go,
    both_answer_a_peer_that_listens,
    a_reset_comes_behind_it,
    a_reset_comes_behind_it_for_a_vforked_child,
    a_reset_comes_behind_it_for_a_relative,
    a_reset_comes_behind_it_for_a_late_relative,
    calls_say_what_is_left_of_it,
    a_set_tells_of_it,
    a_relative_reads_it_too,
    the_last_of_many_relatives_reads_it,
    programs_take_parts_of_many_rests,
    programs_begin_while_a_thread_forks,
    the_process_becomes_a_program_after_its_child,
    an_exec_that_fails_leaves_it,
    one_program_answers_after_another,
    headers_say_what_the_kernel_says,
    it_is_left_unread,
    the_process_cannot_be_traced_any_more,
    its_programs_group_is_killed,
    children_are_killed_meanwhile,
    a_thread_reads_it_while_a_command_runs,
);

scenarios!("successors":
    children_read_what_peers_left,
    vforked_children_read_what_peers_left,
);

scenarios!("inheritance":
    a_server_of_inetds,
    a_parent_that_lets_go_later,
    an_exec_that_fails_before,
    bytes_before_the_exec,
    a_program_that_becomes_another,
    a_program_that_becomes_another_later,
    a_program_on_its_vi_that_becomes_another,
    a_child_of_a_server_on_its_vi_becomes_another,
    a_client_on_its_vi_becomes_another,
    a_client_inherits,
    a_child_of_vfork_inherits,
    lines_of_a_server_of_inetds,
    a_server_of_inetds_is_killed,
);

scenarios!("joining", Scenario::may_stay_on_tcp:
    execs_that_fail_leave_nothing_to_other_programs,
    the_last_preload_counts,
    path_leads_past_a_program_without_linker,
);

/// The rendezvous begins with the third transfer of each connection.
#[test]
fn programs_begin_amid_the_rendezvous() {
    for case in [
        "programs_begin_amid_the_rendezvous",
        "programs_of_vforked_children_begin_amid_the_rendezvous",
    ] {
        let scenario = Scenario::c("joining", case).may_stay_on_tcp();
        scenario.env("SOVIA_MEET", "3").run_accelerated();
    }
}

/// Programs that load the library continue on the VI: no connection goes back to TCP.
#[test]
fn programs_stay_on_their_vi() {
    for (app, case) in [
        ("inheritance", "a_program_on_its_vi_that_becomes_another"),
        ("inheritance", "a_client_on_its_vi_becomes_another"),
        ("inheritance", "a_child_of_a_server_on_its_vi_becomes_another"),
        ("exec", "many_unread_bytes_cross_an_exec"),
        ("exec", "an_exec_while_the_peer_is_stopped"),
        ("rest", "children_take_parts_of_it"),
    ] {
        for (role, outcome) in Scenario::c(app, case).observe(Pairing::SOVIA).ends {
            let stays = outcome.stderr.contains("sovia: stayed on TCP: 0");
            assert!(stays, "{case}, {role}: {}", outcome.stderr);
        }
    }
}

/// The peer puts the unread bytes on TCP as the reader makes room. No process of the library has to help.
#[test]
fn much_unread_needs_no_relay() {
    for case in [
        "much_unread_for_a_program_without_the_library",
        "much_unread_for_a_child_without_the_library",
        "much_unread_for_a_vforked_child_without_the_library",
        "much_unread_for_a_process_that_receives_the_stream",
        "a_command_runs_amid_much_unread",
    ] {
        for (role, outcome) in Scenario::c("exec", case).observe(Pairing::SOVIA).ends {
            assert!(!outcome.stderr.contains("relay"), "{case}, {role}: {}", outcome.stderr);
        }
    }
}

// Another process has the connection too, or may have it as far as the library knows.
scenarios!("inheritance", Scenario::may_stay_on_tcp:
    a_parent_that_goes_on_after_it,
    a_parent_that_writes_meanwhile,
    two_programs_get_it,
    a_child_of_posix_spawn_inherits,
    a_shell_in_between_keeps_it,
    another_process_has_been_sent_it,
);

scenarios!("holders", Scenario::may_stay_on_tcp:
    a_relative_changes_its_rights,
    a_relative_limits_its_memory,
    it_has_many_numbers,
    it_is_in_an_inherited_set,
    a_program_in_between_by_a_system_call,
    a_program_in_between_without_its_library,
    a_child_on_its_memory,
    another_process_asks_for_signals,
    another_process_sends_an_urgent_byte,
    an_exec_fails_while_its_parent_forks,
);

scenarios!("passing":
    a_stream_is_given_away,
    a_stream_is_given_away_among_several_messages,
    a_stream_is_lent,
    a_stream_is_given_away_with_unread_bytes,
    a_stream_goes_there_and_back,
    a_stream_is_handed_to_oneself,
);

scenarios!("messages":
    a_program_gets_a_new_stream,
    a_program_gets_a_stream_on_its_vi,
    a_child_gets_a_new_stream,
    it_comes_over_a_named_channel,
    the_message_alone_holds_it,
    it_comes_back_to_its_sender,
    many_new_streams,
);

// Another process has the connection, or may have it, or the first message rules acceleration out.
scenarios!("messages", Scenario::may_stay_on_tcp:
    it_is_looked_at_first,
    its_sender_goes_on_with_it,
    two_programs_get_it_in_messages,
    a_child_of_its_senders_has_it,
    a_worker_sends_it_back_and_keeps_it,
    a_worker_sends_it_on_and_keeps_it,
    it_is_looked_at_and_used,
    its_receiver_ends,
    a_message_fails,
);

scenarios!("children":
    a_vfork_child_reuses_the_number,
    a_vfork_child_moves_a_pipe_there_and_execs,
    a_vfork_child_execs_amid_bytes,
    a_vfork_child_talks,
    a_vfork_childs_child_fails_to_exec,
    a_child_of_underscore_fork_goes_on,
    a_child_of_the_system_call_fork_goes_on,
    a_child_of_the_system_call_clone_goes_on,
    a_child_of_the_system_call_clone3_goes_on,
    a_child_of_clone_goes_on,
    children_of_underscore_fork_take_turns,
    children_of_the_system_call_clone_take_turns,
    children_of_an_inline_clone_take_turns,
    a_child_shares_memory,
    underscore_fork_in_a_handler,
    fork_in_a_handler_of_malloc,
);

scenarios!("namespaces":
    children_in_other_namespaces_close,
    a_child_in_another_namespace_goes_on,
    parent_and_child_in_another_namespace_write,
    parent_and_child_in_another_namespace_write_at_once,
    a_namespace_or_a_table_of_its_own_at_any_moment,
);

scenarios!("leaving":
    the_first_thread_leaves_by_a_system_call,
    the_first_thread_leaves_by_pthread_exit,
    the_first_thread_leaves_inline,
    the_first_thread_leaves_and_another_connects,
    the_first_thread_leaves_and_another_serves,
    the_first_threads_of_both_leave,
    the_only_thread_leaves,
    a_childs_only_thread_leaves,
    the_only_thread_leaves_after_its_connection,
    connections_now_and_then,
    a_close_while_the_kernel_takes_over,
);

// Streams that were passed on before a byte was read: the library decides whether to accelerate
// them.
scenarios!("passing", Scenario::may_stay_on_tcp: a_dispatcher_hands_connections_out);

scenarios!("exec", Scenario::may_stay_on_tcp: a_super_server_hands_streams_to_cat);

scenarios!("idle": waiting_costs_no_time, dropping_privileges, changing_the_root);
