//! Programs with tight limits, and programs near high limits. Everything that works over TCP must
//! work.

use sovia_tests::{Pairing, Scenario, accelerated};

fn limited(case: &str) -> Scenario {
    Scenario::c("limits", case).may_stay_on_tcp().watchdog(120)
}

/// A segment takes 20 GB of address space.
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

/// A segment is a file of 20 GB. Beyond the limit for files, the kernel sends a signal.
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

/// The program uses every descriptor up to a limit that it cannot raise.
#[test]
fn every_descriptor_that_the_limit_allows() {
    limited("every_descriptor").run();
}

/// The child can make neither a thread nor a descriptor. Its own calls find out that the peer has reset the
/// connection.
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

/// There is a segment before and after.
#[test]
fn all_memory_is_locked() {
    limited("locks_all").run();
}

/// Two processes have as many segments as their connections need. One segment has room for 1024
/// connections, 512 from each side.
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

/// The VI of a connection that a child has moved to TCP is free for the next connection.
#[test]
fn connections_after_those_that_children_have_taken_back() {
    // By default, connections as short as these get no VI.
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

/// The system takes half of 16 KB.
#[test]
fn a_thread_with_the_smallest_stack() {
    Scenario::c("limits", "small_stack").run();
}

/// Its connections are accelerated.
#[test]
fn a_program_with_much_static_thread_local_storage() {
    Scenario::c("static_tls", "much_static_thread_local_storage").run();
}

/// The frame of a signal takes up to half of 8 KB.
#[test]
fn a_handler_on_a_small_alternate_stack() {
    Scenario::c("limits", "small_alternate_stack").run();
}
