//! `sovia bench connections`: short request-response connections, TCP and Sovia in pairs.
//!
//! A point is a number of clients, a number of messages on each connection, and TCP_NODELAY at neither end, one or
//! both. Each client makes one connection after the other. Each run measures each point over TCP and over Sovia, as a
//! pair. The report has the median of the pairs' ratios, and its spread. The processor time of both ends shows a
//! connection's cost even if other programs disturb the measured times.

mod play;
mod report;

use std::process::Command;

use anyhow::Context;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::process::{self, Process};
use crate::measure::progress::Progress;
use sovia_cli::{Board, library};

pub(super) use self::play::endpoint;

/// Options of the measurement.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Messages in each direction on a connection: numbers, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1,3,5,10,30,100", value_parser = clap::value_parser!(u32).range(1..))]
    messages: Vec<u32>,
    /// Clients that make connections at the same time: numbers, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1,8", value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: Vec<u32>,
    /// Ends that set TCP_NODELAY, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "neither,client,server,both")]
    nodelay: Vec<Nodelay>,
    /// Bytes in a message of the client
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65536))]
    size: u32,
    /// Sizes of the server's answer in bytes, separated by commas [default: size of the client's message]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    answer: Vec<u32>,
    /// Let the server close the connection after its last answer, as in HTTP without keep-alive. The client reads until
    /// the end of the stream
    #[arg(long)]
    server_closes: bool,
    /// Before the measurement, each client exchanges this many messages on an extra connection, so that client and
    /// server find each other. 0: no extra connection
    #[arg(long, default_value_t = 0)]
    warm: u32,
    /// Other processes, each with one open, idle connection to the server
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1000))]
    peers: u32,
    /// Number of pairs of measurements, TCP and Sovia, of each point; each result is the median of the pairs
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seconds that one measurement takes
    #[arg(long, default_value_t = 0.3, value_parser = super::parse_seconds)]
    seconds: f64,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    json: bool,
}

/// Which ends set TCP_NODELAY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Nodelay {
    Neither,
    Client,
    Server,
    Both,
}

impl Nodelay {
    /// Returns the name on the command line and in the table.
    fn name(self) -> &'static str {
        match self {
            Self::Neither => "neither",
            Self::Client => "client",
            Self::Server => "server",
            Self::Both => "both",
        }
    }

    fn at_client(self) -> bool {
        matches!(self, Self::Client | Self::Both)
    }

    fn at_server(self) -> bool {
        matches!(self, Self::Server | Self::Both)
    }
}

/// Parameters of a measurement with two processes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Point {
    clients: u32,
    nodelay: Nodelay,
    messages: u32,
    size: u32,
    answer: u32,
    server_closes: bool,
    warm: u32,
    peers: u32,
    seconds: f64,
}

/// Role of a process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Role {
    /// Serves connections, and prints its port.
    Server,
    /// Makes connections to this port, and prints its results.
    Client(u16),
    /// Holds one connection to this port. Prints a line when the connection is idle.
    Peer(u16),
}

/// Task of a process.
#[derive(Debug, Serialize, Deserialize)]
struct Errand {
    point: Point,
    role: Role,
}

/// Results of a client process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Figures {
    connections: u64,
    seconds: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

/// Resources that a process has used.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Usage {
    cpu_us: f64,
    switches: u64,
}

/// Results of a measurement, from both ends.
#[derive(Clone, Copy, Debug, Serialize)]
struct Measured {
    connections_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    /// Processor time of both ends per connection.
    cpu_us: f64,
    /// Context switches of both ends per connection.
    switches: f64,
    /// Number of ends that left TCP, per connection.
    accelerated: f64,
}

/// Results of TCP and of Sovia, measured one after the other.
#[derive(Clone, Copy, Debug)]
struct Pair {
    tcp: Measured,
    sovia: Measured,
}

/// Measures and reports. Returns the exit status.
pub(super) fn bench(args: &Args) -> anyhow::Result<i32> {
    let as_messages = [args.size];
    let answers = if args.answer.is_empty() { &as_messages } else { &args.answer[..] };
    let mut points = Vec::new();
    for &clients in &args.clients {
        for &nodelay in &args.nodelay {
            for &messages in &args.messages {
                for &answer in answers {
                    let &Args { size, server_closes, warm, peers, seconds, .. } = args;
                    points.push(Point {
                        clients,
                        nodelay,
                        messages,
                        size,
                        answer,
                        server_closes,
                        warm,
                        peers,
                        seconds,
                    });
                }
            }
        }
    }
    let mut pairs: Vec<Vec<Pair>> = vec![Vec::new(); points.len()];
    let progress = Progress::of_runs(args.runs, points.len());
    for run in 0..args.runs {
        for (point, pairs) in points.iter().zip(&mut pairs) {
            progress.step("connections");
            // TCP and Sovia alternate in being first.
            let first = measure(*point, run % 2 == 1)?;
            let second = measure(*point, run % 2 == 0)?;
            let (tcp, sovia) = if run % 2 == 0 { (first, second) } else { (second, first) };
            pairs.push(Pair { tcp, sovia });
        }
    }
    progress.finish();
    report::print(&points, &pairs, args.json)?;
    Ok(0)
}

fn measure(point: Point, accelerated: bool) -> anyhow::Result<Measured> {
    let board = if accelerated { Some(Board::new()?) } else { None };
    let mut server = start(&Errand { point, role: Role::Server }, board.as_ref())?;
    let port = server.line().context("the server process did not report its address")?.parse()?;
    let peers = (0..point.peers).map(|_| {
        let mut peer = start(&Errand { point, role: Role::Peer(port) }, board.as_ref())?;
        peer.line().context("an idle process failed")?;
        anyhow::Ok(peer)
    });
    let peers = peers.collect::<anyhow::Result<Vec<_>>>()?;
    let before = board.as_ref().map_or(0, |board| board.page().accelerated());
    let mut client = start(&Errand { point, role: Role::Client(port) }, board.as_ref())?;
    process::bind(&client, &server)?;
    let figures: Figures = serde_json::from_str(&client.line()?)?;
    // The server ends after its last connection.
    drop(peers);
    let mut usage = Vec::new();
    for process in [&mut client, &mut server] {
        usage.push(serde_json::from_str::<Usage>(&process.line()?)?);
        process.end().context("a benchmark process (client or server) failed")?;
    }
    let ends = board.map_or(0, |board| board.page().accelerated()) - before;
    let each = figures.connections as f64;
    Ok(Measured {
        connections_per_second: each / figures.seconds,
        p50_us: figures.p50_us,
        p99_us: figures.p99_us,
        max_us: figures.max_us,
        cpu_us: usage.iter().map(|usage| usage.cpu_us).sum::<f64>() / each,
        switches: usage.iter().map(|usage| usage.switches).sum::<u64>() as f64 / each,
        accelerated: ends as f64 / each,
    })
}

fn start(errand: &Errand, board: Option<&Board>) -> anyhow::Result<Process> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["endpoint", "--connections", &serde_json::to_string(errand)?]);
    process::without_library(&mut command);
    if let Some(board) = board {
        process::with_library(&mut command, &library::find()?, board)?;
    }
    Process::start(&mut command)
}
