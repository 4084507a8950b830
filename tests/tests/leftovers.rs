//! Nothing remains of processes after their end, however they ended.

use sovia_tests::{Leftovers, Pairing, Scenario};

#[test]
fn no_files_and_no_names_remain() {
    let before = Leftovers::before();
    for (program, case) in [
        ("shutdown", "the_client_closes_half"),
        ("death", "much_is_sent_before_death"),
        ("death", "one_of_two_dies_sending"),
        ("death", "killed_at_any_moment"),
        ("exec", "unread_bytes_cross_an_exec"),
        ("fork", "workers_share_a_listener"),
    ] {
        Scenario::c(program, case).observe(Pairing::SOVIA);
    }
    let remaining = before.after();
    assert!(remaining.is_empty(), "left behind: {remaining:?}");
}
