//! Work of the two processes of a measurement, over any [`Link`].
//!
//! The first byte of a message says whether to continue: [`GO`], or [`STOP`] for the last message.

pub(super) mod connect;
pub(super) mod load;
pub(super) mod pingpong;
pub(super) mod stream;

use std::time::Duration;

use anyhow::Context;

use super::link::Link;
use super::task::{Figure, Metric, Role, Scenario, Tail, Task};

const GO: u8 = 1;
const STOP: u8 = 0;

/// Runs one role over `link`. The requester returns figures.
pub(super) fn play(link: &mut impl Link, task: &Task, role: Role) -> anyhow::Result<Vec<Figure>> {
    let time = Duration::from_secs_f64(task.seconds);
    match (task.scenario, role) {
        (Scenario::Latency, Role::Requester) => {
            let trip = pingpong::request(link, task.size_bytes, time)?;
            Ok(vec![Figure {
                metric: Metric::HalfRoundTrip,
                value: trip.median_ns / 2e3,
                tail: Some(Tail { p99: trip.p99_ns / 2e3, p999: trip.p999_ns / 2e3 }),
            }])
        }
        (Scenario::Latency, Role::Responder) => {
            pingpong::respond(link, task.size_bytes)?;
            Ok(Vec::new())
        }
        (Scenario::Bandwidth, Role::Requester) => {
            let bytes_per_second = stream::send(link, task.size_bytes, time)?;
            Ok(vec![Figure {
                metric: Metric::Bandwidth,
                value: bytes_per_second / 1e9,
                tail: None,
            }])
        }
        (Scenario::Bandwidth, Role::Responder) => {
            stream::receive(link, task.size_bytes)?;
            Ok(Vec::new())
        }
        // Measures both halves over the same connection, one after the other.
        (Scenario::Rate, Role::Requester) => {
            let messages = stream::send(link, task.size_bytes, time / 2)? / task.size_bytes as f64;
            let trip = pingpong::request(link, task.size_bytes, time / 2)?;
            Ok(vec![
                Figure { metric: Metric::Messages, value: messages, tail: None },
                Figure { metric: Metric::Transactions, value: 1e9 / trip.median_ns, tail: None },
            ])
        }
        (Scenario::Rate, Role::Responder) => {
            stream::receive(link, task.size_bytes)?;
            pingpong::respond(link, task.size_bytes)?;
            Ok(Vec::new())
        }
        (Scenario::Load, Role::Requester) => {
            let peak = task.peak.context("the load scenario needs the peak bandwidth of TCP")?;
            let mut figures = Vec::new();
            for (metric, part) in [(Metric::CpuAtTenth, 0.1), (Metric::CpuAtHalf, 0.5)] {
                let percent = load::offer(link, task.size_bytes, part * peak, time / 2)?;
                figures.push(Figure { metric, value: percent, tail: None });
            }
            load::end(link)?;
            Ok(figures)
        }
        (Scenario::Load, Role::Responder) => {
            load::take(link, task.size_bytes)?;
            Ok(Vec::new())
        }
        (Scenario::Connect, _) => {
            anyhow::bail!("the connect scenario makes its connections itself")
        }
    }
}
