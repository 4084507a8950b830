//! Connections one after the other: connect, send one byte in each direction, close.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::{GO, STOP};
use crate::measure::bench::link::{Link, tcp};
use crate::measure::bench::task::{Figure, Metric, Task};

/// Largest number of connections in a measurement. Each leaves its port in TIME_WAIT for at least a second, and there
/// are 28,000 ports.
const CONNECTIONS_MAX: u64 = 8000;

/// Makes connections to `port` for the task's time.
pub(in crate::measure::bench) fn request(port: &str, task: &Task) -> anyhow::Result<Vec<Figure>> {
    let time = Duration::from_secs_f64(task.seconds);
    let start = Instant::now();
    let mut times = Histogram::<u64>::new(3)?;
    while times.is_empty() || (times.len() < CONNECTIONS_MAX && start.elapsed() < time) {
        let begin = Instant::now();
        one(port, task, GO)?;
        times.record(begin.elapsed().as_nanos() as u64)?;
    }
    one(port, task, STOP)?;
    // The rate comes from the median, so that a few interrupted connections do not count.
    let value = 1e9 / times.value_at_quantile(0.5) as f64;
    Ok(vec![Figure { metric: Metric::Connections, value, tail: None }])
}

fn one(port: &str, task: &Task, byte: u8) -> anyhow::Result<()> {
    let mut link = tcp::connect(port, task)?;
    link.send(&[byte])?;
    Ok(link.receive_all(&mut [0])?)
}

/// Answers connections until a byte says STOP.
pub(in crate::measure::bench) fn respond(
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
