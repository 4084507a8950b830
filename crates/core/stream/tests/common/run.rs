//! Runs the cases with two roles in two threads, and reports failures.

use super::{Case, Context, configurations};
use sovia_stream::Configuration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use via::{NetAddress, Nic};

const PATIENCE: Duration = Duration::from_secs(60);

/// Tries each case in each configuration. Panics with all failures. `SOVIA_CASE` selects cases.
pub(crate) fn all<N: Nic + 'static>(
    cases: Vec<Case<N>>,
    mut attempt: impl FnMut(&Case<N>, &str, &Configuration) -> Result<(), String>,
) {
    let only = std::env::var("SOVIA_CASE").unwrap_or_default();
    let (mut passed, mut failed) = (0, Vec::new());
    for (name, configuration) in configurations() {
        for case in cases.iter().filter(|case| case.name.contains(&only)) {
            let begin = Instant::now();
            match attempt(case, &name, &configuration) {
                Ok(()) => passed += 1,
                Err(why) => {
                    println!("{name}: {}: {why}", case.name);
                    failed.push(format!("{name}: {}: {why}", case.name));
                }
            }
            if begin.elapsed() > Duration::from_secs(2) {
                println!("{name}: {}: {:?}", case.name, begin.elapsed());
            }
        }
    }
    println!("{passed} passed");
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

/// Runs the two roles in two threads.
pub(crate) fn in_threads<N: Nic + 'static>(
    case: &Case<N>,
    configuration: &Configuration,
    open: impl Fn(&'static str) -> (N, NetAddress) + Send + Clone + 'static,
) -> Result<(), String> {
    let (tell, told) = mpsc::channel();
    for (name, role) in [("server", case.server), ("client", case.client)] {
        let (open, tell, configuration) = (open.clone(), tell.clone(), *configuration);
        thread::spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| {
                let (nic, address) = open(name);
                role(&Context::new(nic, address, configuration));
            }));
            let why = |why: Box<dyn std::any::Any + Send>| match why.downcast::<String>() {
                Ok(text) => format!("{name}: {text}"),
                Err(why) => format!("{name}: {:?}", why.downcast_ref::<&str>()),
            };
            let _ = tell.send(result.map_err(why));
        });
    }
    for _ in 0..2 {
        told.recv_timeout(PATIENCE).unwrap_or_else(|_| Err("hangs".into()))?;
    }
    Ok(())
}
