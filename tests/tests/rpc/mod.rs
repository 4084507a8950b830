//! Sun RPC by rpcgen's client and server: over libtirpc, without changes, and over libsovia-rpc's "via". Each case
//! must give the same output as over the kernel.

mod binder;
mod programs;
mod via;

use programs::{Ends, Programs, programs};
use sovia_tests::Pairing;
use std::fs;

/// Returns the output of a client for each case, run in turn with one server.
fn told(programs: &Programs, ends: Ends, cases: &[&str]) -> Vec<String> {
    let (server, client) = programs.serve(ends);
    let told = cases.iter().map(|case| ends.client().run(&client(case))).collect();
    // Some of the cases end the server.
    drop(server.end(libc::SIGTERM));
    told
}

/// Runs every case in every pairing; returns the output of clients on the kernel.
fn is_told_the_same(cases: &[&str]) -> Option<Vec<String>> {
    let programs = programs()?;
    let kernel = told(programs, Ends::KERNEL, cases);
    assert!(kernel[0].contains("2000 of 2000 sums are right"), "{kernel:?}");
    for pairing in Pairing::others() {
        assert_eq!(told(programs, Ends::of(pairing), cases), kernel, "{pairing}");
    }
    Some(kernel)
}

#[test]
fn records_of_every_size_come_back() {
    is_told_the_same(&["large"]);
}

#[test]
fn a_call_that_times_out_leaves_the_next_one_right() {
    is_told_the_same(&["late"]);
}

#[test]
fn death_of_the_server_is_an_error() {
    if let Some(told) = is_told_the_same(&["death"]) {
        // RPC_CANTRECV.
        assert!(told[0].contains("a server that dies: RPC: Unable to receive"), "{told:?}");
    }
}

/// A client that leaves in the middle of a call, and one whose record never ends, harm no other.
#[test]
fn bad_clients_harm_no_other() {
    is_told_the_same(&["leaves", "calls", "endless", "calls", "partial", "calls", "large"]);
}

/// Returns the most memory that a process has used, in KB.
fn most_memory_kb(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().split(' ').next());
    number.and_then(|number| number.parse().ok()).expect("the kernel counts")
}

/// Sends nearly 400 MB of a record without an end. The server keeps none of it, and answers the next
/// client.
#[test]
fn a_record_without_an_end_takes_no_memory() {
    let Some(programs) = programs() else { return };
    for pairing in [Pairing::KERNEL].into_iter().chain(Pairing::others()) {
        let ends = Ends::of(pairing);
        let (server, client) = programs.serve(ends);
        ends.client().run(&client("calls"));
        let before = most_memory_kb(server.id());
        ends.client().run(&client("flood"));
        let told = ends.client().run(&client("calls"));
        assert!(told.contains("2000 of 2000 sums are right"), "{pairing}: {told}");
        let more = most_memory_kb(server.id()) - before;
        // Includes the server's part of the bytes under way.
        assert!(more < 40_000, "{pairing}: {more} KB more");
        drop(server.end(libc::SIGTERM));
    }
}

#[test]
fn several_clients_are_served_at_once() {
    let Some(programs) = programs() else { return };
    for pairing in Pairing::others() {
        serve_several(programs, Ends::of(pairing));
    }
}

/// Runs six clients at a time with one server.
fn serve_several(programs: &Programs, ends: Ends) {
    let (server, client) = programs.serve(ends);
    std::thread::scope(|scope| {
        for case in ["calls", "large", "calls", "large", "calls", "calls"] {
            let (line, programs) = (client(case), ends.client());
            scope.spawn(move || {
                let told = programs.run(&line);
                assert!(told.contains("2000 of 2000 sums are right"), "{ends}: {told}");
                assert!(!told.contains("NO"), "{ends}: {told}");
            });
        }
    });
    drop(server.end(libc::SIGTERM));
}
