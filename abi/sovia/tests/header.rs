//! Checks that `sovia.h` and the library declare the same names.

use std::fs;
use std::process::Command;

use crate::common::{here, include, library, run, skipped};

/// Returns the names in `text` that begin with `sov_` and are followed by `end`.
fn names(text: &str, end: char) -> Vec<String> {
    let mut names: Vec<String> = text
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == end))
        .filter(|word| word.starts_with("sov_") && word.contains(end))
        .map(|word| word.split(end).next().unwrap_or_default().to_owned())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Returns a header's text without comments.
fn code(text: &str) -> String {
    let parts = text.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, rest)| rest));
    parts.collect()
}

#[test]
fn the_header_declares_what_the_library_exports() {
    let header = fs::read_to_string(include().join("sovia.h")).expect("the header");
    let declared = names(&code(&header), '(');
    let map = fs::read_to_string(here().join("sovia.map")).expect("the map");
    assert_eq!(declared, names(&map, ';'));
    if skipped("the_header_declares_what_the_library_exports", "nm") {
        return;
    }
    let listed = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let exported = listed.lines().filter_map(|line| line.split_whitespace().last());
    let mut exported: Vec<&str> = exported.filter(|name| *name != "SOVIA_1.0").collect();
    exported.sort_unstable();
    let mut versioned: Vec<String> =
        declared.iter().map(|name| format!("{name}@@SOVIA_1.0")).collect();
    versioned.sort_unstable();
    assert_eq!(exported, versioned);
}

#[test]
fn library_has_a_soname_and_few_dependencies() {
    if skipped("library_has_a_soname_and_few_dependencies", "readelf") {
        return;
    }
    let told = run(Command::new("readelf").arg("-d").arg(library()));
    assert!(told.contains("Library soname: [libsovia.so.1]"), "{told}");
    for line in told.lines().filter(|line| line.contains("(NEEDED)")) {
        let usual = ["libc.so", "libgcc_s.so", "ld-linux", "libm.so", "libpthread.so", "libdl.so"];
        assert!(usual.iter().any(|library| line.contains(library)), "{line}");
    }
}
