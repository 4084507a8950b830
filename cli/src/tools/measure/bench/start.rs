//! `sovia bench start`: time and address space that `sovia run` adds to a program's start.
//!
//! The program is `true`. Each round starts it by itself, with the library, through `env`, which executes it like
//! `sovia run`, and under `sovia run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use serde::Serialize;
use sovia_cli::library;

use super::process;
use super::series::median;
use crate::measure::progress::Progress;
use crate::measure::table::{self, number};
use crate::output::put_line;

/// Options of the measurement.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Number of starts of each kind; each result is the median of the starts
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    json: bool,
}

/// A way to start a program.
struct Way {
    name: &'static str,
    /// Words before the program in the command.
    before: Vec<OsString>,
    preload: Option<OsString>,
    times_ms: Vec<f64>,
}

#[derive(Serialize)]
struct Line {
    scenario: &'static str,
    way: &'static str,
    runs: u32,
    median_ms: f64,
    more_ms: f64,
    more_address_space_bytes: i64,
}

/// Measures and reports. Returns the exit status.
pub(super) fn bench(args: &Args) -> anyhow::Result<i32> {
    let mut ways = ways()?;
    let progress = Progress::of_runs(args.runs, ways.len());
    for _ in 0..args.runs {
        for way in &mut ways {
            progress.step(way.name);
            let start = Instant::now();
            let status = way.command("true").stdout(Stdio::null()).status();
            let status = status.with_context(|| format!("cannot start `true` ({})", way.name))?;
            way.times_ms.push(start.elapsed().as_secs_f64() * 1e3);
            ensure!(status.success(), "`true` ({}): {status}", way.name);
        }
    }
    progress.finish();
    let mut lines: Vec<Line> = Vec::new();
    let mut bare = None;
    for way in ways {
        let address_space = way.address_space()?;
        let median_ms = median(way.times_ms).context("no start was measured")?;
        let (bare_ms, bare_space) = *bare.get_or_insert((median_ms, address_space));
        lines.push(Line {
            scenario: "start",
            way: way.name,
            runs: args.runs,
            median_ms,
            more_ms: median_ms - bare_ms,
            more_address_space_bytes: address_space - bare_space,
        });
    }
    print(&lines, args.json)
}

fn ways() -> anyhow::Result<Vec<Way>> {
    let way =
        |name, before: Vec<OsString>, preload| Way { name, before, preload, times_ms: Vec::new() };
    let run = |sovia: PathBuf| vec![sovia.into(), "run".into(), "--".into()];
    Ok(vec![
        way("by itself", Vec::new(), None),
        way("with the library", Vec::new(), Some(library::preload_value(&library::find()?, None)?)),
        way("through env", vec!["env".into()], None),
        way("sovia run", run(library::beside("sovia")?), None),
    ])
}

impl Way {
    fn command(&self, program: &str) -> Command {
        let mut command = match self.before.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
            None => Command::new(program),
        };
        process::without_library(&mut command);
        command.envs(self.preload.iter().map(|library| ("LD_PRELOAD", library)));
        command.stdin(Stdio::null());
        command
    }

    /// Returns the largest address space of a program that has just started, in bytes.
    fn address_space(&self) -> anyhow::Result<i64> {
        let output = self.command("cat").arg("/proc/self/status").output();
        let text = String::from_utf8(output.context("cannot start `cat`")?.stdout)?;
        let line = text.lines().find(|line| line.starts_with("VmPeak:"));
        let field = line.and_then(|line| line.split_whitespace().nth(1));
        Ok(field.context("/proc/self/status has no VmPeak")?.parse::<i64>()? << 10)
    }
}

fn print(lines: &[Line], json: bool) -> anyhow::Result<i32> {
    if json {
        for line in lines {
            put_line!("{}", serde_json::to_string(line)?)?;
        }
        return Ok(0);
    }
    let header = ["start", "ms", "added ms", "added address space MB"];
    let mut table = table::new(header.map(str::to_owned).to_vec(), &[0]);
    for line in lines {
        table.add_row(vec![
            line.way.to_owned(),
            number(Some(line.median_ms)),
            number(Some(line.more_ms)),
            number(Some(line.more_address_space_bytes as f64 / 1e6)),
        ]);
    }
    put_line!(
        "Time to run the program `true` until it exits; medians of {} rounds.\n{table}",
        lines[0].runs
    )?;
    Ok(0)
}
