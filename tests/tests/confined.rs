//! Programs that put themselves under a seccomp filter that allows only their own system calls, or give up privileges.

use sovia_tests::{Scenario, scenarios};

scenarios!("confined":
    a_client_under_an_allow_list,
    a_server_under_an_allow_list,
    strict_mode,
    waits_for_something_else,
    seccomp_by_its_number,
    bytes_that_are_unread,
    every_thread_at_once,
    every_thread_at_once_in_poll,
    a_set_from_before,
    poll_under_a_filter,
    a_confined_child_serves,
    a_fork_under_a_filter,
    signals_under_a_filter,
    filters_that_are_refused,
);

#[test]
fn connections_opened_under_a_filter() {
    Scenario::c("confined", "connections_opened_under_a_filter").may_stay_on_tcp().run();
}

#[test]
fn a_set_from_before_a_refused_filter() {
    Scenario::c("confined", "a_set_from_before_a_refused_filter").may_stay_on_tcp().run();
}

#[test]
fn connections_accepted_under_a_filter() {
    Scenario::c("confined", "connections_accepted_under_a_filter").may_stay_on_tcp().run();
}

/// Connections that a worker accepts while another of its threads changes the worker's privileges.
#[test]
fn connections_accepted_during_a_change_of_privileges() {
    Scenario::c("privileges", "connections_accepted_meanwhile")
        .env("SOVIA_MEET", 0)
        .may_stay_on_tcp()
        .run();
}

/// Threads that are cancelled while they make a connection, before a change of privileges.
#[test]
fn connections_of_cancelled_threads_before_a_change_of_privileges() {
    Scenario::c("privileges", "connections_made_by_cancelled_threads").may_stay_on_tcp().run();
}
