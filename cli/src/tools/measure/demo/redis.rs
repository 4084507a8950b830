//! A Redis server for the demonstration, and Redis's own benchmark.

use std::env;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use sovia_control::env as names;

use super::Way;
use super::service::{Service, output};
use super::workload::{Outcome, Workload, parse};
use sovia_cli::{Board, library};

/// Returns the path of a Redis program, in PATH or in the folders of root's PATH.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// A server that stores nothing, on a port or socket of its own.
pub(super) struct Redis<'a> {
    way: Way,
    place: Place,
    board: &'a Board,
    _service: Service,
}

enum Place {
    Port(u16),
    Socket(PathBuf),
}

impl Place {
    fn is_reachable(&self) -> bool {
        match self {
            Self::Port(port) => TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_ok(),
            Self::Socket(path) => UnixStream::connect(path).is_ok(),
        }
    }
}

impl<'a> Redis<'a> {
    /// Starts a server in `folder`. Its connections over Sovia are counted on `board`.
    pub(super) fn start(way: Way, folder: &Path, board: &'a Board) -> anyhow::Result<Self> {
        let place = match way {
            Way::Unix => Place::Socket(folder.join("redis.sock")),
            Way::Tcp | Way::Sovia => Place::Port(free_port()?),
        };
        let mut command = command(way, "redis-server", board)?;
        command.args([
            "--save",
            "",
            "--appendonly",
            "no",
            "--daemonize",
            "no",
            "--bind",
            "127.0.0.1",
        ]);
        command.arg("--dir").arg(folder);
        match &place {
            Place::Port(port) => command.args(["--port", &port.to_string()]),
            Place::Socket(path) => command.args(["--port", "0", "--unixsocket"]).arg(path),
        };
        let service = Service::start(command, || place.is_reachable())
            .with_context(|| format!("redis-server over {}", way.name()))?;
        Ok(Self { way, place, board, _service: service })
    }

    pub(super) fn way(&self) -> Way {
        self.way
    }

    /// Runs the benchmark against the server, with `requests` requests for each test.
    pub(super) fn benchmark(
        &self,
        workload: Workload,
        requests: u64,
    ) -> anyhow::Result<Vec<Outcome>> {
        let mut command = command(self.way, "redis-benchmark", self.board)?;
        command.args(workload.arguments(requests)).stderr(Stdio::null());
        match &self.place {
            Place::Port(port) => command.args(["-h", "127.0.0.1", "-p", &port.to_string()]),
            Place::Socket(path) => command.arg("-s").arg(path),
        };
        output(command)
            .and_then(|text| parse(&text))
            .with_context(|| format!("redis-benchmark over {}", self.way.name()))
    }
}

/// Returns the command for a program, alone or under `sovia run`.
fn command(way: Way, program: &str, board: &Board) -> anyhow::Result<Command> {
    let path = find(program).with_context(|| format!("{program} is not installed"))?;
    let mut command = if way == Way::Sovia {
        let mut command = Command::new(library::beside("sovia")?);
        command.args(["run", "--"]).arg(path).env(names::STATS, board.path());
        command
    } else {
        let mut command = Command::new(path);
        command.env_remove("LD_PRELOAD");
        command
    };
    command.env_remove(names::RULES);
    Ok(command)
}

fn free_port() -> anyhow::Result<u16> {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot find a free port")?;
    Ok(probe.local_addr()?.port())
}
