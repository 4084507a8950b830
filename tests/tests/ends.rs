//! Reports of the end of a stream before, at and after its last bytes.

use sovia_tests::scenarios;

scenarios!("ends":
    a_reset_ends_a_blocked_write,
    a_close_with_unread_ends_a_blocked_write,
    a_reset_ends_a_long_write,
    a_close_with_unread_ends_a_long_write,
    a_reset_ends_a_blocked_writev,
    data_then_reset_is_read,
    data_then_reset_is_written_to,
    data_then_reset_by_unread_bytes,
    waitall_at_a_reset,
    readv_at_a_reset,
    recvmmsg_at_a_reset,
    peek_at_a_reset,
    receiving_nothing_at_a_reset,
    reading_nothing_at_a_reset,
    waiting_for_nothing_until_a_reset,
    hangups_wait_in_poll,
    hangups_wait_in_epoll,
    hangups_wait_as_edges,
    hangups_wait_in_a_oneshot,
    half_hangups_wait_in_poll,
    half_hangups_wait_as_edges,
    a_hangup_alone_is_told_to_another_thread,
    full_hangups_wait_in_poll,
    a_program_that_trusts_hangups_loses_nothing,
    the_end_is_told_with_its_half_hangup,
    nothing_is_sent_to_a_reset_peer,
);
