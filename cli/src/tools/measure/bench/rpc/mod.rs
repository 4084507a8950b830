//! `sovia bench rpc`: calls over Sun RPC, like in figure 7 of the SOVIA paper.
//!
//! The procedure takes an array of bytes and returns an integer. Client and server use libtirpc, unmodified. The layer
//! `sovia` runs the processes of the layer `tcp` with the library. The layer `via` uses libsovia-rpc's transport "via",
//! if `make build` has built it.

mod ends;
mod tirpc;

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use sovia_cli::{Board, library};
use sovia_control::env as names;

use super::layer::Layer;
use super::process::{self, Process};
use super::series::median;
use super::{parse_seconds, parse_size};
use crate::measure::progress::Progress;
use crate::measure::table::{self, number};
use crate::output::put_line;
use crate::usage::wrong;

pub(crate) use ends::{Args as EndArgs, run as end};

/// Default sizes of the argument in bytes, as in the figure.
const SIZES: [usize; 8] = [0, 4, 64, 256, 512, 1024, 2048, 4096];
/// Published results for an empty argument on the paper's cluster, in microseconds (SOVIA, figure 7).
const PUBLISHED: &str = "Published for an empty argument: 200 us over Fast Ethernet, 149 us over TCP on cLAN (LANE), 35 us over SOVIA: 4.3 times as fast as LANE.";

/// Options of the measurement.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Sizes of the argument in bytes, from 0 to 64K, separated by commas; K is 1024
    #[arg(long, value_delimiter = ',', value_parser = parse_argument, value_name = "BYTES")]
    size: Vec<usize>,
    /// Number of runs; each result is the median of the runs
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seconds to make calls of each size
    #[arg(long, default_value_t = 0.2, value_parser = parse_seconds)]
    seconds: f64,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    json: bool,
}

/// Parses a size, which may be 0.
fn parse_argument(text: &str) -> Result<usize, String> {
    let size = if text == "0" { Ok(0) } else { parse_size(text) };
    size.map_err(|_| "expected a number of bytes from 0 to 64K, such as 64 or 16K".to_owned())
}

/// Results of a client for one size.
#[derive(Serialize, Deserialize)]
struct Measured {
    size_bytes: usize,
    median_us: f64,
    p99_us: f64,
}

#[derive(Serialize)]
struct Line {
    scenario: &'static str,
    layer: Layer,
    size_bytes: usize,
    runs: usize,
    median_us: f64,
    min_us: f64,
    max_us: f64,
    p99_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    accelerated_runs: Option<u32>,
}

/// Measures and reports. Returns the exit status.
pub(super) fn bench(args: &Args) -> anyhow::Result<i32> {
    let mut sizes = if args.size.is_empty() { SIZES.to_vec() } else { args.size.clone() };
    sizes.sort_unstable();
    sizes.dedup();
    let most = sizes.iter().copied().max().unwrap_or(0);
    if most > tirpc::MOST {
        wrong!("an argument can have at most {} bytes, not {most}", tirpc::MOST);
    }
    // Checked before any process starts, so that the error is printed once.
    tirpc::Library::open(None)?;
    let library = library::find()?;
    let via = via_library();
    let mut layers = vec![Layer::Tcp, Layer::Sovia];
    layers.extend(via.is_some().then_some(Layer::Via));
    let mut seen: BTreeMap<(usize, Layer), Vec<Measured>> = BTreeMap::new();
    let mut accelerated: BTreeMap<Layer, u32> = BTreeMap::new();
    let progress = Progress::of_runs(args.runs, layers.len());
    for _ in 0..args.runs {
        for &layer in &layers {
            progress.step(&format!("calls over {layer}"));
            let carrier = match (layer, &via) {
                (Layer::Sovia, _) => Carrier::Preloaded(Board::new()?, &library),
                (Layer::Via, Some(via)) => Carrier::Via(Board::new()?, via),
                _ => Carrier::Kernel,
            };
            for measured in round(&carrier, &sizes, args.seconds)? {
                seen.entry((measured.size_bytes, layer)).or_default().push(measured);
            }
            *accelerated.entry(layer).or_default() += u32::from(carrier.has_accelerated());
        }
    }
    progress.finish();
    let lines: Vec<Line> = sizes
        .iter()
        .flat_map(|&size| layers.iter().map(move |&layer| (size, layer)))
        .filter_map(|key| line(key, seen.get(&key)?, accelerated.get(&key.1).copied()))
        .collect();
    if args.json {
        for line in &lines {
            put_line!("{}", serde_json::to_string(line)?)?;
        }
    } else {
        print(&lines, args)?;
        for &layer in layers.iter().filter(|&&layer| layer != Layer::Tcp) {
            let stayed = args.runs - accelerated.get(&layer).copied().unwrap_or(0);
            if stayed > 0 {
                put_line!("{layer} stayed on TCP in {stayed} of {} runs", args.runs)?;
            }
        }
        if via.is_none() {
            put_line!(
                "via is left out: cannot find {VIA_LIBRARY} (`make build` builds it if libtirpc-dev is installed)"
            )?;
        }
    }
    Ok(0)
}

/// libsovia-rpc's soname.
const VIA_LIBRARY: &str = "libsovia-rpc.so.1";

/// Returns libsovia-rpc's path: beside this program, as built, or in the library folder next to it, as installed.
fn via_library() -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    let folder = own.parent()?;
    let places = [folder.join(VIA_LIBRARY), folder.join("../lib").join(VIA_LIBRARY)];
    places.into_iter().find(|place| place.exists())
}

/// Carrier of both ends' bytes.
enum Carrier<'a> {
    Kernel,
    /// The preloaded library.
    Preloaded(Board, &'a Path),
    /// libsovia-rpc.
    Via(Board, &'a Path),
}

impl Carrier<'_> {
    fn has_accelerated(&self) -> bool {
        match self {
            Self::Kernel => false,
            Self::Preloaded(board, _) | Self::Via(board, _) => board.page().accelerated() > 0,
        }
    }
}

/// Runs a new server and a new client. Returns the client's results.
fn round(carrier: &Carrier<'_>, sizes: &[usize], seconds: f64) -> anyhow::Result<Vec<Measured>> {
    let own = env::current_exe().context("cannot find the path of this program")?;
    let start = |words: &[String]| {
        let mut command = Command::new(&own);
        process::without_library(&mut command);
        command.arg("rpc-end");
        match carrier {
            Carrier::Kernel => {}
            Carrier::Preloaded(board, library) => {
                process::with_library(&mut command, library, board)?;
            }
            Carrier::Via(board, library) => {
                command.arg("--via").arg(library).env(names::STATS, board.path());
            }
        }
        Process::start(command.args(words))
    };
    let mut server = start(&["server".into()])?;
    let port = server.line().context("the server did not report its address")?;
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    let client = ["client".into(), port, seconds.to_string(), sizes.join(",")];
    let mut client = start(&client)?;
    process::bind(&client, &server)?;
    let text = client.rest().context("cannot read the results of the client")?;
    client.end().context("the client failed")?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

fn line(
    (size_bytes, layer): (usize, Layer),
    runs: &[Measured],
    accelerated: Option<u32>,
) -> Option<Line> {
    let medians: Vec<f64> = runs.iter().map(|run| run.median_us).collect();
    Some(Line {
        scenario: "rpc",
        layer,
        size_bytes,
        runs: runs.len(),
        min_us: medians.iter().copied().fold(f64::INFINITY, f64::min),
        max_us: medians.iter().copied().fold(0.0, f64::max),
        median_us: median(medians)?,
        p99_us: median(runs.iter().map(|run| run.p99_us).collect())?,
        accelerated_runs: accelerated.filter(|_| layer != Layer::Tcp),
    })
}

fn print(lines: &[Line], args: &Args) -> anyhow::Result<()> {
    let header = ["argument bytes", "layer", "median us", "min", "max", "p99 us", "speed / tcp"];
    let mut table = table::new(header.map(str::to_owned).to_vec(), &[1]);
    let mut tcp = None;
    for line in lines {
        if line.layer == Layer::Tcp {
            tcp = Some(line.median_us);
        }
        table.add_row(vec![
            line.size_bytes.to_string(),
            line.layer.to_string(),
            number(Some(line.median_us)),
            number(Some(line.min_us)),
            number(Some(line.max_us)),
            number(Some(line.p99_us)),
            number(tcp.map(|tcp| tcp / line.median_us)),
        ]);
    }
    put_line!(
        "A call over Sun RPC (libtirpc) and its answer, an integer. Medians of {} runs. Each run measures all layers, one after the other.\n{PUBLISHED}\n{table}",
        args.runs
    )
}
