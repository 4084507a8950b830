//! Checks the symbols that `libvipl.so` exports.

use crate::common::{here, library, run};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// The list is in the repository, because a change of the list changes the interface.
#[test]
fn library_exports_exactly_the_listed_names() {
    if crate::common::skipped("library_exports_exactly_the_listed_names", "nm") {
        return;
    }
    let listed = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let mut names: Vec<&str> =
        listed.lines().filter_map(|line| line.split_whitespace().last()).collect();
    names.sort_unstable();
    let known = fs::read_to_string(here().join("tests/symbols.txt")).expect("the list");
    assert_eq!(names, known.lines().collect::<Vec<_>>());
}

#[test]
fn library_has_a_soname_and_few_dependencies() {
    if crate::common::skipped("library_has_a_soname_and_few_dependencies", "readelf") {
        return;
    }
    let told = run(Command::new("readelf").arg("-d").arg(library()));
    let names = |kind: &str| -> BTreeSet<String> {
        let lines = told.lines().filter(|line| line.contains(kind));
        lines.filter_map(|line| Some(line.split(['[', ']']).nth(1)?.to_owned())).collect()
    };
    assert_eq!(names("SONAME"), BTreeSet::from(["libvipl.so.1".to_owned()]));
    for needed in names("NEEDED") {
        let usual = ["libc.so", "libgcc_s.so", "ld-linux", "libm.so", "libpthread.so", "libdl.so"];
        assert!(usual.iter().any(|library| needed.starts_with(library)), "needs {needed}");
    }
}
