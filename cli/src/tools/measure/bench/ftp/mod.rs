//! `sovia bench ftp`: transfers files by FTP between two folders in memory, like the tables of the SOVIA papers.
//!
//! Server and clients are Debian's, unmodified. The layer `sovia` runs the programs of the layer `tcp` with the
//! library. The layer `sock-via` is the papers' way, if `scripts/papers-ftp` has built it: inetutils' programs, changed
//! to use SOCK_VIA for the data connection. The upper bound is a copy between two such folders on the same machine.

mod client;
mod server;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{env, process as this};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use serde::Serialize;
use sovia_cli::{Board, library};
use sovia_control::env as names;

use self::client::{Client, Way};
use super::parse_size;
use super::process::{self, Process};
use super::series::median;
use crate::measure::progress::Progress;
use crate::measure::table::{self, number};
use crate::output::put_line;

pub(crate) use server::{Args as EndArgs, run as end};

/// File sizes in bytes, and published results in Mbit/s: TCP over cLAN (LANE), and SOVIA (ICS'01, table 5, and
/// CLUSTER'01, table 1).
const PUBLISHED: [(usize, u32, u32); 4] = [
    (13_827_767, 288, 736),
    (19_090_223, 262, 573),
    (65_257_948, 256, 552),
    (145_864_380, 254, 532),
];

/// Carrier of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Layer {
    /// The kernel's TCP.
    Tcp,
    /// The programs of `Tcp` with the library.
    Sovia,
    /// Programs changed for libsovia.
    SockVia,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Sovia => "sovia",
            Self::SockVia => "sock-via",
        })
    }
}

/// Options of the measurement.
#[derive(clap::Args)]
pub(super) struct Args {
    /// File sizes in bytes, separated by commas; K is 1024, M is 1024 x 1024 [default: the sizes in the papers]
    #[arg(long, value_delimiter = ',', value_parser = parse_size, value_name = "BYTES")]
    size: Vec<usize>,
    /// FTP clients, separated by commas [default: all that are installed]
    #[arg(long, value_delimiter = ',')]
    client: Vec<Client>,
    /// Number of runs; each result is the median of the runs
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Folder with the unpacked Debian packages inetutils-ftpd and inetutils-ftp [default: the folder of `scripts/setup test`]
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    json: bool,
}

/// Results of a transfer.
struct Transfer {
    seconds: f64,
    accelerated: bool,
}

type Key = (usize, Client, Way, Layer);

#[derive(Serialize)]
struct Line {
    scenario: &'static str,
    size_bytes: usize,
    client: Client,
    way: Way,
    layer: Layer,
    runs: usize,
    median_mbit_s: f64,
    min_mbit_s: f64,
    max_mbit_s: f64,
    copy_mbit_s: f64,
    accelerated_runs: usize,
}

/// Measures and reports. Returns the exit status.
pub(super) fn bench(args: &Args) -> anyhow::Result<i32> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "cannot run bench ftp: the FTP server needs root to log a user in"
    );
    let programs = match &args.programs {
        Some(folder) => folder.clone(),
        None => unpacked()?,
    };
    let ftpd = programs.join("inetutils-ftpd/usr/sbin/ftpd");
    ensure!(
        ftpd.exists(),
        "cannot find {}: run `scripts/setup test`, or name the folder with --programs",
        ftpd.display()
    );
    let changed = |name| Some(programs.join("papers-ftp").join(name)).filter(|file| file.exists());
    let changed = changed("ftpd").zip(changed("ftp"));
    let clients = clients(args, &programs)?;
    let mut sizes = args.size.clone();
    if sizes.is_empty() {
        sizes.extend(PUBLISHED.map(|(size, ..)| size));
    }
    sizes.sort_unstable();
    sizes.dedup();
    let library = library::find()?;
    let mut seen: BTreeMap<Key, Vec<Transfer>> = BTreeMap::new();
    let mut copies: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let progress = Progress::of_runs(args.runs, sizes.len() * clients.len());
    for _ in 0..args.runs {
        for &size in &sizes {
            let folder = Folder::new(size)?;
            copies.entry(size).or_default().push(folder.copy()?);
            for (client, program) in &clients {
                progress.step(&format!("{size} bytes by {client}"));
                for layer in [Layer::Tcp, Layer::Sovia, Layer::SockVia] {
                    let (ftpd, program) = match (layer, client, &changed) {
                        (Layer::Tcp | Layer::Sovia, ..) => (&ftpd, program),
                        (Layer::SockVia, Client::InetutilsFtp, Some((ftpd, ftp))) => (ftpd, ftp),
                        (Layer::SockVia, ..) => continue,
                    };
                    let board = if layer == Layer::Tcp { None } else { Some(Board::new()?) };
                    let library = (layer == Layer::Sovia).then_some(library.as_path());
                    let mut round = Round::start(&folder, ftpd, board.as_ref(), library)?;
                    for way in [Way::Get, Way::Put] {
                        let transfer = round.transfer(*client, program, way)?;
                        seen.entry((size, *client, way, layer)).or_default().push(transfer);
                    }
                }
            }
        }
    }
    progress.finish();
    let copy = |size| median(copies.get(&size).cloned().unwrap_or_default());
    let lines: Vec<Line> =
        seen.iter().filter_map(|(&key, transfers)| line(key, transfers, copy(key.0)?)).collect();
    if args.json {
        for line in &lines {
            put_line!("{}", serde_json::to_string(line)?)?;
        }
    } else {
        print(&lines, args.runs)?;
    }
    Ok(0)
}

/// Returns the folder in which `scripts/setup` unpacks packages, beside this program's build.
fn unpacked() -> anyhow::Result<PathBuf> {
    let own = env::current_exe().context("cannot find the path of this program")?;
    let target = own.ancestors().nth(2).context("cannot find the build folder of this program")?;
    Ok(target.join("unpacked"))
}

/// Returns the clients to measure, with their paths.
fn clients(args: &Args, programs: &Path) -> anyhow::Result<Vec<(Client, PathBuf)>> {
    let asked = if args.client.is_empty() { Client::value_variants() } else { &args.client };
    let mut found = Vec::new();
    for &client in asked {
        match client.find(programs) {
            Some(program) => found.push((client, program)),
            None if args.client.is_empty() => {}
            None => bail!("cannot use the client {client}: not installed"),
        }
    }
    ensure!(!found.is_empty(), "cannot find an FTP client: install tnftp, inetutils-ftp or curl");
    Ok(found)
}

/// A folder in memory with a file for the server, and room for the received file.
struct Folder(PathBuf);

impl Folder {
    fn new(size: usize) -> anyhow::Result<Self> {
        let folder = Self(PathBuf::from(format!("/dev/shm/sovia-bench-ftp-{}", this::id())));
        fs::create_dir(&folder.0).with_context(|| format!("cannot make {}", folder.0.display()))?;
        // Every block is different.
        let mut file = File::create(folder.served())?;
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut block = vec![0; 1 << 16];
        let mut left = size;
        while left > 0 {
            for word in block.chunks_exact_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                word.copy_from_slice(&state.to_le_bytes());
            }
            let n = left.min(block.len());
            file.write_all(&block[..n]).context("cannot write the file to /dev/shm")?;
            left -= n;
        }
        Ok(folder)
    }

    fn served(&self) -> PathBuf {
        self.0.join("served")
    }

    fn came(&self) -> PathBuf {
        self.0.join("came")
    }

    /// Returns the time of a copy by reads and writes of 64 KB, in seconds.
    fn copy(&self) -> anyhow::Result<f64> {
        let (mut from, mut to) = (File::open(self.served())?, File::create(self.came())?);
        let mut block = vec![0; 1 << 16];
        let begun = Instant::now();
        loop {
            let n = from.read(&mut block)?;
            if n == 0 {
                return Ok(begun.elapsed().as_secs_f64());
            }
            to.write_all(&block[..n])?;
        }
    }

    /// Returns true if the received file is equal to the served one.
    fn is_whole(&self) -> anyhow::Result<bool> {
        let (mut one, mut other) = (File::open(self.served())?, File::open(self.came())?);
        if one.metadata()?.len() != other.metadata()?.len() {
            return Ok(false);
        }
        let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            let n = one.read(&mut left)?;
            if n == 0 {
                return Ok(true);
            }
            other.read_exact(&mut right[..n])?;
            if left[..n] != right[..n] {
                return Ok(false);
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If this fails, the files stay until the machine stops.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server process and its settings.
struct Round<'a> {
    folder: &'a Folder,
    library: Option<&'a Path>,
    board: Option<&'a Board>,
    port: u16,
    /// The server, which ends when this value is dropped.
    _server: Process,
}

impl<'a> Round<'a> {
    fn start(
        folder: &'a Folder,
        ftpd: &Path,
        board: Option<&'a Board>,
        library: Option<&'a Path>,
    ) -> anyhow::Result<Self> {
        let own = env::current_exe().context("cannot find the path of this program")?;
        let mut command = Command::new(own);
        process::without_library(&mut command);
        command.arg("ftp-end").arg(&folder.0).arg(ftpd);
        if let Some(library) = library {
            command.arg("--preload").arg(library::preload_value(library, None)?);
        }
        if let Some(board) = board {
            command.arg("--stats").arg(board.path());
        }
        let mut server = Process::start(&mut command)?;
        let port = server
            .line()
            .context("the server did not report its port")?
            .parse()
            .context("cannot read the server's port")?;
        Ok(Self { folder, library, board, port, _server: server })
    }

    fn accelerated(&self) -> u64 {
        self.board.map_or(0, |board| board.page().accelerated())
    }

    fn transfer(&mut self, client: Client, program: &Path, way: Way) -> anyhow::Result<Transfer> {
        let mut command =
            client.command(program, way, self.port, &self.folder.served(), &self.folder.came());
        process::without_library(&mut command);
        match (self.library, self.board) {
            (Some(library), Some(board)) => process::with_library(&mut command, library, board)?,
            // libsovia also counts on this page.
            (None, Some(board)) => _ = command.env(names::STATS, board.path()),
            (_, None) => {}
        }
        // Overwriting a file from a copy or an earlier transfer would take less time, so the file is removed first.
        match fs::remove_file(self.folder.came()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let before = self.accelerated();
        let said =
            client.run(&mut command, way, self.port, &self.folder.served(), &self.folder.came())?;
        ensure!(
            self.folder.is_whole()?,
            "{client} did not transfer the whole file ({way}); the client printed: {said}"
        );
        let size_bytes = fs::metadata(self.folder.served())?.len();
        let seconds = client.seconds(&said, size_bytes).with_context(|| {
            format!("cannot read the transfer time from what {client} printed: {said}")
        })?;
        Ok(Transfer { seconds, accelerated: self.accelerated() > before })
    }
}

fn line((size_bytes, client, way, layer): Key, transfers: &[Transfer], copy: f64) -> Option<Line> {
    let rate = |seconds: f64| size_bytes as f64 * 8e-6 / seconds;
    let rates: Vec<f64> = transfers.iter().map(|transfer| rate(transfer.seconds)).collect();
    Some(Line {
        scenario: "ftp",
        size_bytes,
        client,
        way,
        layer,
        runs: transfers.len(),
        min_mbit_s: rates.iter().copied().fold(f64::INFINITY, f64::min),
        max_mbit_s: rates.iter().copied().fold(0.0, f64::max),
        median_mbit_s: median(rates)?,
        copy_mbit_s: rate(copy),
        accelerated_runs: transfers.iter().filter(|transfer| transfer.accelerated).count(),
    })
}

fn print(lines: &[Line], runs: u32) -> anyhow::Result<()> {
    let header = [
        "bytes",
        "client",
        "way",
        "layer",
        "Mbit/s",
        "min",
        "max",
        "/ tcp",
        "/ copy",
        "accelerated",
        "published",
    ];
    let mut table = table::new(header.map(str::to_owned).to_vec(), &[1, 2, 3]);
    let mut tcp = None;
    for line in lines {
        if line.layer == Layer::Tcp {
            tcp = Some(line.median_mbit_s);
        }
        let published = PUBLISHED.iter().find(|(size, ..)| *size == line.size_bytes);
        table.add_row(vec![
            line.size_bytes.to_string(),
            line.client.to_string(),
            line.way.to_string(),
            line.layer.to_string(),
            number(Some(line.median_mbit_s)),
            number(Some(line.min_mbit_s)),
            number(Some(line.max_mbit_s)),
            number(tcp.map(|tcp| line.median_mbit_s / tcp)),
            number(Some(line.median_mbit_s / line.copy_mbit_s)),
            match line.layer {
                Layer::Tcp => String::new(),
                _ => format!("{} of {}", line.accelerated_runs, line.runs),
            },
            published.map_or_else(String::new, |&(_, tcp, sovia)| match line.layer {
                Layer::Tcp => tcp.to_string(),
                _ => sovia.to_string(),
            }),
        ]);
    }
    put_line!(
        "A file by FTP from one folder in memory to another (inetutils' ftpd, as inetd starts it). Medians of {runs} runs. Each \
         run measures all layers, one after the other.\nPublished: rates over TCP on cLAN (LANE), and over SOVIA. Published for a local copy: 580 to 611 and 538 Mbit/s.\n{table}"
    )?;
    let mut copies: Vec<(usize, f64)> =
        lines.iter().map(|line| (line.size_bytes, line.copy_mbit_s)).collect();
    copies.dedup();
    for (size, rate) in copies {
        put_line!("a local copy of {size} bytes: {} Mbit/s", number(Some(rate)))?;
    }
    Ok(())
}
