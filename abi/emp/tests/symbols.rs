//! What `libsovia-emp.so` offers to the linker, and what its structures are like.

use crate::common::{here, library, program, run, skipped};
use sovia_emp_c::types::{ANY_SOURCE, ANY_TAG, Config, LOCK_MEMORY, NIC_THREAD, Status};
use std::collections::BTreeSet;
use std::fs;
use std::mem::offset_of;
use std::process::Command;

#[test]
fn it_exports_what_its_header_declares_and_nothing_else() {
    if skipped("it_exports_what_its_header_declares_and_nothing_else", "nm") {
        return;
    }
    let listed = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let names = listed.lines().filter_map(|line| line.split_whitespace().last());
    let names = names.filter_map(|name| name.split("@@").next()).filter(|name| *name != "EMP_1.0");
    let names: BTreeSet<&str> = names.collect();
    let header = fs::read_to_string(crate::common::include().join("emp.h")).expect("the header");
    let declared = header.lines().filter_map(|line| line.strip_prefix("int emp_"));
    let declared: Vec<String> =
        declared.map(|rest| format!("emp_{}", rest.split('(').next().unwrap())).collect();
    assert_eq!(names, declared.iter().map(String::as_str).collect());
    let map = fs::read_to_string(here().join("emp.map")).expect("the map");
    assert!(declared.iter().all(|name| map.contains(&format!("{name};"))));
}

#[test]
fn structures_and_values_are_the_headers() {
    let told = run(&mut Command::new(program("tests/c/layout.c", "cc", "c99")));
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
