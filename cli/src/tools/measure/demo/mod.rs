//! `sovia demo`: compares an unmodified Redis over three kinds of connection.

mod picture;
mod redis;
mod service;
mod workload;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use sovia_control::Reason;

use self::redis::Redis;
use self::workload::{Outcome, TESTS, WORKLOADS, Workload};
use crate::measure::progress::Progress;
use crate::measure::table;
use crate::output::put_line;
use sovia_cli::Board;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of runs; each result is the median of the runs
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Approximate length of one measurement in seconds
    #[arg(long, default_value_t = 0.8)]
    seconds: f64,
    /// Also draw the results into this SVG file
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// Kind of connection between client and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Tcp,
    Unix,
    Sovia,
}

impl Way {
    const ALL: [Self; 3] = [Self::Tcp, Self::Unix, Self::Sovia];

    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "kernel TCP",
            Self::Unix => "Unix socket",
            Self::Sovia => "sovia run",
        }
    }
}

/// Runs the demonstration. Returns the exit status.
pub(crate) fn demo(args: &Args) -> anyhow::Result<i32> {
    let missing: Vec<_> = ["redis-server", "redis-benchmark"]
        .into_iter()
        .filter(|name| redis::find(name).is_none())
        .collect();
    if !missing.is_empty() {
        return without_redis(&missing);
    }
    sovia_cli::library::find()?;
    notice_interrupts()?;

    let board = Board::new()?;
    let folder = tempfile::tempdir().context("cannot make a folder for the servers")?;
    let mut servers = Vec::new();
    for way in Way::ALL {
        servers.push(Redis::start(way, folder.path(), &board)?);
    }
    put_line!(
        "Running unmodified redis-server and redis-benchmark over three transports in turn; this takes about a minute."
    )?;
    let results = measure(args, &servers)?;
    drop(servers);

    put_line!("\n{}", report(&results))?;
    if let Some(path) = &args.picture {
        std::fs::write(path, picture::draw(&results))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let (moved, stayed) = (board.page().accelerated(), board.page().stayed());
    let stop = if stayed == 0 { "." } else { ":" };
    put_line!(
        "\nMedian of {} runs. Sovia moved {moved} ends of connections off TCP; {stayed} stayed on TCP{stop}",
        args.runs
    )?;
    for &reason in Reason::ALL {
        if let count @ 1.. = board.page().stayed_for(reason) {
            put_line!("{count:>7}  {}", reason.describe())?;
        }
    }
    Ok(0)
}

type Results = BTreeMap<(Workload, &'static str, Way), Vec<Outcome>>;

fn measure(args: &Args, servers: &[Redis]) -> anyhow::Result<Results> {
    let mut results = Results::new();
    let progress = Progress::of_runs(args.runs + 1, WORKLOADS.len() * servers.len());
    // A short run finds out how many requests fill the time.
    let mut requests = BTreeMap::new();
    for run in 0..=args.runs {
        for workload in WORKLOADS {
            for server in servers {
                let way = server.way();
                progress.step(&format!("{} clients over {}", workload.clients, way.name()));
                let count =
                    requests.get(&(workload, way)).copied().unwrap_or(workload.few_requests());
                let outcome = server.benchmark(workload, count)?;
                if INTERRUPTED.load(Ordering::Relaxed) {
                    bail!("interrupted");
                }
                let rate =
                    outcome.iter().map(|one| one.requests_per_second).fold(f64::MAX, f64::min);
                requests.insert((workload, way), workload.round((rate * args.seconds) as u64));
                if run == 0 {
                    continue;
                }
                for (test, result) in TESTS.into_iter().zip(outcome) {
                    results.entry((workload, test, way)).or_default().push(result);
                }
            }
        }
    }
    Ok(results)
}

fn report(results: &Results) -> comfy_table::Table {
    let mut header = vec!["clients".to_owned(), "pipelined".to_owned(), "over".to_owned()];
    for test in TESTS {
        header.extend([format!("{test}/s"), "p50 us".to_owned(), "/ TCP".to_owned()]);
    }
    let mut table = table::new(header, &[2]);
    for workload in WORKLOADS {
        for way in Way::ALL {
            let shown =
                |number: u32| if way == Way::Tcp { number.to_string() } else { String::new() };
            let mut row =
                vec![shown(workload.clients), shown(workload.pipelined), way.name().to_owned()];
            for test in TESTS {
                let rate =
                    |way| median(results, workload, test, way, |one| one.requests_per_second);
                let p50 = median(results, workload, test, way, |one| one.p50_us);
                let ratio = rate(way).zip(rate(Way::Tcp)).map(|(this, tcp)| this / tcp);
                row.extend([table::number(rate(way)), table::number(p50), table::number(ratio)]);
            }
            table.add_row(row);
        }
    }
    table
}

fn median(
    results: &Results,
    workload: Workload,
    test: &'static str,
    way: Way,
    value: impl Fn(&Outcome) -> f64,
) -> Option<f64> {
    let mut values: Vec<f64> = results.get(&(workload, test, way))?.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Prints what to install, and runs the part that does not need Redis.
fn without_redis(missing: &[&str]) -> anyhow::Result<i32> {
    put_line!(
        "{} not found; on Debian or Ubuntu, as root: apt-get install redis-server redis-tools",
        missing.join(", ")
    )?;
    put_line!("Without Redis, this demo runs `sovia bench` with 64 bytes and with 64 KB.\n")?;
    for (scenario, size) in [("latency", "64"), ("bandwidth", "64K")] {
        let mut bench = Command::new("/proc/self/exe");
        let status = bench.args(["bench", scenario, "--size", size, "--runs", "3"]).status()?;
        if !status.success() {
            bail!("sovia bench {scenario}: {status}");
        }
        put_line!()?;
    }
    Ok(0)
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes signals that end programs end the demonstration in order: it stops the servers and removes the folder.
fn notice_interrupts() -> anyhow::Result<()> {
    extern "C" fn notice(_signal: i32) {
        INTERRUPTED.store(true, Ordering::Relaxed);
    }
    let action = SigAction::new(SigHandler::Handler(notice), SaFlags::SA_RESTART, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler only stores to an atomic, which is async-signal-safe.
        unsafe { sigaction(signal, &action)? };
    }
    Ok(())
}
