//! Runs C programs: two stations in one program, and the nodes of a table in separate processes.

use crate::common::{program, run, skipped, watched};

#[test]
fn transfers_and_misuse() {
    assert_eq!(run(&mut watched(&program("tests/c/pair.c", "cc", "c99"))), "as it should be\n");
}

#[test]
fn transfers_and_misuse_in_cxx() {
    if skipped("transfers_and_misuse_in_cxx", "c++") {
        return;
    }
    assert_eq!(run(&mut watched(&program("tests/c/pair.c", "c++", "c++11"))), "as it should be\n");
}

/// Runs a ring of four processes, each with the table of all nodes, as in the paper.
#[test]
fn nodes_of_a_table() {
    assert_eq!(run(&mut watched(&program("tests/c/ring.c", "cc", "c99"))), "as it should be\n");
}
