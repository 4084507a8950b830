//! The systemd that runs here, if it does.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// What there is to tell of a change.
pub(super) struct Systemd {
    runs: bool,
}

impl Systemd {
    /// That of the system with this root: none but of this one.
    pub(super) fn of(root: &Path) -> Self {
        Self { runs: root == Path::new("/") && Path::new("/run/systemd/system").is_dir() }
    }

    /// Has it read its units' files again.
    pub(super) fn reload(&self) -> anyhow::Result<()> {
        if self.runs { systemctl(&["daemon-reload"]) } else { Ok(()) }
    }

    /// Restarts a unit; one that does not run is left alone.
    pub(super) fn restart_if_running(&self, unit: &str) -> anyhow::Result<()> {
        if !self.runs {
            bail!("--now: systemd does not run here");
        }
        systemctl(&["try-restart", "--", unit])
    }
}

fn systemctl(arguments: &[&str]) -> anyhow::Result<()> {
    let line = || format!("systemctl {}", arguments.join(" "));
    let status = Command::new("systemctl").args(arguments).status().with_context(line)?;
    if !status.success() {
        bail!("{}: {status}", line());
    }
    Ok(())
}
