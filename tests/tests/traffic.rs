//! Much data, many streams, many threads: all bytes arrive, and nothing hangs.

use sovia_tests::{Scenario, scenarios};

scenarios!("bulk":
    ping_pong_of_random_sizes,
    ping_pong_of_small_sizes,
    sizes_around_every_border,
    sixty_four_megabytes_each_way_at_once,
    sixty_four_megabytes_each_way_by_edges,
    a_stream_of_pieces_of_every_size,
);

// One process holds both ends, and may write before it reads.
scenarios!("bulk", Scenario::single:
    a_megabyte_of_single_bytes_before_the_first_read,
    both_directions_before_the_first_read,
    ping_pong_with_oneself,
    polling_both_ends,
);

scenarios!("threads":
    records_of_several_parts,
    two_writers_and_two_readers,
    readers_without_a_lock,
    reading_and_writing_at_full_speed,
    small_messages_both_ways,
    streams_that_come_and_go_in_threads,
    shutting_what_others_write_to,
);

scenarios!("stalled":
    a_stalled_stream_beside_busy_ones,
    a_blocked_writer_beside_busy_streams,
);

const STRESS: [&str; 3] = [
    "random_sizes_and_pauses_one_way",
    "random_sizes_and_pauses_both_ways",
    "requests_that_come_at_any_moment",
];

/// `SOVIA_STRESS_MESSAGES` messages; the programs' own default is 200 000.
#[test]
fn random_sizes_and_pauses() {
    for case in STRESS {
        Scenario::c("stress", case).watchdog(240).run();
    }
}

/// Ten million messages of each kind, with a seed from the clock.
#[test]
#[ignore = "takes long; run it by name"]
fn soak() {
    let clock = std::time::UNIX_EPOCH.elapsed().expect("the clock is past 1970");
    let seed = clock.as_secs() % 1_000_000;
    println!("seed {seed}");
    let count = std::env::var("SOVIA_STRESS_MESSAGES").unwrap_or_else(|_| "10000000".into());
    for case in STRESS {
        Scenario::c("stress", case)
            .env("SOVIA_STRESS_MESSAGES", &count)
            .env("SOVIA_STRESS_SEED", seed)
            .watchdog(7200)
            .run();
    }
}
