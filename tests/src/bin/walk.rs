//! Runs random walks of two ends over the kernel and over Sovia:
//!
//! - `walk seeds KIND FROM TO`: runs the walks of these seeds, of a kind ([`Kind::ALL`]). If the two stacks differ in
//!   a walk, shortens and prints it.
//! - `walk script 'WARMUP; A write 5; B read 100; …' [REST]`: runs one walk and prints the difference, with all
//!   rests, or with a rest of REST milliseconds.

use sovia_tests::walk::compare::{Verdict, compare, compare_at, shorten};
use sovia_tests::walk::end;
use sovia_tests::walk::seeds::{Kind, of_seed};
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["end", ..] => end::run(&words[1..]),
        ["child", ..] => return ExitCode::from(sovia_tests::walk::run_child(&words[1..]) as u8),
        ["script", text] => match text.parse() {
            Ok(script) => return show(compare(&own(), &script)),
            Err(error) => return usage(&error),
        },
        ["script", text, rest] => match (text.parse(), rest.parse()) {
            (Ok(script), Ok(rest)) => {
                return show(compare_at(&own(), &script, Duration::from_millis(rest)));
            }
            (Err(error), _) => return usage(&error),
            (_, Err(_)) => return usage("REST is a number of milliseconds"),
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
        "{what}\nusage: walk seeds KIND FROM TO\n       walk script 'WARMUP; A write 5; B read 100' [REST]"
    );
    ExitCode::from(2)
}

fn own() -> PathBuf {
    env::current_exe().expect("a path")
}

fn show(verdict: Verdict) -> ExitCode {
    match verdict {
        Verdict::Same => println!("the same"),
        Verdict::Undecided => println!("the kernel does not see the same twice"),
        Verdict::Known(text) => println!("{text}as docs/reference/functions.md says"),
        Verdict::Differ(text) => {
            println!("{text}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn walk_all(kind: Kind, from: u64, to: u64) -> ExitCode {
    let own = own();
    let (mut differ, mut undecided, mut known) = (0, 0, 0);
    for seed in from..to {
        let script = of_seed(seed, kind);
        match compare(&own, &script) {
            Verdict::Same => {}
            Verdict::Undecided => undecided += 1,
            Verdict::Known(_) => known += 1,
            Verdict::Differ(text) => {
                differ += 1;
                println!("seed {seed}: walk script '{script}'\n{text}");
                let script = shorten(&own, &script);
                println!("shorter: walk script '{script}'");
                show(compare(&own, &script));
            }
        }
    }
    let walks = to - from;
    println!(
        "{walks} walks, {differ} differ, {undecided} undecided, {known} differ as docs/reference/functions.md says"
    );
    if differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
