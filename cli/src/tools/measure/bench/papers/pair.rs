//! Starts the two processes of a part, and reads their results.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use sovia_cli::{Board, library};
use sovia_control::env as names;

use super::hosts::Hosts;
use super::lanes::Lanes;
use super::net::{LinkKind, Net};
use super::work::{End, Errand, Metric, Part, Reading, Way, Work};
use crate::measure::bench::cpus;
use crate::measure::bench::measure::Measurer;
use crate::measure::bench::process::{self, Process};
use crate::measure::bench::task::{self, Cpus, Role, Task, Wait};

/// Time that a failed process gets to print its error.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Starts the processes of parts.
pub(super) struct Pairs {
    cpus: (usize, usize),
    /// Measures parts that are scenarios of `sovia bench`.
    layers: Measurer,
    /// Hosts for parts between hosts, by their link.
    hosts: BTreeMap<LinkKind, Hosts>,
}

impl Pairs {
    /// Chooses the ends' processors. Fails if there is only one, because spinning ends need one each.
    pub(super) fn new() -> anyhow::Result<Self> {
        let cpus = cpus::two()
            .context("two ends that spin need two processors, and this machine has one")?;
        Ok(Self { cpus, layers: Measurer::new(), hosts: BTreeMap::new() })
    }

    /// Makes the missing hosts for parts.
    ///
    /// Fails without root's rights.
    pub(super) fn add_hosts<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a Part>,
    ) -> anyhow::Result<()> {
        for link in parts.filter_map(|part| Some(part.net?.link)) {
            if let Entry::Vacant(place) = self.hosts.entry(link) {
                place.insert(Hosts::new(link)?);
            }
        }
        Ok(())
    }

    /// Checks that messages can travel in this way on this network. The error has the reason if not.
    pub(super) fn probe(&self, net: Net, way: Way) -> anyhow::Result<()> {
        let hosts = self.hosts(net.link)?;
        if let Some(port) = net.port {
            hosts.probe(port)?;
        }
        if way == Way::Lane {
            Lanes::start(hosts, net)?;
        }
        Ok(())
    }

    fn hosts(&self, link: LinkKind) -> anyhow::Result<&Hosts> {
        self.hosts.get(&link).context("no such hosts")
    }

    /// Returns the processors of the two ends.
    pub(super) fn cpus(&self) -> (usize, usize) {
        self.cpus
    }

    /// Runs a part once.
    pub(super) fn run(&self, part: &Part) -> anyhow::Result<Vec<Reading>> {
        let readings = match part.work {
            Work::Layer { scenario, layer, size } => {
                let (wait, cpus) = (part.wait, part.cpus);
                // A rate consists of two measurements.
                let seconds = part.seconds * 4.0;
                self.layer(&Task {
                    scenario,
                    layer,
                    wait,
                    cpus,
                    size_bytes: size,
                    seconds,
                    realtime: None,
                    nic: None,
                    peak: None,
                })
            }
            _ => self.pair(part),
        };
        readings.with_context(|| format!("{}: {}", part.scenario, part.series))
    }

    fn pair(&self, part: &Part) -> anyhow::Result<Vec<Reading>> {
        // The lanes exist while the part runs.
        let _lanes = match part.net {
            Some(net) if part.way == Way::Lane => Some(Lanes::start(self.hosts(net.link)?, net)?),
            _ => None,
        };
        let board = match part.way {
            Way::Run => Some((Board::new()?, library::find()?)),
            Way::Native => Some((Board::new()?, PathBuf::new())),
            _ => None,
        };
        let board = board.as_ref().map(|(board, library)| (board, library.as_path()));
        let mut responder = self.start(part, Role::Responder, None, board)?;
        let place = responder.line().context("the responder did not report its address")?;
        let mut requester = self.start(part, Role::Requester, Some(place), board)?;
        process::bind(&requester, &responder)?;
        let figures = Self::figures(&mut requester, &mut responder);
        if figures.is_err() {
            // Both processes print their own errors. The other process may not have printed its error yet.
            std::thread::sleep(LAST_WORDS);
        }
        if figures.is_ok()
            && let Some((board, _)) = board
        {
            ensure!(board.page().accelerated() > 0, "the connection stayed on TCP");
        }
        figures
    }

    fn figures(requester: &mut Process, responder: &mut Process) -> anyhow::Result<Vec<Reading>> {
        let mut all = Vec::new();
        for (end, name) in [(requester, "requester"), (responder, "responder")] {
            let text = end.rest()?;
            end.end().with_context(|| format!("the {name} failed"))?;
            let readings: Vec<Reading> =
                serde_json::from_str(&text).context("cannot read the results")?;
            all.extend(readings);
        }
        Ok(all)
    }

    fn start(
        &self,
        part: &Part,
        role: Role,
        place: Option<String>,
        board: Option<(&Board, &Path)>,
    ) -> anyhow::Result<Process> {
        let cpu = match (part.cpus, role) {
            (Cpus::Free, _) => None,
            (Cpus::Together, _) | (Cpus::Apart, Role::Requester) => Some(self.cpus.0),
            (Cpus::Apart, Role::Responder) => Some(self.cpus.1),
        };
        let namespace = match part.net {
            Some(net) => Some(self.hosts(net.link)?.path(role)),
            None => None,
        };
        let errand = Errand { part: part.clone(), role, cpu, place, namespace };
        let errand = serde_json::to_string(&errand)?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["endpoint", "--papers", &errand]);
        process::without_library(&mut command);
        command.env_remove(names::PROTOCOL);
        if let Some((board, library)) = board {
            match part.way {
                Way::Run => process::with_library(&mut command, library, board)?,
                _ => drop(command.env(names::STATS, board.path())),
            }
            if let Some(protocol) = &part.configuration {
                command.env(names::PROTOCOL, protocol);
            }
            if part.wait == Wait::Sleep {
                command.env(names::SPIN, "0");
            }
        }
        Process::start(&mut command)
    }

    fn layer(&self, task: &Task) -> anyhow::Result<Vec<Reading>> {
        let measured = self.layers.measure(task)?;
        let reading = |figure: &task::Figure| {
            let (metric, value) = match figure.metric {
                task::Metric::HalfRoundTrip => (Metric::HalfTrip, figure.value),
                // Converts from GB/s.
                task::Metric::Bandwidth => (Metric::Throughput, figure.value * 8e3),
                task::Metric::Messages => (Metric::Rate, figure.value),
                task::Metric::Transactions
                | task::Metric::Connections
                | task::Metric::CpuAtTenth
                | task::Metric::CpuAtHalf => return None,
            };
            let x = task.size_bytes as u64;
            Some(Reading { end: End::Requester, metric, x, off: 0, value })
        };
        Ok(measured.figures.iter().filter_map(reading).collect())
    }
}
