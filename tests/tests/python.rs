//! Programs in Python, whose interpreter and event loops know nothing of Sovia.

use sovia_tests::{Scenario, skipped};

/// Scenarios of one Python program, each a test of the same name.
macro_rules! python {
    ($program:literal: $($case:ident),+ $(,)?) => {
        $(
            #[test]
            fn $case() {
                if !skipped(stringify!($case), &["python3"]) {
                    Scenario::python($program, stringify!($case)).run();
                }
            }
        )+
    };
}

python!("sockets":
    methods_of_a_socket,
    timeouts_of_a_socket,
    files_over_a_socket,
    selectors_over_twenty_streams,
    subprocesses_beside_a_stream,
    subprocesses_with_a_stream,
    a_subprocess_that_reads_what_is_unread,
    threads_that_read_and_write,
    sendfile_of_a_socket,
);

python!("servers":
    asyncio_echoes,
    asyncio_with_a_hundred_clients,
    asyncio_reads_that_are_cancelled,
    a_server_with_threads,
    a_server_with_forks,
    http_server_and_urllib,
);

/// Streams that were passed on before a byte was read, or whose serving child ends before
/// acceleration could pay. The library decides whether to accelerate them.
#[test]
fn multiprocessing_takes_connections() {
    if !skipped("multiprocessing_takes_connections", &["python3"]) {
        Scenario::python("servers", "multiprocessing_takes_connections").may_stay_on_tcp().run();
    }
}

#[test]
fn ssl_over_a_stream() {
    if !skipped("ssl_over_a_stream", &["python3", "openssl"]) {
        Scenario::python("servers", "ssl_over_a_stream").run();
    }
}

#[test]
fn asyncio_echoes_200_megabytes() {
    if !skipped("asyncio_echoes_200_megabytes", &["python3"]) {
        Scenario::python("servers", "asyncio_echoes")
            .env("SOVIA_TEST_BYTES", 200_000_000)
            .watchdog(240)
            .run_accelerated();
    }
}
