//! With every choice of the papers' table 4, a stream behaves as over the kernel. Bytes arrive in
//! order and whole, and the stream ends as the peer ended it, even by a death right after a send.

use sovia_tests::{Scenario, in_turn};

/// All of the papers' configurations except the three-way handshake, each once. Also combinations that
/// the papers did not try. These are handlers with other ways to send, tiny packets, windows smaller
/// than the other end's threshold, and much combining.
const PROTOCOLS: [&str; 13] = [
    "SOVIA_NOTIFY",
    "SOVIA_HANDLER",
    "SOVIA_SINGLE",
    "SOVIA_COPY",
    "SOVIA_BASE",
    "SOVIA_FLOWCNTL",
    "SOVIA_DACKS",
    "SOVIA_COMBINE",
    "handler,combine",
    "notify,copy,w=4,t=2,chunk=128",
    "w=3,t=2,chunk=64",
    "combine=64,delay=1ms,chunk=128,w=1,t=1",
    "combine=32768,delay=1s",
];

/// Runs a program's cases in the configurations of this turn.
fn in_protocols(program: &'static str, cases: &[&str]) {
    for case in cases {
        for protocol in in_turn((program, case), &PROTOCOLS, 3) {
            println!("{case} with {protocol}");
            Scenario::c(program, case)
                .env("SOVIA_PROTOCOL", protocol)
                .env("SOVIA_STRESS_MESSAGES", 5000)
                .run_accelerated();
        }
    }
}

#[test]
fn bytes_come_whole_and_in_order() {
    in_protocols(
        "bulk",
        &[
            "ping_pong_of_random_sizes",
            "sizes_around_every_border",
            "a_stream_of_pieces_of_every_size",
        ],
    );
}

#[test]
fn messages_come_at_any_moment() {
    in_protocols(
        "stress",
        &["random_sizes_and_pauses_one_way", "requests_that_come_at_any_moment"],
    );
}

#[test]
fn what_send_accepted_survives_its_sender() {
    in_protocols(
        "death",
        &["little_is_sent_before_death", "small_pieces_before_death", "much_is_sent_before_death"],
    );
}

#[test]
fn streams_end_as_they_were_ended() {
    in_protocols(
        "shutdown",
        &[
            "the_client_closes_half",
            "closing_with_unread_bytes_resets",
            "last_words_are_seen_before_the_end",
        ],
    );
}

#[test]
fn a_window_that_is_full_blocks_no_earlier_than_tcp() {
    in_protocols(
        "nonblocking",
        &["pieces_of_64_fill_no_earlier_than_tcp", "a_blocked_writer_goes_on_with_the_reader"],
    );
}

#[test]
fn combined_messages_come_within_the_delay() {
    let combining = |case, protocol: &str| {
        println!("{case} with {protocol}");
        Scenario::c("combining", case).env("SOVIA_PROTOCOL", protocol).run_accelerated();
    };
    for protocol in ["SOVIA_DACKS", "SOVIA_COMBINE", "combine=64,delay=10ms,chunk=128"] {
        combining("small_messages_come_soon", protocol);
    }
    combining("small_messages_of_the_server_come_soon", "SOVIA_COMBINE");
}

#[test]
fn relatives_go_on_with_what_a_process_has_handled() {
    in_protocols(
        "fork",
        &[
            "a_child_goes_on_without_its_parent",
            "a_daemon_goes_on_without_its_ancestors",
            "parent_and_child_both_read",
            "both_ends_fork",
        ],
    );
}

#[test]
fn waiting_threads_are_woken() {
    in_protocols("epoll_modes", &["edge_triggered_both_ways", "one_shot_until_armed_again"]);
}

#[test]
fn small_messages_go_back_to_tcp_with_the_rest() {
    in_protocols("exec", &["unread_bytes_cross_an_exec"]);
}

/// A handler thread keeps no process alive.
#[test]
fn a_process_ends_with_the_last_thread_of_its_program() {
    for case in [
        "the_first_thread_leaves_by_a_system_call",
        "the_first_thread_leaves_by_pthread_exit",
        "the_first_thread_leaves_inline",
        "the_only_thread_leaves_after_its_connection",
    ] {
        for protocol in ["SOVIA_NOTIFY", "SOVIA_HANDLER"] {
            println!("{case} with {protocol}");
            Scenario::c("leaving", case).env("SOVIA_PROTOCOL", protocol).run_accelerated();
        }
    }
}
