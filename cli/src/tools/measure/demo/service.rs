//! Processes of the demonstration. They end with it, and waiting for them has a time limit.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// Time within which a server must listen.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Time within which a client must end.
const RUN_LIMIT: Duration = Duration::from_secs(120);

/// A server, which is killed when this value is dropped.
pub(super) struct Service {
    child: Child,
}

impl Service {
    /// Starts a server and waits until `is_ready` returns true.
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
        // Both calls fail if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a client to its end, and returns its output. The output must fit into a pipe's buffer.
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
