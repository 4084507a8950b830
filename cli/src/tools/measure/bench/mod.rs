//! `sovia bench`: compares Sovia with the kernel's sockets and with the hardware's limits.
//!
//! A machine's speed changes from minute to minute. So all layers are measured in one run and take turns, and only such
//! results are compared. Each measurement uses two processes of this executable (see [`endpoint`]). The report has the
//! median of the runs. The layer `sovia` runs the processes of the layer `tcp` with the library.

mod compare;
mod connections;
mod cpu_time;
mod cpus;
mod emp;
mod endpoint;
mod ftp;
mod idle;
mod layer;
mod link;
pub(crate) mod machine;
mod measure;
mod nic;
mod pace;
mod papers;
mod process;
mod ratio;
mod report;
mod rpc;
mod scenario;
mod series;
mod start;
mod task;

use anyhow::Context;
use clap::Subcommand;
use sovia_nic::OpenError;

use self::layer::Layer;
use self::machine::Machine;
use self::measure::{Measured, Measurer};
use self::nic::Places;
use self::series::Series;
use self::task::{Cpus, Scenario, Task, Wait};
use crate::measure::progress::Progress;
use crate::output::put_line;
use crate::usage::{usage, wrong};

pub(crate) use self::emp::{EndArgs as EmpEndArgs, end as emp_end};
pub(crate) use self::endpoint::{Args as EndpointArgs, endpoint};
pub(crate) use self::ftp::{EndArgs as FtpEndArgs, end as ftp_end};
pub(crate) use self::papers::plot::{Note, bars};
pub(crate) use self::rpc::{EndArgs as RpcEndArgs, end as rpc_end};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Half the round-trip time of a ping-pong with write() and read()
    Latency(Messages),
    /// Bandwidth of one stream, read into a buffer of 128 KB
    Bandwidth(Messages),
    /// Rate of small messages with TCP_NODELAY, in a one-way stream and as requests with responses
    Rate(Messages),
    /// Rate of connections that are set up, carry one byte each way and are closed
    Connect(Common),
    /// Short connections with a few small messages each way, over TCP and Sovia in turn
    Connections(connections::Args),
    /// Memory of many open connections, and round trips on the few busy ones
    Idle(idle::Args),
    /// Files sent by FTP from one folder in memory to another, over TCP and Sovia in turn
    Ftp(ftp::Args),
    /// EMP and TCP in turn between two network namespaces, measured as in the paper on EMP
    Emp(emp::Args),
    /// Time of Sun RPC calls by size of the argument, over TCP and Sovia in turn
    Rpc(rpc::Args),
    /// Time and address space that `sovia run` adds to the start of a program
    Start(start::Args),
    /// Processor time of a stream at 10 % and 50 % of TCP's peak bandwidth, with blocking calls
    Load(Load),
    /// Compare the ratios between layers in a stored run with the ratios in another run
    ///
    /// The command reports which ratios differ. Differences do not change the exit status.
    Compare(compare::Args),
    /// Describe this machine in one line of JSON, for a file of results
    Machine,
    #[command(flatten)]
    Papers(papers::What),
}

#[derive(clap::Args)]
struct Messages {
    /// Message sizes in bytes, separated by commas; K is 1024, M is 1024 x 1024
    #[arg(long, value_delimiter = ',', value_parser = parse_size, value_name = "BYTES")]
    size: Vec<usize>,
    /// How both ends wait for bytes
    #[arg(long, value_enum, default_value_t = Wait::Poll)]
    wait: Wait,
    /// Processors that the two ends run on [default: with `poll` one for each end; with `block` and `sleep` the kernel chooses]
    #[arg(long, value_enum)]
    cpus: Option<Cpus>,
    /// Place of the NICs for the layer `nic`: one place for both ends, or REQUESTER,RESPONDER. A place is
    /// udp:ADDRESS:PORT, eth:DEVICE, xdp:DEVICE, ofi:PROVIDER@ADDRESS, verbs:DEVICE or shm:NAME
    #[arg(long, value_name = "PLACE")]
    nic: Option<Places>,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
struct Load {
    /// Message sizes in bytes, separated by commas; K is 1024, M is 1024 x 1024
    #[arg(long, value_delimiter = ',', value_parser = parse_size, value_name = "BYTES")]
    size: Vec<usize>,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
struct Common {
    /// Number of runs; each result is the median of the runs
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seconds that one measurement takes
    #[arg(long, default_value_t = 0.3, value_parser = parse_seconds)]
    seconds: f64,
    /// Layers to measure, in this order, separated by commas [default: all layers of the scenario]
    #[arg(long, value_enum, value_delimiter = ',')]
    layers: Vec<Layer>,
    /// Run the two ends, and no other process, at this real-time priority (needs root)
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(i32).range(1..=99))]
    realtime: Option<i32>,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    json: bool,
}

/// A complete description of what to measure.
struct Plan {
    scenario: Scenario,
    wait: Wait,
    cpus: Cpus,
    nic: Option<Places>,
    sizes: Vec<usize>,
    layers: Vec<Layer>,
    runs: u32,
    seconds: f64,
    realtime: Option<i32>,
}

/// Measures and reports. Returns the exit status.
pub(crate) fn bench(args: Args) -> anyhow::Result<i32> {
    let (scenario, how) = match args.what {
        What::Latency(how) => (Scenario::Latency, how),
        What::Bandwidth(how) => (Scenario::Bandwidth, how),
        What::Rate(how) => (Scenario::Rate, how),
        What::Connect(common) => {
            let how =
                Messages { size: Vec::new(), wait: Wait::Block, cpus: None, nic: None, common };
            (Scenario::Connect, how)
        }
        What::Load(Load { size, common }) => {
            (Scenario::Load, Messages { size, wait: Wait::Block, cpus: None, nic: None, common })
        }
        What::Connections(args) => return connections::bench(&args),
        What::Idle(args) => return idle::bench(&args),
        What::Ftp(args) => return ftp::bench(&args),
        What::Emp(args) => return emp::bench(&args),
        What::Rpc(args) => return rpc::bench(&args),
        What::Start(args) => return start::bench(&args),
        What::Compare(args) => return compare::bench(&args),
        What::Machine => {
            let machine = Machine::this(cpus::two().unwrap_or((0, 0)));
            put_line!("{}", serde_json::to_string(&compare::MachineLine::new(&machine))?)?;
            return Ok(0);
        }
        What::Papers(what) => return papers::bench(&what),
    };
    let json = how.common.json;
    let measurer = Measurer::new();
    let plan = plan(&measurer, scenario, how)?;
    let series = run(&plan, &measurer)?;
    if json {
        report::json(&plan, &series)?;
    } else {
        report::table(&plan, &series)?;
    }
    Ok(0)
}

fn plan(measurer: &Measurer, scenario: Scenario, how: Messages) -> anyhow::Result<Plan> {
    let Messages { size: mut sizes, wait, cpus, nic, common } = how;
    if sizes.is_empty() {
        sizes = scenario.default_sizes().to_vec();
    }
    let mut possible = Layer::all_for(scenario, wait);
    match &nic {
        Some(places) if possible.contains(&Layer::Nic) => {
            places.probe().map_err(|error| match error {
                OpenError::Name(_) | OpenError::Provider(_) => usage(error),
                OpenError::System(_) => error.into(),
            })?
        }
        Some(_) => wrong!("`{scenario} --wait {wait}` has no layer `nic`"),
        None if common.layers.contains(&Layer::Nic) => {
            wrong!("the layer `nic` needs `--nic PLACE`")
        }
        None => possible.retain(|layer| *layer != Layer::Nic),
    }
    let mut layers = common.layers.clone();
    if let Some(layer) = layers.iter().find(|layer| !possible.contains(layer)) {
        wrong!("`{scenario} --wait {wait}` has no layer `{layer}`");
    }
    if layers.is_empty() {
        layers = possible;
        if let Some(why) = measurer.no_library() {
            eprintln!("sovia: the layer `sovia` is left out: {why}");
            layers.retain(|&layer| layer != Layer::Sovia);
        }
    }
    let cpus = cpus.unwrap_or(Cpus::default_for(wait));
    if (wait, cpus) == (Wait::Poll, Cpus::Together) {
        wrong!(
            "two ends that spin need a processor each: use `--cpus together` with `--wait block` or `--wait sleep`"
        );
    }
    let Common { runs, seconds, realtime, .. } = common;
    Ok(Plan { scenario, wait, cpus, nic, sizes, layers, runs, seconds, realtime })
}

fn run(plan: &Plan, measurer: &Measurer) -> anyhow::Result<Series> {
    let mut series = Series::default();
    let progress = Progress::of_runs(plan.runs, plan.sizes.len() * plan.layers.len());
    for _ in 0..plan.runs {
        for &size in &plan.sizes {
            let mut task = Task {
                scenario: plan.scenario,
                layer: Layer::Tcp,
                wait: plan.wait,
                cpus: plan.cpus,
                size_bytes: size,
                seconds: plan.seconds,
                realtime: plan.realtime,
                nic: plan.nic.clone(),
                peak: None,
            };
            if plan.scenario == Scenario::Load {
                task.peak = Some(peak(measurer, &task)?);
            }
            for &layer in &plan.layers {
                let task = Task { layer, ..task.clone() };
                progress.step(&format!("{} over {layer}, {size} bytes", plan.scenario));
                let Measured { figures, stayed } = measurer.measure(&task)?;
                series.add(size, layer, figures);
                // Short connections are expected to stay on TCP.
                if let Some(reasons) = stayed.filter(|_| plan.scenario != Scenario::Connect) {
                    series.add_stay(size, reasons);
                }
            }
        }
    }
    Ok(series)
}

/// Returns TCP's largest throughput in bytes a second.
fn peak(measurer: &Measurer, task: &Task) -> anyhow::Result<f64> {
    let measured = measurer.measure(&Task { scenario: Scenario::Bandwidth, ..task.clone() })?;
    let figure = measured.figures.first().context("cannot measure the bandwidth of TCP")?;
    Ok(figure.value * 1e9)
}

/// Upper bound of a message's size in bytes, because each message is in memory twice.
const SIZE_BYTES_MAX: usize = 1 << 30;

fn parse_size(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let size = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    size.filter(|size| (1..=SIZE_BYTES_MAX).contains(size))
        .ok_or_else(|| "expected a number of bytes from 1 to 1024M, such as 64 or 16K".to_owned())
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "expected a number of seconds from 0.01 to 3600".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("64"), Ok(64));
        assert_eq!(parse_size("16k"), Ok(16 << 10));
        assert_eq!(parse_size("2M"), Ok(2 << 20));
        for bad in ["", "K", "0", "-1", "1G", "2000M", "99999999999999999999K"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
