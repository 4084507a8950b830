//! C programs: two stations of one program, and nodes of a table in processes of their own.

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

/// A ring of four processes, as a program in the paper's place would be written.
#[test]
fn nodes_of_a_table() {
    assert_eq!(run(&mut watched(&program("tests/c/ring.c", "cc", "c99"))), "as it should be\n");
}
