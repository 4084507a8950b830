//! Little of what a program may have too little of, and much of what it may have much of: what
//! works over TCP works.

use sovia_tests::{Pairing, Scenario, accelerated};

fn limited(case: &str) -> Scenario {
    Scenario::c("limits", case).may_stay_on_tcp().watchdog(120)
}

/// A segment takes 20 GB of addresses.
#[test]
fn one_gigabyte_of_address_space() {
    limited("address_space").run();
}

/// The report gives the reason.
#[test]
fn a_limit_on_address_space_is_named() {
    let seen = limited("address_space").observe(Pairing::SOVIA);
    let told = seen.ends.iter().any(|(_, outcome)| outcome.stderr.contains("ulimit -v"));
    assert!(told, "{seen:#?}");
}

#[test]
fn too_little_address_space_for_the_librarys_own_tables() {
    limited("less_address_space").run();
}

/// A segment is a file of 20 GB, and a signal would tell that it is too large.
#[test]
fn no_large_files() {
    limited("file_size").run();
}

#[test]
fn no_locked_memory() {
    limited("locked_memory").run();
}

#[test]
fn no_further_process_or_thread() {
    limited("processes").run();
}

#[test]
fn exactly_as_many_descriptors_as_the_program_needs() {
    limited("descriptors").run();
}

#[test]
fn the_last_descriptors_one_by_one() {
    limited("descriptors_one_by_one").run();
}

/// Every number up to a limit that the program cannot raise.
#[test]
fn every_descriptor_that_the_limit_allows() {
    limited("every_descriptor").run();
}

/// Neither a thread nor a descriptor can be made in the child. Its own calls find out that its peer has reset the connection.
#[test]
fn a_forked_child_learns_of_a_reset_without_a_thread() {
    Scenario::c("limits", "child_without_a_thread").watchdog(30).run_accelerated();
}

#[test]
fn no_proc() {
    limited("no_proc").run();
}

#[test]
fn address_space_is_limited_meanwhile() {
    limited("limited_meanwhile").run();
}

/// Before and after there is a segment.
#[test]
fn all_memory_is_locked() {
    limited("locks_all").run();
}

/// Two processes have as many segments as their connections need: one has room for 1024, 512 opened by
/// each side.
#[test]
fn two_thousand_connections_are_accelerated() {
    let case = Scenario::c("limits", "many_for_long").watchdog(120);
    let seen = case.observe(Pairing::SOVIA);
    for (role, outcome) in &seen.ends {
        assert!(outcome.success(), "{role}: {outcome:#?}");
        let count = accelerated(&outcome.stderr);
        assert!(count > Some(1500), "{role}: {}", outcome.stderr);
    }
}

/// A VI whose connection a child has taken back to TCP is there for the next one.
#[test]
fn connections_after_those_that_children_have_taken_back() {
    // Connections as short as these would be put off.
    let case =
        Scenario::c("poll_select", "poll_tells_of_all_while_one_goes_back").env("SOVIA_MEET", 3);
    let seen = case.observe(Pairing::SOVIA);
    for (role, outcome) in &seen.ends {
        assert!(outcome.success(), "{role}: {outcome:#?}");
        let count = accelerated(&outcome.stderr);
        assert!(count > Some(5), "{role}: {}", outcome.stderr);
    }
}

#[test]
fn two_thousand_connections_of_one_pair_of_processes() {
    Scenario::c("limits", "many").watchdog(120).run();
}

#[test]
fn three_hundred_clients_one_after_the_other() {
    Scenario::c("limits", "short").watchdog(120).run();
}

/// Of 16 KB the system takes a half.
#[test]
fn a_thread_with_the_smallest_stack() {
    Scenario::c("limits", "small_stack").run();
}

/// And its connections are accelerated.
#[test]
fn a_program_with_much_static_thread_local_storage() {
    Scenario::c("static_tls", "much_static_thread_local_storage").run();
}

/// Of 8 KB the frame of a signal takes up to a half.
#[test]
fn a_handler_on_a_small_alternate_stack() {
    Scenario::c("limits", "small_alternate_stack").run();
}
