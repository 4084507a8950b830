//! How far long work is, said on a terminal alone: a pipe or a file gets results and complaints, and nothing of this.

use std::borrow::Cow;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A line on the terminal that stderr is; nothing where it is none.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Of so many steps.
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

    /// Of runs with so many steps each.
    pub(crate) fn of_runs(runs: u32, steps: usize) -> Self {
        Self::of(u64::from(runs) * steps as u64)
    }

    /// The next step begins; its name is shown.
    pub(crate) fn step(&self, name: &str) {
        self.bar.set_message(Cow::from(name.to_owned()));
        self.bar.inc(1);
    }

    /// Something that is to stay, wherever stderr goes.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    /// Takes the line away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
