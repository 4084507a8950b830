//! Connections one after the other: set up, one byte each way, closed.

use std::time::{Duration, Instant};

use super::{GO, STOP};
use crate::bench::link::{Link, tcp};
use crate::bench::task::{Figure, Metric, Task};

/// Connections in one measurement. Each leaves its port in TIME_WAIT for a second at least, and
/// there are 28 thousand ports.
const CONNECTIONS_MAX: u32 = 8000;

/// Makes connections to `port` for the time of the task.
pub(in crate::bench) fn request(port: &str, task: &Task) -> anyhow::Result<Vec<Figure>> {
    let time = Duration::from_secs_f64(task.seconds);
    let start = Instant::now();
    let mut made = 0;
    while made == 0 || (made < CONNECTIONS_MAX && start.elapsed() < time) {
        one(port, task, GO)?;
        made += 1;
    }
    let value = f64::from(made) / start.elapsed().as_secs_f64();
    one(port, task, STOP)?;
    Ok(vec![Figure { metric: Metric::Connections, value, p99: None }])
}

fn one(port: &str, task: &Task, byte: u8) -> anyhow::Result<()> {
    let mut link = tcp::connect(port, task)?;
    link.send(&[byte])?;
    Ok(link.receive_all(&mut [0])?)
}

/// Answers connections up to the one that says stop.
pub(in crate::bench) fn respond(
    listener: &std::net::TcpListener,
    task: &Task,
) -> anyhow::Result<()> {
    let mut byte = [GO];
    while byte[0] != STOP {
        let mut link = tcp::accept(listener, task)?;
        link.receive_all(&mut byte)?;
        link.send(&byte)?;
    }
    Ok(())
}
