//! Connections that are taken back to TCP, or left to a relay, while other threads are in calls on them.

use sovia_tests::scenarios;

scenarios!("taken_back":
    under_a_thread_that_receives,
    under_a_thread_that_polls,
    under_a_thread_that_waits_by_epoll,
    under_a_thread_that_sends,
    under_threads_that_do_both,
);
