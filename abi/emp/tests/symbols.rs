//! `libsovia-emp.so` exports what its header declares.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::common::{here, include, library, run, skipped};

#[test]
fn library_exports_exactly_the_names_in_its_header() {
    if skipped("library_exports_exactly_the_names_in_its_header", "nm") {
        return;
    }
    let listed = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let names = listed.lines().filter_map(|line| line.split_whitespace().last());
    let names = names.filter_map(|name| name.split("@@").next()).filter(|name| *name != "EMP_1.0");
    let names: BTreeSet<&str> = names.collect();
    let header = fs::read_to_string(include().join("emp.h")).expect("the header");
    let declared = header.lines().filter_map(|line| line.strip_prefix("int emp_"));
    let declared: Vec<String> =
        declared.map(|rest| format!("emp_{}", rest.split('(').next().unwrap())).collect();
    assert_eq!(names, declared.iter().map(String::as_str).collect());
    let map = fs::read_to_string(here().join("emp.map")).expect("the map");
    assert!(declared.iter().all(|name| map.contains(&format!("{name};"))));
}
