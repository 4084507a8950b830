//! Running the cases, and saying what became of each.

use super::{Case, Context, Need};
use crate::{NetAddress, Nic};
use core::fmt;
use core::time::Duration;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread;

/// What became of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// What is to hold, holds.
    Passed,
    /// The NIC does not offer what the case needs.
    Skipped(Need),
    /// It does not hold, and this is what was seen.
    Failed(String),
}

/// What became of all of them.
#[derive(Debug, Default)]
pub struct Report(Vec<(&'static str, &'static str, Verdict)>);

impl Report {
    /// Adds what became of a case.
    pub fn add<N: Nic>(&mut self, case: &Case<N>, verdict: Verdict) {
        self.0.push((case.group, case.name, verdict));
    }

    /// How many passed, were skipped, and failed.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |is: fn(&Verdict) -> bool| self.0.iter().filter(|(_, _, v)| is(v)).count();
        (
            count(|v| *v == Verdict::Passed),
            count(|v| matches!(v, Verdict::Skipped(_))),
            count(|v| matches!(v, Verdict::Failed(_))),
        )
    }

    /// Panics, with the whole report, if a case failed.
    ///
    /// # Panics
    /// If a case failed.
    pub fn check(&self) {
        assert_eq!(self.counts().2, 0, "{self}");
    }
}

/// By name, what was skipped and what failed; how many passed.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (group, name, verdict) in &self.0 {
            match verdict {
                Verdict::Passed => {}
                Verdict::Skipped(need) => writeln!(f, "{group}: {name}: skipped: {need}")?,
                Verdict::Failed(why) => writeln!(f, "{group}: {name}: FAILED: {why}")?,
            }
        }
        let (passed, skipped, failed) = self.counts();
        write!(f, "{passed} passed, {skipped} skipped, {failed} failed")
    }
}

/// Runs the two roles of a case in two threads. `open` gives each, by its name, its own NIC and the
/// server's address. A case that takes longer than `patience` has failed; its threads are left behind.
pub fn in_threads<N: Nic + 'static>(
    case: &Case<N>,
    patience: Duration,
    open: impl Fn(&'static str) -> (N, NetAddress) + Send + Sync + 'static,
) -> Verdict {
    if let Some(need) = case.missing(&open("client").0) {
        return Verdict::Skipped(need);
    }
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
    // A role that fails leaves the other waiting: its own failure is the one to tell.
    let hangs = || Err("hangs".to_owned());
    for _ in 0..2 {
        if let Err(why) = told.recv_timeout(patience).unwrap_or_else(|_| hangs()) {
            return Verdict::Failed(why);
        }
    }
    Verdict::Passed
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()
}
