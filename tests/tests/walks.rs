//! Random walks of two ends: the same seeds every time, so that a failure comes again.

use sovia_tests::walk::compare::{Verdict, compare, shorten};
use sovia_tests::walk::script::{Kind, of_seed};
use std::ops::Range;
use std::path::Path;

/// # Panics
/// If Sovia and the kernel differ in any of the walks.
fn walk(kind: Kind, seeds: Range<u64>) {
    let program = Path::new(env!("CARGO_BIN_EXE_walk"));
    let mut undecided = 0;
    for seed in seeds.clone() {
        let script = of_seed(seed, kind);
        match compare(program, &script) {
            Verdict::Same | Verdict::Known(_) => {}
            Verdict::Undecided => undecided += 1,
            Verdict::Differ(text) => {
                let short = shorten(program, &script);
                panic!("seed {seed}:\n{text}shorter: walk script '{short}'");
            }
        }
    }
    // A walk that the kernel does not repeat shows nothing.
    let walks = seeds.end - seeds.start;
    assert!(undecided * 4 < walks, "{undecided} of {walks} walks differ over the kernel itself");
}

#[test]
fn walks_by_calls() {
    walk(Kind::Calls, 0..60);
}

#[test]
fn walks_with_children_and_deaths() {
    walk(Kind::Processes, 400..460);
}

#[test]
fn walks_with_other_programs() {
    walk(Kind::Programs, 0..60);
}

#[test]
#[ignore = "takes long; run it by name"]
fn many_walks() {
    for kind in [Kind::Calls, Kind::Processes, Kind::Programs] {
        walk(kind, 1000..3000);
    }
}
