//! Calls that move bytes return the same over Sovia as over the kernel.

use sovia_tests::{Scenario, known_limits, scenarios};

scenarios!("stream_calls":
    partial_reads_leave_the_rest,
    partial_reads_over_ipv6,
    zero_length_calls,
    a_receive_of_nothing_waits,
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

scenarios!("detours":
    asynchronous_reads_and_writes,
    requests_to_the_kernel,
    vectors_with_an_offset,
    execveat_in_a_child,
    a_spawned_childs_output,
    a_spawned_childs_input,
    a_number_of_a_spawned_childs,
    the_same_number_in_a_spawned_child,
    system_calls_by_their_numbers,
    a_descriptor_by_way_of_the_process,
    a_table_of_descriptors_of_its_own,
);

scenarios!("bad_arguments":
    reading_into_a_bad_pointer,
    scattering_into_bad_pointers,
    writing_from_a_bad_pointer,
    a_bad_part_after_the_end,
    descriptors_that_are_closed_or_no_stream,
    calls_that_are_not_for_sockets,
    flags_of_every_kind,
);

known_limits!("bad_arguments", "a buffer that is mapped in part kills the program":
    a_buffer_half_of_which_is_missing,
    writing_from_half_a_buffer,
);

scenarios!("bad_arguments", Scenario::may_stay_on_tcp: a_socket_that_is_not_connected);

scenarios!("files":
    sendfile_sends_what_it_says,
    sendfile_of_more_than_there_is_room_for,
    sendfile_after_shutdown,
    sendfile_between_writes,
    splice_from_a_pipe,
    splice_to_a_pipe,
    a_relay_of_splices,
    what_comes_has_no_room,
    a_server_without_room_gives_up,
);

scenarios!("urgent":
    the_urgent_byte_beside_the_stream,
    the_urgent_byte_in_line,
    the_urgent_byte_from_the_client,
    an_urgent_byte_of_an_end_that_has_bytes_unread,
    an_urgent_byte_behind_the_end_of_the_peer,
    an_urgent_byte_to_a_stopped_peer,
);

scenarios!("late":
    the_acceptor_stands_still_at_each_step,
    a_young_connection_is_reset_after_its_number_is_closed,
);

scenarios!("long", Scenario::meets_in_its_call:
    many_megabytes_in_one_write,
    many_megabytes_in_one_writev,
    many_megabytes_in_one_fwrite,
);

scenarios!("long", Scenario::may_stay_on_tcp:
    a_signal_ends_a_long_write,
    a_signal_with_restart_ends_a_long_write,
    a_timeout_ends_a_long_write,
    a_long_send_that_does_not_wait,
    a_long_write_without_blocking,
    a_long_write_from_bad_memory,
    a_long_write_to_a_peer_that_leaves,
    a_long_write_whose_number_is_closed,
    a_long_write_whose_number_is_a_pipes,
    a_long_write_whose_number_is_a_sockets,
    a_long_write_is_cancelled,
);
