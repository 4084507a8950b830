//! One measurement: its two processes, their resources and their output.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use nix::sys::eventfd::{EfdFlags, EventFd};
use sovia_control::{Reason, StatsPage, env as names};

use super::cpus;
use super::layer::Layer;
use super::link::region::Region;
use super::process::{self, Process};
use super::task::{Cpus, Errand, Figure, Role, Task, Wait};
use sovia_cli::{Board, library};

/// Starts the processes of measurements.
pub(super) struct Measurer {
    library: anyhow::Result<PathBuf>,
    cpus: Option<(usize, usize)>,
}

/// Results of a measurement.
pub(super) struct Measured {
    pub(super) figures: Vec<Figure>,
    /// Reasons why the connection stayed on TCP, if it did in spite of the layer `sovia`.
    pub(super) stayed: Option<Vec<Reason>>,
}

impl Measurer {
    pub(super) fn new() -> Self {
        Self { library: library::find(), cpus: cpus::two() }
    }

    /// Returns the reason why the layer `sovia` cannot be measured, if there is one.
    pub(super) fn no_library(&self) -> Option<&anyhow::Error> {
        self.library.as_ref().err()
    }

    /// Runs one pair of processes to its end.
    pub(super) fn measure(&self, task: &Task) -> anyhow::Result<Measured> {
        let (wait, cpus) = (task.layer.wait(task.wait), task.layer.cpus(task.cpus));
        let task = Task { wait, cpus, ..task.clone() };
        let board = if task.layer == Layer::Sovia { Some(Board::new()?) } else { None };
        let figures = self.pair(&task, board.as_ref()).with_context(|| {
            format!(
                "cannot measure {} over {} with {} bytes",
                task.scenario, task.layer, task.size_bytes
            )
        })?;
        let stayed = board.and_then(|board| reasons(board.page()));
        Ok(Measured { figures, stayed })
    }

    fn pair(&self, task: &Task, board: Option<&Board>) -> anyhow::Result<Vec<Figure>> {
        // The files are dropped, and so closed in this process, when both processes have ended.
        let (_kept, place) = place(task.layer)?;
        let mut responder = self.start(task, Role::Responder, place.clone(), board)?;
        let place = match place {
            Some(place) => place,
            None => responder.line().context("the responder did not report its address")?,
        };
        let mut requester = self.start(task, Role::Requester, Some(place), board)?;
        process::bind(&requester, &responder)?;
        let text = requester.rest()?;
        requester.end().context("the requester failed")?;
        responder.end().context("the responder failed")?;
        serde_json::from_str(&text).context("cannot read the results")
    }

    fn start(
        &self,
        task: &Task,
        role: Role,
        place: Option<String>,
        board: Option<&Board>,
    ) -> anyhow::Result<Process> {
        let cpu = self.cpus.and_then(|(first, second)| match (task.cpus, role) {
            (Cpus::Free, _) => None,
            (Cpus::Together, _) | (Cpus::Apart, Role::Requester) => Some(first),
            (Cpus::Apart, Role::Responder) => Some(second),
        });
        let errand = serde_json::to_string(&Errand { task: task.clone(), role, cpu, place })?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["endpoint", &errand]);
        process::without_library(&mut command);
        if let Some(board) = board {
            let library = self.library.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
            process::with_library(&mut command, library, board)?;
            if task.wait == Wait::Sleep {
                command.env(names::SPIN, "0");
            }
        }
        Process::start(&mut command)
    }
}

/// Returns the reasons why all connections stayed on TCP; `None` if one did not.
fn reasons(page: &StatsPage) -> Option<Vec<Reason>> {
    let counted = || Reason::ALL.iter().copied().filter(|&reason| page.stayed_for(reason) > 0);
    (page.accelerated() == 0).then(|| counted().collect())
}

/// Returns the files that both processes inherit, and their numbers as text. Returns nothing if the responder chooses
/// an address.
fn place(layer: Layer) -> anyhow::Result<(Vec<File>, Option<String>)> {
    let files = match layer {
        Layer::Ring => vec![Region::file()?],
        Layer::Eventfd => {
            let make = || EventFd::from_value_and_flags(0, EfdFlags::empty());
            vec![
                File::from(std::os::fd::OwnedFd::from(make()?)),
                File::from(std::os::fd::OwnedFd::from(make()?)),
            ]
        }
        Layer::Via | Layer::Nic | Layer::Tcp | Layer::Unix | Layer::Sovia => {
            return Ok((Vec::new(), None));
        }
    };
    let numbers: Vec<_> = files.iter().map(|file| file.as_raw_fd().to_string()).collect();
    Ok((files, Some(numbers.join(","))))
}
