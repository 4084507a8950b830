//! `sovia bench emp`: measures EMP between two hosts, like EMP's paper.
//!
//! The hosts are network namespaces joined by veth devices. TCP runs on the same devices, and takes turns with EMP.
//! Each end is a process with a processor of its own. A NIC's thread shares the other end's processor, unless there are
//! four processors.

mod carrier;
mod play;
mod published;
mod report;

use std::process::Command;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use self::carrier::{Carrier, Open, Way};
use self::play::{Reading, Task};
use super::cpus;
use super::papers::hosts::Hosts;
use super::papers::net::{self, LinkKind, Port};
use super::process::{self, Process, WATCHDOG_SECONDS};
use super::task::Role;
use crate::measure::progress::Progress;
use crate::output::{self, put_line};

/// Options of the measurement.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Carrier of EMP's frames: udp, eth or xdp
    #[arg(long, default_value = "eth", value_parser = parse_port)]
    port: Port,
    /// Variants of TCP and EMP to measure in turn, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    way: Vec<Way>,
    /// Number of runs; each result is the median of the runs
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Number of repetitions of each measured point
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(10..))]
    repetitions: u32,
    /// MTU of the devices, in bytes
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(300..=9000))]
    mtu: u32,
    /// Let the device split TCP's segments, as today's network cards do and the paper's cards did not
    #[arg(long)]
    offloads: bool,
    /// Print one JSON object per line instead of tables
    #[arg(long)]
    json: bool,
}

/// Arguments of one end's process.
#[derive(clap::Args)]
pub(crate) struct EndArgs {
    errand: String,
}

/// Task of one end's process.
#[derive(Serialize, Deserialize)]
struct Errand {
    way: Way,
    port: String,
    namespace: String,
    cpu: usize,
    /// Processor of the NIC's thread. `is_nic_alone` is true if no end shares this processor.
    nic: u32,
    is_nic_alone: bool,
    /// Address of the responder, for the requester.
    place: Option<String>,
    tasks: Vec<Task>,
}

/// Message sizes of figure 5, closer together where the paper's frame or page is full.
const SIZES: [usize; 32] = [
    4, 64, 128, 256, 512, 768, 1024, 1280, 1400, 1440, 1460, 1480, 1500, 1520, 1560, 1600, 2048,
    2560, 2900, 3072, 3584, 4000, 4096, 4200, 4500, 5120, 6144, 8192, 10_240, 16_384, 32_768,
    65_536,
];
/// Computing times per batch in figure 6, in microseconds.
const WORK_US: [f64; 9] = [0.0, 25.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0, 3200.0];

/// Parses the name of a port that carries frames. libfabric is no such port, because it carries messages.
fn parse_port(text: &str) -> Result<Port, String> {
    let ports = Port::ALL.into_iter().filter(|port| *port != Port::Ofi);
    let mut found = ports.filter(|port| port.name() == text);
    found.next().ok_or_else(|| "expected udp, eth or xdp".to_owned())
}

/// Measures and reports. Returns the exit status.
pub(super) fn bench(args: &Args) -> anyhow::Result<i32> {
    let cpus =
        cpus::two().context("two ends that spin need two processors, and this machine has one")?;
    let hosts = Hosts::new(LinkKind { mtu: args.mtu, offloads: args.offloads })?;
    let ways = match args.way.as_slice() {
        [] => vec![Way::Tcp, Way::TcpPoll, Way::EmpCalls, Way::EmpThread],
        ways => ways.to_vec(),
    };
    let mut seen = report::Seen::default();
    let progress = Progress::of_runs(args.runs, ways.len());
    for _ in 0..args.runs {
        for &way in &ways {
            progress.step(way.name());
            for reading in round(args, &hosts, cpus, way)? {
                seen.add(way, reading);
            }
        }
    }
    progress.finish();
    let mut out = String::new();
    if args.json {
        seen.json(&mut out)?
    } else {
        seen.print(&mut out, args, &ways, nic_of(cpus))?
    }
    output::put(out)?;
    Ok(0)
}

/// Returns the processors for the NICs' threads: free ones if there are two. Otherwise each NIC gets the other end's
/// processor. On its own end's processor it would run in the middle of the call that has posted a request.
fn nic_of(cpus: (usize, usize)) -> [u32; 2] {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let mut free = (0..all).filter(|&cpu| cpu != cpus.0 && cpu != cpus.1);
    match (free.next(), free.next()) {
        (Some(one), Some(other)) => [one as u32, other as u32],
        _ => [cpus.1 as u32, cpus.0 as u32],
    }
}

fn tasks(repetitions: u32) -> Vec<Task> {
    let count = |size: usize| repetitions.min((400_000_000 / size.max(1)) as u32).max(10);
    let ping_pongs = SIZES.iter().map(|&size| Task::PingPong { size, count: count(size) });
    let streams = SIZES.iter().map(|&size| Task::Stream { size, count: count(size) });
    let batches = WORK_US.iter().map(|&work_us| {
        let count = (repetitions / 10).clamp(50, 1000);
        Task::Batches { work_us, count }
    });
    ping_pongs.chain(streams).chain(batches).collect()
}

/// Runs both ends as processes. Returns the requester's readings.
fn round(
    args: &Args,
    hosts: &Hosts,
    cpus: (usize, usize),
    way: Way,
) -> anyhow::Result<Vec<Reading>> {
    let nics = nic_of(cpus);
    let start = |role: Role, place: Option<String>| {
        let (cpu, nic) = match role {
            Role::Requester => (cpus.0, nics[0]),
            Role::Responder => (cpus.1, nics[1]),
        };
        let errand = Errand {
            way,
            port: args.port.name().to_owned(),
            namespace: hosts.path(role),
            cpu,
            nic,
            is_nic_alone: ![cpus.0, cpus.1].contains(&(nic as usize)),
            place,
            tasks: tasks(args.repetitions),
        };
        let mut command = Command::new("/proc/self/exe");
        command.arg("emp-end").arg(serde_json::to_string(&errand)?);
        process::without_library(&mut command);
        Process::start(&mut command)
    };
    let mut responder = start(Role::Responder, None)?;
    let place = responder.line().context("the responder did not report its address")?;
    let mut requester = start(Role::Requester, Some(place))?;
    process::bind(&requester, &responder)?;
    let text = requester.rest()?;
    requester.end().with_context(|| format!("the requester failed (layer {})", way.name()))?;
    responder.end().with_context(|| format!("the responder failed (layer {})", way.name()))?;
    Ok(serde_json::from_str(&text)?)
}

/// Runs an end. Returns the exit status.
pub(crate) fn end(args: &EndArgs) -> anyhow::Result<i32> {
    nix::unistd::alarm::set(WATCHDOG_SECONDS);
    let errand: Errand = serde_json::from_str(&args.errand)
        .context("cannot read the task of this benchmark process")?;
    net::enter(&errand.namespace)?;
    cpus::pin(errand.cpu)?;
    let port = Port::ALL
        .into_iter()
        .find(|port| port.name() == errand.port)
        .context("expected udp, eth or xdp as the carrier of EMP's frames")?;
    let nic = (errand.nic, errand.is_nic_alone);
    let (role, mut carrier) = match &errand.place {
        Some(place) => (Role::Requester, Carrier::connect(errand.way, port, nic, place)?),
        None => {
            let open = Open::new(errand.way, port, Role::Responder, nic)?;
            put_line!("{}", open.place()?)?;
            (Role::Responder, open.accept()?)
        }
    };
    meet(&mut carrier, role)?;
    let readings = play::play(&mut carrier, role, &errand.tasks)?;
    // Makes sure that the last message is acknowledged before either end closes.
    meet(&mut carrier, role)?;
    if role == Role::Requester {
        put_line!("{}", serde_json::to_string(&readings)?)?;
    }
    Ok(0)
}

/// Exchanges a message in each direction, the requester's first. Then both ends know that the other one is there.
fn meet(carrier: &mut Carrier, role: Role) -> anyhow::Result<()> {
    carrier.post_receive(1)?;
    if role == Role::Requester {
        carrier.post_send(1)?;
        carrier.wait_receive()?;
    } else {
        carrier.wait_receive()?;
        carrier.post_send(1)?;
    }
    carrier.wait_sends(0)
}
