//! `sovia bench idle`: many open connections, a few of them busy, over TCP and over Sovia in turn.
//!
//! Each end waits by epoll, with all its connections in one set. The measurement has two results. One is the memory of
//! both processes per connection: the PSS, so that shared pages count once. It does not contain the kernel's memory for
//! sockets. The other is the rate of the busy connections, alone and among idle ones.

mod ends;

use std::process::Command;

use anyhow::{Context, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use sovia_cli::{Board, library};

use super::layer::Layer;
use super::process::{self, Process};
use super::series::median;
use crate::measure::progress::Progress;
use crate::measure::table::{self, number};
use crate::output::put_line;
use crate::usage::wrong;

pub(super) use ends::endpoint;

/// Options of the measurement.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Number of connections that are open at once
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    open: u32,
    /// Number of these connections that are busy
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    busy: u32,
    /// Number of runs; each result is the median of the runs
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seconds for each of two measurements of the busy connections: before the idle connections are opened, and while they are open
    #[arg(long, default_value_t = 1.0, value_parser = super::parse_seconds)]
    seconds: f64,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    json: bool,
}

/// Task of one process. A server gets no peer: it prints its own address.
#[derive(Debug, Serialize, Deserialize)]
struct Errand {
    open: u32,
    busy: u32,
    seconds: f64,
    peer: Option<Peer>,
}

/// The server's address, for the client.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Peer {
    port: u16,
    pid: u32,
}

/// Results of a client.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Measured {
    /// Memory of both ends per additional connection, in KB.
    kb_each: f64,
    /// Round trips per second of the busy connections, before the others were opened.
    alone: f64,
    /// Round trips per second of the busy connections among the others.
    among: f64,
}

#[derive(Serialize)]
struct Line {
    scenario: &'static str,
    layer: Layer,
    open: u32,
    busy: u32,
    runs: usize,
    kb_each: f64,
    alone_per_second: f64,
    among_per_second: f64,
    /// Slowdown of the busy connections by the others: median, minimum and maximum of the runs.
    cost: f64,
    cost_min: f64,
    cost_max: f64,
    /// Number of ends that left TCP, two for each connection; the minimum of the runs.
    accelerated_ends: u64,
}

/// Measures and reports. Returns the exit status.
pub(super) fn bench(args: &Args) -> anyhow::Result<i32> {
    if args.busy >= args.open {
        wrong!("--busy {} must be less than --open {}", args.busy, args.open);
    }
    allow_descriptors(args.open)?;
    let mut lines = Vec::new();
    let layers = [Layer::Tcp, Layer::Sovia];
    let mut seen: [Vec<Measured>; 2] = Default::default();
    let mut accelerated = u64::MAX;
    let progress = Progress::of_runs(args.runs, layers.len());
    for _ in 0..args.runs {
        for (layer, seen) in layers.iter().zip(&mut seen) {
            progress.step(&format!("{} connections over {layer}", args.open));
            let board = if *layer == Layer::Sovia { Some(Board::new()?) } else { None };
            seen.push(round(args, board.as_ref())?);
            if let Some(board) = board {
                accelerated = accelerated.min(board.page().accelerated());
            }
        }
    }
    progress.finish();
    for (layer, seen) in layers.into_iter().zip(&seen) {
        let accelerated_ends = if layer == Layer::Sovia { accelerated } else { 0 };
        lines.push(line(args, layer, seen, accelerated_ends));
    }
    if args.json {
        for line in &lines {
            put_line!("{}", serde_json::to_string(line)?)?;
        }
    } else {
        print(&lines)?;
    }
    Ok(0)
}

/// Raises the limit of descriptors: each process needs one per connection, and some more.
fn allow_descriptors(open: u32) -> anyhow::Result<()> {
    const REST: u64 = 1024;
    let needed = u64::from(open) + REST;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    ensure!(
        hard >= needed,
        "cannot open {open} connections: each process needs {needed} descriptors, and may have {hard}; \
         raise the hard limit (ulimit -Hn), or lower --open"
    );
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(())
}

/// Runs a new server and a new client, with the library if `board` is given.
fn round(args: &Args, board: Option<&Board>) -> anyhow::Result<Measured> {
    let Args { open, busy, seconds, .. } = *args;
    let mut server = start(&Errand { open, busy, seconds, peer: None }, board)?;
    let said = server.line().context("the server process did not report its address")?;
    let peer = Some(serde_json::from_str(&said)?);
    let mut client = start(&Errand { open, busy, seconds, peer }, board)?;
    process::bind(&client, &server)?;
    let measured = serde_json::from_str(&client.line()?)?;
    for process in [&mut client, &mut server] {
        process.end().context("a benchmark process (client or server) failed")?;
    }
    Ok(measured)
}

fn start(errand: &Errand, board: Option<&Board>) -> anyhow::Result<Process> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["endpoint", "--idle", &serde_json::to_string(errand)?]);
    process::without_library(&mut command);
    if let Some(board) = board {
        process::with_library(&mut command, &library::find()?, board)?;
    }
    Process::start(&mut command)
}

fn line(args: &Args, layer: Layer, seen: &[Measured], accelerated_ends: u64) -> Line {
    let of = |figure: fn(&Measured) -> f64| {
        median(seen.iter().map(figure).collect()).unwrap_or(f64::NAN)
    };
    let cost = |measured: &Measured| measured.alone / measured.among;
    Line {
        scenario: "idle",
        layer,
        open: args.open,
        busy: args.busy,
        runs: seen.len(),
        kb_each: of(|measured| measured.kb_each),
        alone_per_second: of(|measured| measured.alone),
        among_per_second: of(|measured| measured.among),
        cost: of(cost),
        cost_min: seen.iter().map(cost).fold(f64::INFINITY, f64::min),
        cost_max: seen.iter().map(cost).fold(0.0, f64::max),
        accelerated_ends,
    }
}

fn print(lines: &[Line]) -> anyhow::Result<()> {
    let header = [
        "layer",
        "open",
        "KB per connection",
        "busy",
        "busy only 1/s",
        "with idle 1/s",
        "slowdown",
        "min to max",
        "left TCP",
    ];
    let mut table = table::new(header.map(str::to_owned).to_vec(), &[0]);
    for line in lines {
        let n = |value| number(Some(value));
        table.add_row(vec![
            line.layer.to_string(),
            line.open.to_string(),
            n(line.kb_each),
            line.busy.to_string(),
            n(line.alone_per_second),
            n(line.among_per_second),
            format!("{} x", n(line.cost)),
            format!("{} to {}", n(line.cost_min), n(line.cost_max)),
            match line.layer {
                Layer::Sovia => format!("{} ends", line.accelerated_ends),
                _ => "-".to_owned(),
            },
        ]);
    }
    put_line!("{table}")
}
