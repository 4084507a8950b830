//! A connector grants the VI with its request, before its first byte. Both ends must see the same whether the
//! acceptor takes the request or not.

use sovia_tests::Scenario;

macro_rules! early {
    ($($app:literal: $($case:ident),+ ;)+) => {
        $($(
            #[test]
            fn $case() {
                Scenario::c($app, stringify!($case)).run_with_early_grants();
            }
        )+)+
    };
}

early!(
    "shutdown":
        the_client_closes_half,
        the_server_closes_half,
        half_close_over_ipv6,
        shutting_both_halves,
        closing_with_unread_bytes_resets,
        a_reset_is_told_once_by_so_error,
        a_close_ends_a_blocked_read,
        what_was_sent_before_exit_arrives,
        both_close_half_at_once,
        shut_before_the_ends_meet;
    "death":
        little_is_sent_and_read_after_death,
        much_is_sent_before_death,
        the_server_sends_and_dies,
        a_death_shows_in_epoll,
        a_death_shows_in_poll,
        a_reader_dies_without_reading,
        killed_at_any_moment;
);
