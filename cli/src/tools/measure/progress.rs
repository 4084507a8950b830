//! Progress of long work, shown only on a terminal. A pipe or a file gets only results and errors.

use std::borrow::Cow;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A progress line on stderr if stderr is a terminal; otherwise no output.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Makes a line for `steps` steps.
    pub(crate) fn of(steps: u64) -> Self {
        if !stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden() };
        }
        let bar = ProgressBar::new(steps);
        let template = "{elapsed_precise} {bar:24} {pos}/{len} {eta} left  {wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { bar }
    }

    /// Makes a line for runs with `steps` steps each.
    pub(crate) fn of_runs(runs: u32, steps: usize) -> Self {
        Self::of(u64::from(runs) * steps as u64)
    }

    /// Begins the next step, and shows its name.
    pub(crate) fn step(&self, name: &str) {
        self.bar.set_message(Cow::from(name.to_owned()));
        self.bar.inc(1);
    }

    /// Prints a line that stays, on a terminal and elsewhere.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    /// Removes the progress line.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
