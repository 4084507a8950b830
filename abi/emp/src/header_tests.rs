//! Tests that `emp.h` and the library agree on the layout of structures.

#[path = "../../testing/commands.rs"]
mod commands;

use std::mem::offset_of;
use std::process::Command;

use self::commands::{here, include, printed_by};
use crate::types::{ANY_SOURCE, ANY_TAG, Config, LOCK_MEMORY, NIC_THREAD, Status};

#[test]
fn structures_and_values_are_the_headers() {
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-I"]).arg(include());
    let told = printed_by(&mut cc, &here().join("tests/c/layout.c"), "layout");
    let own = [
        size_of::<Config>(),
        offset_of!(Config, place),
        offset_of!(Config, nodes),
        offset_of!(Config, count),
        offset_of!(Config, key),
        offset_of!(Config, flags),
        offset_of!(Config, processor),
        offset_of!(Config, collection),
        offset_of!(Config, spin),
        size_of::<Status>(),
        offset_of!(Status, error),
        offset_of!(Status, node),
        offset_of!(Status, tag),
        offset_of!(Status, length),
        usize::from(ANY_SOURCE),
        ANY_TAG.unsigned_abs() as usize,
        NIC_THREAD as usize,
        LOCK_MEMORY as usize,
    ];
    let told: Vec<usize> = told.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert_eq!(told, own);
}
