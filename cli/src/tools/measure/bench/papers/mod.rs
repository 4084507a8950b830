//! The benchmarks of the papers on implementations of the VI Architecture: `sovia bench papers`, and each scenario by
//! its own name. They run on VIs in shared memory or on any NIC.
//!
//! A scenario ([`work::Scenario`]) is a set of parts ([`plan`]). A part is one line in the pictures. Two processes run
//! it from the first point to the last ([`play`]). In every run all parts of a scenario take turns. The results are one
//! list of figures ([`results`]). Tables, pictures and the page are made from this list and the published figures
//! ([`published`]).

mod attributes;
mod between;
mod charts;
pub(super) mod clock;
mod companions;
mod compare;
mod control;
pub(super) mod hosts;
mod lanes;
pub(super) mod net;
mod offloads;
mod page;
mod pair;
mod plan;
mod play;
pub(super) mod plot;
mod published;
mod results;
mod rounds;
mod station;
mod stored;
mod tables;
mod work;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Subcommand;

use self::pair::Pairs;
use self::plan::Effort;
use self::results::Results;
use self::work::Scenario;
use super::machine::Machine;
use super::nic::Places;
use crate::measure::progress::Progress;
use crate::output::{self, put_line};
use sovia_cli::similar::suggestion;

pub(super) use self::play::endpoint;

/// Time limits of a report, quick or full. At the limit no further run begins, but the first run is always complete.
const QUICK_LIMIT: Duration = Duration::from_secs(58);
const FULL_LIMIT: Duration = Duration::from_secs(590);

// This is not a doc comment, because clap would make it the description of `sovia bench`.
#[derive(Subcommand)]
pub(super) enum What {
    /// Measure all of the following scenarios as the papers on VIA did, and write a report
    ///
    /// The report is a page with pictures and data.
    Papers(AllArgs),
    /// Time of the ping-pong loops of FGCS 2002 with messages of 4 bytes, for the whole loop and for each call
    Loops(OnArgs),
    /// One-way and two-way throughput by size, for send/receive and RDMA write
    Throughput(OnArgs),
    /// Time to store doubles at a stride: copied locally, copied after a receive, or received into segments
    Strided(OnArgs),
    /// Messages received into 32 segments, by size of the segments
    Scatter(OnArgs),
    /// Completion queue compared with polling each VI in turn, by number of VIs
    Queues(OnArgs),
    /// NetPIPE's sweep from 1 byte to 8 MB, over a VI, TCP and Unix sockets
    Netpipe(OnArgs),
    /// Time of single calls of a VI, and throughput of one VI compared with a bare ring
    Calls(OnArgs),
    /// Memory of idle connected VIs
    Memory(OnArgs),
    /// Ping-pong with buffers outside the cache, and with a receiver that reads every byte
    Buffers(OnArgs),
    /// Time to register, lock and copy the bytes of a send, by size
    Registration(OnArgs),
    /// Latency and bandwidth of SOVIA streams by size, in the papers' configurations
    Sovia(OnArgs),
    /// NetPIPE's sweeps and SOVIA streams between two hosts (as root)
    ///
    /// The command makes the two hosts itself, as network namespaces. The sweeps run over UDP, Ethernet and TCP.
    Hosts(between::HostsArgs),
}

/// How much is measured, for one scenario or for all.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Measure fewer sizes, and each size for less time
    #[arg(long)]
    quick: bool,
    /// Number of runs; each result is the median of the runs [default: 5, quick 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Seconds to measure each point in a run [default: 0.03, quick 0.008]
    #[arg(long, value_parser = parse_seconds)]
    seconds: Option<f64>,
    /// For each size, NetPIPE also measures sizes this many bytes smaller and larger; 0: only the size itself
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(..=64))]
    perturbation: u32,
    /// Measure the memory that this many idle VIs take
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=4090))]
    vis: u32,
    /// Length of NetPIPE's longest message in bytes; K is 1024, M is 1024 x 1024
    #[arg(long, default_value = "8M", value_parser = parse_largest, value_name = "BYTES")]
    largest: usize,
}

/// One scenario.
#[derive(clap::Args)]
pub(super) struct OneArgs {
    #[command(flatten)]
    how: Args,
    /// Print one JSON object per line instead of tables
    #[arg(long)]
    json: bool,
}

/// One scenario, on any NIC.
#[derive(clap::Args)]
pub(super) struct OnArgs {
    #[command(flatten)]
    one: OneArgs,
    #[command(flatten)]
    on: On,
}

/// The NIC that carries the VIs.
#[derive(clap::Args)]
struct On {
    /// Place of the NICs: one place for both ends, or REQUESTER,RESPONDER. A place is udp:ADDRESS:PORT, eth:DEVICE,
    /// xdp:DEVICE, ofi:PROVIDER@ADDRESS, verbs:DEVICE or shm:NAME [default: NICs in shared memory]
    #[arg(long, value_name = "PLACE")]
    nic: Option<Places>,
}

impl On {
    /// Returns the places of the NICs, after checking that the NICs can be opened.
    fn nic(&self) -> anyhow::Result<Option<&Places>> {
        if let Some(places) = &self.nic {
            places.probe()?;
        }
        Ok(self.nic.as_ref())
    }
}

/// All of them.
#[derive(clap::Args)]
pub(super) struct AllArgs {
    /// Folder for the page, the pictures and the data
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Measure only these scenarios, separated by commas [default: all, and `hosts`, `rpc`, `ftp` and `emp`]
    #[arg(long, value_delimiter = ',', value_name = "SCENARIO", value_parser = parse_scenario)]
    only: Vec<Scenario>,
    /// Measure nothing, and make the report from the figures in these files. Commas separate the files' names. Each file
    /// is output of this command, or of `hosts`, `rpc`, `ftp` or `emp` with --json. The measured machine is the one that
    /// machine.json describes, in the folder of the first file
    #[arg(long, value_delimiter = ',', value_name = "FILE", conflicts_with_all = ["only", "nic"])]
    from: Vec<PathBuf>,
    #[command(flatten)]
    how: Args,
    #[command(flatten)]
    on: On,
}

impl AllArgs {
    fn wants(&self, scenario: Scenario) -> bool {
        self.only.is_empty() || self.only.contains(&scenario)
    }
}

impl Args {
    fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { 3 } else { 5 })
    }

    fn effort(&self) -> Effort {
        Effort {
            quick: self.quick,
            seconds: self.seconds.unwrap_or(if self.quick { 0.008 } else { 0.03 }),
            perturbation: self.perturbation as usize,
            vis: self.vis as usize,
            largest: self.largest,
        }
    }
}

/// Measures and reports. Returns the exit status.
pub(super) fn bench(what: &What) -> anyhow::Result<i32> {
    match what {
        What::Papers(args) => all(args),
        What::Loops(args) => one(Scenario::Loops, args),
        What::Throughput(args) => one(Scenario::Throughput, args),
        What::Strided(args) => one(Scenario::Strided, args),
        What::Scatter(args) => one(Scenario::Scatter, args),
        What::Queues(args) => one(Scenario::Queues, args),
        What::Netpipe(args) => one(Scenario::Netpipe, args),
        What::Calls(args) => one(Scenario::Calls, args),
        What::Memory(args) => one(Scenario::Memory, args),
        What::Buffers(args) => one(Scenario::Buffers, args),
        What::Registration(args) => one(Scenario::Registration, args),
        What::Sovia(args) => one(Scenario::Sovia, args),
        What::Hosts(args) => between::bench(args),
    }
}

/// Measures one scenario and prints the results.
fn one(scenario: Scenario, OnArgs { one, on }: &OnArgs) -> anyhow::Result<i32> {
    let pairs = Pairs::new()?;
    let parts = plan::parts_on(scenario, one.how.effort(), on.nic()?);
    let mut results = Results::new(scenario, parts);
    let progress = Progress::of_runs(one.how.runs(), results.parts.len());
    (0..one.how.runs()).for_each(|done| run(&mut results, done, &pairs, &progress));
    progress.finish();
    report(results, one)
}

/// Prints the results of one scenario.
fn report(results: Results, args: &OneArgs) -> anyhow::Result<i32> {
    let scenario = results.scenario;
    if args.json {
        output::put(results.json()?)?;
        return Ok(status(&[results]));
    }
    put_line!("{}\n{}", how(&args.how), tables::SPREAD)?;
    tables::of(&results).iter().try_for_each(tables::print)?;
    if matches!(scenario, Scenario::Netpipe | Scenario::Hosts)
        && let Some(losses) = tables::perturbations(&results)
    {
        tables::print(&losses)?;
    }
    let results = [results];
    let rows = compare::rows(&results);
    if !rows.is_empty() {
        tables::print(&tables::comparison(rows.iter()))?;
    }
    let verdicts = compare::verdicts(&results);
    if !verdicts.is_empty() {
        tables::print(&tables::findings(verdicts.iter()))?;
    }
    Ok(status(&results))
}

/// Measures everything and writes the report.
fn all(args: &AllArgs) -> anyhow::Result<i32> {
    let (all, machine, how) =
        if args.from.is_empty() { measured(args)? } else { from_files(&args.from)? };
    let setting = page::Setting { machine: &machine, how: &how };
    let files = page::write(&args.out, &setting, &all)?;
    put_line!("{how}")?;
    tables::print(&tables::comparison(compare::rows(&all).iter()))?;
    tables::print(&tables::findings(compare::verdicts(&all).iter()))?;
    put_line!("\n{} files in {}: {}", files.len(), args.out.display(), files.join(", "))?;
    Ok(status(&all))
}

/// Results, machine, and a description of the measurement.
type Whole = (Vec<Results>, Machine, String);

fn measured(args: &AllArgs) -> anyhow::Result<Whole> {
    let start = Instant::now();
    let pairs = Pairs::new()?;
    let machine = Machine::this(pairs.cpus());
    let effort = args.how.effort();
    let nic = args.on.nic()?;
    let wanted = Scenario::ALL.into_iter().filter(|&it| args.wants(it));
    let mut all: Vec<Results> =
        wanted.map(|it| Results::new(it, plan::parts_on(it, effort, nic))).collect();
    let (runs, limit) = (args.how.runs(), if effort.quick { QUICK_LIMIT } else { FULL_LIMIT });
    let parts: usize = all.iter().map(|results| results.parts.len()).sum();
    let progress = Progress::of_runs(runs, parts);
    let mut done = 0;
    while done < runs && !all.is_empty() {
        for results in &mut all {
            run(results, done, &pairs, &progress);
        }
        done += 1;
        // Ends if one more run of average length would exceed the limit.
        if start.elapsed() * (done + 1) / done > limit {
            break;
        }
    }
    progress.finish();
    let cut = if done < runs && !all.is_empty() {
        format!(" Stopped after {done} of {runs} runs for lack of time.")
    } else {
        String::new()
    };
    // Other commands. Each one decides its own duration, and none has a terminal.
    let wanted = || Scenario::COMPANIONS.into_iter().filter(|&it| args.wants(it));
    let progress = Progress::of(wanted().count() as u64);
    for scenario in wanted() {
        progress.step(&format!("sovia bench {}", scenario.name()));
        companions::measure(scenario, &args.how, &mut all);
    }
    progress.finish();
    let took = start.elapsed().as_secs_f64();
    let on = nics_of(&all);
    Ok((all, machine, format!("{}{on}{cut} It took {took:.0} s.", how(&args.how))))
}

/// Reads figures from files, and the machine from the first file's folder.
fn from_files(files: &[PathBuf]) -> anyhow::Result<Whole> {
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        stored::read(&text, &mut all).with_context(|| file.display().to_string())?;
    }
    let path = files[0].with_file_name("machine.json");
    let machine = std::fs::read_to_string(&path)
        .with_context(|| format!("{} is to tell of the machine", path.display()))?;
    let machine = serde_json::from_str(&machine).with_context(|| path.display().to_string())?;
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    let on = nics_of(&all);
    Ok((all, machine, format!("Figures that were measured before: {}.{on}", names.join(", "))))
}

/// Describes the places of the VIs' NICs, if the VIs are not in shared memory.
fn nics_of(all: &[Results]) -> String {
    let parts = all.iter().flat_map(|results| &results.parts);
    let places: BTreeSet<_> =
        parts.filter_map(|part| part.nic.as_ref()).map(Places::to_string).collect();
    if places.is_empty() {
        return String::new();
    }
    let places: Vec<_> = places.into_iter().collect();
    format!(" The VIs are on NICs in {}.", places.join(" and "))
}

/// Runs every part once. `done` is the number of finished runs.
fn run(results: &mut Results, done: u32, pairs: &Pairs, progress: &Progress) {
    for i in 0..results.parts.len() {
        progress.step(&format!("{}: {}", results.scenario, results.parts[i].series));
        // The use of memory does not vary between runs.
        if results.scenario == Scenario::Memory && done > 0 {
            continue;
        }
        match pairs.run(&results.parts[i]) {
            Ok(readings) => results.add(i, readings),
            Err(error) => {
                progress.say(&format!("sovia: {error:#}"));
                results.failures.push(format!("{error:#}"));
            }
        }
    }
}

/// Returns 1 if a part has failed.
fn status(all: &[Results]) -> i32 {
    i32::from(all.iter().any(|results| !results.failures.is_empty()))
}

fn how(args: &Args) -> String {
    let runs = args.runs();
    let runs = if runs == 1 { "One run".to_owned() } else { format!("{runs} runs") };
    let milliseconds = args.effort().seconds * 1e3;
    let quick = if args.quick { ", a few sizes only" } else { "" };
    format!(
        "{runs}, about {milliseconds} ms a point{quick}. Each run measures all layers in turn. Ends that poll each use a whole processor."
    )
}

fn parse_scenario(text: &str) -> Result<Scenario, String> {
    let all = || Scenario::ALL.into_iter().chain(Scenario::COMPANIONS);
    all().find(|it| it.name() == text).ok_or_else(|| {
        let names: Vec<_> = all().map(Scenario::name).collect();
        format!("expected one of {}{}", names.join(", "), suggestion(text, names.iter().copied()))
    })
}

/// Parses a size, up to the largest that the NIC in shared memory carries in two messages.
fn parse_largest(text: &str) -> Result<usize, String> {
    let size = super::parse_size(text)?;
    if size > plan::NETPIPE_BYTES_MAX {
        return Err("expected at most 8M".to_owned());
    }
    Ok(size)
}

/// Parses a time. Times are shorter than for other scenarios, because there are many points.
fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0001..=60.0).contains(seconds));
    seconds.ok_or_else(|| "expected a number of seconds from 0.0001 to 60".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_bounds() {
        assert_eq!(parse_seconds("0.001"), Ok(0.001));
        for bad in ["0", "-1", "61", "NaN", "x"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn longest_message_has_bounds() {
        assert_eq!(parse_largest("8M"), Ok(8 << 20));
        assert_eq!(parse_largest("9M").unwrap_err(), "expected at most 8M");
    }
}
