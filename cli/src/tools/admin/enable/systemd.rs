//! The systemd of this host, if it runs.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// A running systemd, which must be notified of changes.
pub(super) struct Systemd {
    runs: bool,
}

impl Systemd {
    /// Returns the systemd for the system at `root`. Only the running system has one.
    pub(super) fn of(root: &Path) -> Self {
        Self { runs: root == Path::new("/") && Path::new("/run/systemd/system").is_dir() }
    }

    /// Makes systemd read the units' files again.
    pub(super) fn reload(&self) -> anyhow::Result<()> {
        if self.runs { systemctl(&["daemon-reload"]) } else { Ok(()) }
    }

    /// Restarts a unit if it is running.
    pub(super) fn restart_if_running(&self, unit: &str) -> anyhow::Result<()> {
        if !self.runs {
            bail!("cannot restart units with --now: systemd does not run here");
        }
        systemctl(&["try-restart", "--", unit])
    }

    /// Returns the users of a running unit's processes. A server may run its workers as another user.
    pub(super) fn users(&self, unit: &str) -> BTreeSet<u32> {
        if !self.runs {
            return BTreeSet::new();
        }
        let mut show = Command::new("systemctl");
        let show = show.args(["show", "--property=ControlGroup", "--value", "--", unit]);
        let group = show.output().map(|output| output.stdout).unwrap_or_default();
        let group = String::from_utf8_lossy(&group).trim().to_owned();
        if group.is_empty() {
            return BTreeSet::new();
        }
        let list = format!("/sys/fs/cgroup{group}/cgroup.procs");
        users_of(&std::fs::read_to_string(list).unwrap_or_default())
    }
}

/// Returns the owners of processes, whose IDs are on one line each.
fn users_of(ids: &str) -> BTreeSet<u32> {
    let owner = |id: &str| Path::new("/proc").join(id.trim()).metadata().ok().map(|of| of.uid());
    ids.lines().filter_map(owner).collect()
}

fn systemctl(arguments: &[&str]) -> anyhow::Result<()> {
    let line = || format!("systemctl {}", arguments.join(" "));
    let status = Command::new("systemctl").args(arguments).status().with_context(line)?;
    if !status.success() {
        bail!("{}: {status}", line());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_those_of_processes_that_are_there() {
        let own = nix::unistd::geteuid().as_raw();
        assert_eq!(users_of(&format!("{}\n999999999\n", std::process::id())), [own].into());
        assert!(users_of("").is_empty());
    }
}
