//! Processes of the demonstration: none outlives it, none is waited for for ever.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// How long a server may take to listen.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How long a client may take.
const RUN_LIMIT: Duration = Duration::from_secs(120);

/// A server; ended with the value.
pub(super) struct Service {
    child: Child,
}

impl Service {
    /// Starts it and waits until `is_ready`.
    pub(super) fn start(mut command: Command, is_ready: impl Fn() -> bool) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut service = Self { child: command.spawn().context("cannot start the server")? };
        let start = Instant::now();
        while !is_ready() {
            if let Some(status) = service.child.try_wait()? {
                bail!("the server ended early: {status}");
            }
            ensure!(start.elapsed() < START_LIMIT, "the server did not start to listen in time");
            sleep(Duration::from_millis(20));
        }
        Ok(service)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Both fail where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a client to its end; returns what it wrote, which is little.
pub(super) fn output(mut command: Command) -> anyhow::Result<String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut client = Service { child: command.spawn().context("cannot start the client")? };
    let start = Instant::now();
    let status = loop {
        if let Some(status) = client.child.try_wait()? {
            break status;
        }
        ensure!(start.elapsed() < RUN_LIMIT, "the client did not end in time");
        sleep(Duration::from_millis(5));
    };
    ensure!(status.success(), "{status}");
    let mut text = String::new();
    client
        .child
        .stdout
        .take()
        .context("cannot read the client's output")?
        .read_to_string(&mut text)?;
    Ok(text)
}
