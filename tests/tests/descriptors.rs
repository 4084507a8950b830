//! Streams under several descriptors, as standard input and output, and with options; and ways to
//! establish connections.

use sovia_tests::{Pairing, Scenario, scenarios};

scenarios!("dup":
    every_kind_of_duplicate_works,
    the_last_number_ends_the_stream,
    duplicates_share_their_flags,
    wrong_numbers_are_refused,
    a_file_takes_a_streams_number,
    a_stream_takes_anothers_number,
    a_closed_number_is_used_again,
    ranges_of_numbers_are_closed,
    streams_numbered_0_and_1,
    a_number_changes_while_the_peer_falls_back,
    closing_everything_in_a_loop,
);

scenarios!("stdio":
    printf_and_fgets_on_0_and_1,
    fdopen_reads_and_writes,
    one_unbuffered_file_for_both,
    much_through_fwrite_and_fread,
    reads_and_writes_in_turn,
    exit_flushes_a_file,
    a_file_is_reopened,
    a_file_in_a_child,
    a_file_that_must_wait,
    modes_of_a_file,
    a_file_before_the_connection,
    a_connection_takes_the_number_of_a_file,
    a_file_is_reopened_as_others,
    exec_of_cat_on_a_stream,
    exec_leaves_unread_bytes_to_cat,
    exec_of_a_shell_on_a_stream,
    becoming_cat_without_a_fork,
    exec_of_a_writer_on_a_stream,
    a_file_whose_number_is_closed,
);

scenarios!("options":
    options_are_kept,
    options_with_structures,
    receive_timeouts,
    send_timeouts,
    bytes_are_counted,
    modes_and_flags,
    sigio_when_bytes_come,
    a_low_water_mark,
    a_low_water_mark_of_the_listener,
    a_user_timeout,
    a_polled_user_timeout,
    a_user_timeout_of_a_stopped_peer,
    times_of_arrival,
    times_and_credentials_that_nobody_sees,
    the_cork,
);

scenarios!("connect":
    addresses_are_the_kernels,
    addresses_over_ipv6,
    one_listener_for_both_families,
    accept_with_flags,
    connecting_without_blocking,
    connections_are_refused,
    a_connection_is_dissolved,
    a_connection_is_dissolved_unread,
    a_connection_is_dissolved_behind_the_end,
    a_connection_is_dissolved_unread_behind_the_end,
    a_connection_is_dissolved_that_a_child_has,
    many_connections_of_one_pair,
    a_thousand_connections,
    descriptors_run_out,
    other_sockets_are_left_alone,
);

// Too short, or too one-sided, to be worth a switch: the library decides.
scenarios!("connect", Scenario::may_stay_on_tcp:
    bytes_before_the_accept,
    one_way_from_the_start,
    short_connections,
);

scenarios!("wide":
    wide_characters_are_read,
    wide_characters_are_written,
);

scenarios!("standard":
    a_service_on_0_1_and_2,
    a_service_of_wide_characters,
    prints_without_a_stream,
    prints_without_a_stream_checked,
    logs_to_standard_error,
    logs_by_syslog_chk,
    logs_by_vsyslog,
    logs_by_vsyslog_chk,
    a_terminal_takes_0_1_and_2,
    words_are_expanded_by_a_command,
    libc_prints_past_its_streams,
    two_files_on_one_number,
    files_and_calls_in_turn,
    what_a_fork_finds_unflushed,
    standard_streams_are_reopened,
    standard_streams_cannot_be_reopened,
    a_handler_interrupts_a_stream,
    a_thread_is_cancelled_in_a_stream,
    threads_share_a_file,
    a_stream_to_nobody,
    a_connection_takes_the_number_of_a_pipe,
    a_service_whose_numbers_are_others,
);

/// Runs scenarios in which both ends keep their VI to the end.
fn stay_accelerated(program: &'static str, cases: &[&str]) {
    for case in cases {
        let seen = Scenario::c(program, case).observe(Pairing::SOVIA);
        for (role, outcome) in &seen.ends {
            assert!(outcome.success(), "{case}, {role}: {outcome:#?}");
            let is_back = outcome.stderr.contains("went back to TCP");
            assert!(!is_back, "{case}, {role}: {outcome:#?}");
        }
    }
}

#[test]
fn options_that_show_in_no_byte_stay_accelerated() {
    stay_accelerated("options", &["times_and_credentials_that_nobody_sees"]);
}

/// A service of inetd uses its connection so, and the ends of FTP theirs.
#[test]
fn stdio_streams_stay_accelerated() {
    stay_accelerated(
        "stdio",
        &[
            "printf_and_fgets_on_0_and_1",
            "fdopen_reads_and_writes",
            "one_unbuffered_file_for_both",
            "much_through_fwrite_and_fread",
            "reads_and_writes_in_turn",
            "exit_flushes_a_file",
            "a_file_is_reopened",
            "a_file_in_a_child",
            "a_file_that_must_wait",
            "modes_of_a_file",
            "a_file_before_the_connection",
            "a_connection_takes_the_number_of_a_file",
        ],
    );
    stay_accelerated("wide", &["wide_characters_are_read", "wide_characters_are_written"]);
    stay_accelerated(
        "standard",
        &[
            "a_service_on_0_1_and_2",
            "a_service_of_wide_characters",
            "prints_without_a_stream",
            "prints_without_a_stream_checked",
            "two_files_on_one_number",
            "files_and_calls_in_turn",
            "what_a_fork_finds_unflushed",
            "a_handler_interrupts_a_stream",
            "a_thread_is_cancelled_in_a_stream",
            "threads_share_a_file",
        ],
    );
}
