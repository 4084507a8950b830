//! Runs each case as a test. The NICs of all providers have one type here, so the cases are compiled once. The type is
//! the one that programs use ([`AnyNic`]), so it is tested with each provider.

use core::time::Duration;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread;

use libtest_mimic::Failed;
pub use libtest_mimic::{Arguments, Trial};
pub use sovia_nic::AnyNic;
use via::NetAddress;

use crate::{Context, Need};

/// A case for the NIC of any provider.
pub type Case = crate::Case<AnyNic>;

/// Result of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The expectation is met.
    Passed,
    /// The NIC does not offer a feature that the case needs.
    Skipped(Need),
    /// The expectation is not met, for this reason.
    Failed(String),
}

/// Returns every case.
pub fn cases() -> Vec<Case> {
    crate::cases()
}

/// Returns a test for each case, named `way::group::case`. `try_it` runs one.
pub fn trials(way: &str, try_it: impl Fn(&Case) -> Verdict + Clone + Send + 'static) -> Vec<Trial> {
    let trial = |case: Case| {
        let name =
            format!("{way}::{}::{}", case.group.replace(", ", "_").replace(' ', "_"), case.name);
        let try_it = try_it.clone();
        Trial::test(name.clone(), move || match try_it(&case) {
            Verdict::Passed => Ok(()),
            Verdict::Skipped(need) => {
                println!("SKIPPED: {name}: {need}");
                Ok(())
            }
            Verdict::Failed(why) => Err(Failed::from(why)),
        })
    };
    cases().into_iter().map(trial).collect()
}

/// Runs tests like a test program, by its arguments. Does not return.
pub fn conclude(trials: Vec<Trial>) -> ! {
    libtest_mimic::run(&Arguments::from_args(), trials).exit()
}

/// Runs the two roles of a case in two threads. `open` gives each role its own NIC and the server's address. A case
/// that takes longer than `patience` times [`scale`] has failed, and its threads are left running.
pub fn in_threads(
    case: &Case,
    patience: Duration,
    open: impl Fn(&'static str) -> (AnyNic, NetAddress) + Send + Sync + 'static,
) -> Verdict {
    if let Some(need) = case.missing(&open("client").0) {
        return Verdict::Skipped(need);
    }
    let patience = patience.mul_f64(scale());
    let open = Arc::new(open);
    let (tell, told) = mpsc::channel();
    for (name, role) in [("server", case.server), ("client", case.client)] {
        let (open, tell) = (open.clone(), tell.clone());
        thread::spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| {
                let (nic, server) = open(name);
                role(&Context { nic: &nic, server });
            }));
            let _ = tell.send(result.map_err(|why| format!("{name}: {}", said(&*why))));
        });
    }
    // A role that fails leaves the other one waiting, so the first failure is reported.
    let hangs = || Err("hangs".to_owned());
    for _ in 0..2 {
        if let Err(why) = told.recv_timeout(patience).unwrap_or_else(|_| hangs()) {
            return Verdict::Failed(why);
        }
    }
    Verdict::Passed
}

/// Returns the factor for watchdog times on this machine, from `SOVIA_TESTS_SCALE`: at least 1.
pub fn scale() -> f64 {
    let given = std::env::var("SOVIA_TESTS_SCALE").ok().and_then(|text| text.parse::<f64>().ok());
    given.unwrap_or(1.0).max(1.0)
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()
}
