//! One process of a measurement, as the one that started it sees it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};

/// A process of a measurement; does not outlive it.
pub(super) struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Process {
    /// Starts it, with its output for us and no input.
    pub(super) fn start(command: &mut Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start a process for the measurement")?;
        let out = child.stdout.take().context("no output of the process")?;
        Ok(Self { child, out: BufReader::new(out) })
    }

    /// A line of its output.
    pub(super) fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.out.read_line(&mut line)? > 0, "it ended");
        Ok(line.trim_end().to_owned())
    }

    /// The rest of its output, once it has closed it.
    pub(super) fn rest(&mut self) -> anyhow::Result<String> {
        let mut text = String::new();
        self.out.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Waits for its end, which is to be a good one.
    pub(super) fn end(&mut self) -> anyhow::Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "{status}");
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
