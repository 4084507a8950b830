//! Random walks of two ends over the kernel and over Sovia:
//!
//! - `walk seeds KIND FROM TO`: walks of the seeds, of KIND calls, processes, programs, waits, forms or gifts. A walk in which the two
//!   stacks differ is shortened and shown.
//! - `walk script 'WARMUP; A write 5; B read 100; …'`: one walk, and what differs.

use sovia_tests::walk::compare::{Verdict, compare, shorten};
use sovia_tests::walk::end;
use sovia_tests::walk::script::{Kind, Script, of_seed};
use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["end", ..] => end::run(&words[1..]),
        ["child", ..] => return ExitCode::from(sovia_tests::walk::run_child(&words[1..]) as u8),
        ["script", text] => match text.parse() {
            Ok(script) => return show(&script),
            Err(error) => return usage(&error),
        },
        ["seeds", kind, from, to] => {
            let kind = match kind.parse::<Kind>() {
                Ok(kind) => kind,
                Err(error) => return usage(&error),
            };
            let (Ok(from), Ok(to)) = (from.parse(), to.parse()) else {
                return usage("FROM and TO are numbers");
            };
            return walk_all(kind, from, to);
        }
        _ => return usage("nothing to do"),
    }
    ExitCode::SUCCESS
}

fn usage(what: &str) -> ExitCode {
    eprintln!(
        "{what}\nusage: walk seeds calls|processes|programs|waits|forms|gifts FROM TO\n       walk script 'WARMUP; A write 5; B read 100'"
    );
    ExitCode::from(2)
}

fn show(script: &Script) -> ExitCode {
    let own = env::current_exe().expect("a path");
    match compare(&own, script) {
        Verdict::Same => println!("the same"),
        Verdict::Undecided => println!("the kernel does not see the same twice"),
        Verdict::Known(text) => println!("{text}as docs/surface.md says"),
        Verdict::Differ(text) => {
            println!("{text}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn walk_all(kind: Kind, from: u64, to: u64) -> ExitCode {
    let own = env::current_exe().expect("a path");
    let (mut differ, mut undecided, mut known) = (0, 0, 0);
    for seed in from..to {
        let script = of_seed(seed, kind);
        match compare(&own, &script) {
            Verdict::Same => {}
            Verdict::Undecided => undecided += 1,
            Verdict::Known(_) => known += 1,
            Verdict::Differ(_) => {
                differ += 1;
                let script = shorten(&own, &script);
                println!("seed {seed}: walk script '{script}'");
                show(&script);
            }
        }
    }
    let walks = to - from;
    println!(
        "{walks} walks, {differ} differ, {undecided} undecided, {known} differ as docs/surface.md says"
    );
    if differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
