//! `sovia.h` and the library say the same.

use crate::common::{folder, here, include, library, run};
use sovia_c::option;
use sovia_sockets::native::{Info, State};
use std::collections::BTreeMap;
use std::fs;
use std::mem::offset_of;
use std::process::Command;

fn own() -> BTreeMap<String, u64> {
    let values = [
        ("SOCK_VIA", sovia_c::kind::SOCK_VIA as u64),
        ("SOL_SOVIA", option::SOL_SOVIA as u64),
        ("SOV_ON_VIA", option::SOV_ON_VIA as u64),
        ("SOV_REASON", option::SOV_REASON as u64),
        ("SOV_INFO", option::SOV_INFO as u64),
        ("SOV_ACCELERATE", option::SOV_ACCELERATE as u64),
        ("SOV_PROTOCOL", option::SOV_PROTOCOL as u64),
        ("SOV_KERNEL", State::Kernel as u64),
        ("SOV_MEETING", State::Meeting as u64),
        ("SOV_VIA", State::Via as u64),
        ("SOV_TCP", State::Tcp as u64),
        ("SOV_LEND_MAX", sovia_sockets::loan::MAX as u64),
        ("sizeof(struct sov_info)", size_of::<Info>() as u64),
        ("offsetof(struct sov_info, state)", offset_of!(Info, state) as u64),
        ("offsetof(struct sov_info, reason)", offset_of!(Info, reason) as u64),
        ("offsetof(struct sov_info, sends)", offset_of!(Info, sends) as u64),
        ("offsetof(struct sov_info, receives)", offset_of!(Info, receives) as u64),
        ("offsetof(struct sov_info, bytes_sent)", offset_of!(Info, bytes_sent) as u64),
        ("offsetof(struct sov_info, messages_sent)", offset_of!(Info, messages_sent) as u64),
        ("offsetof(struct sov_info, bytes_received)", offset_of!(Info, bytes_received) as u64),
    ];
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What a compiler takes the header's values for.
fn told(compiler: &str, standard: &str, ending: &str) -> BTreeMap<String, u64> {
    let lines: String = own()
        .keys()
        .map(|name| format!("    printf(\"{name}=%lu\\n\", (unsigned long)({name}));\n"))
        .collect();
    let text = format!(
        "#include <sovia.h>\n#include <stdio.h>\n#include <stddef.h>\nint main(void) {{\n{lines}    return 0;\n}}\n"
    );
    let source = folder().join(format!("values.{ending}"));
    let program = folder().join(format!("values-{ending}"));
    fs::write(&source, text).expect("a source can be written");
    run(Command::new(compiler)
        .arg(format!("-std={standard}"))
        .args(["-pedantic", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L", "-I"])
        .arg(include())
        .arg(&source)
        .arg("-o")
        .arg(&program));
    let value = |line: &str| {
        let (name, value) = line.rsplit_once('=').expect("a name and a value");
        (name.to_owned(), value.parse().expect("a number"))
    };
    run(&mut Command::new(&program)).lines().map(value).collect()
}

#[test]
fn values_agree_in_c() {
    assert_eq!(told("cc", "c99", "c"), own());
}

#[test]
fn values_agree_in_cpp() {
    if !crate::common::skipped("values_agree_in_cpp", "g++") {
        assert_eq!(told("g++", "c++17", "cc"), own());
    }
}

/// Names that begin with `sov_`, followed by `end`.
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

/// A header without its comments.
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
    if crate::common::skipped("the_header_declares_what_the_library_exports", "nm") {
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
fn it_has_a_soname_and_few_needs() {
    if crate::common::skipped("it_has_a_soname_and_few_needs", "readelf") {
        return;
    }
    let told = run(Command::new("readelf").arg("-d").arg(library()));
    assert!(told.contains("Library soname: [libsovia.so.1]"), "{told}");
    for line in told.lines().filter(|line| line.contains("(NEEDED)")) {
        let usual = ["libc.so", "libgcc_s.so", "ld-linux", "libm.so", "libpthread.so", "libdl.so"];
        assert!(usual.iter().any(|library| line.contains(library)), "{line}");
    }
}
