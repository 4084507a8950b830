//! Task of a pair of processes, and the errand for each process.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::layer::Layer;
use super::nic::Places;

/// Scenario of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scenario {
    Latency,
    Bandwidth,
    Rate,
    Connect,
    Load,
}

impl Scenario {
    /// Returns the default message sizes in bytes.
    pub(super) fn default_sizes(self) -> &'static [usize] {
        match self {
            Self::Latency => &[4, 64, 1024, 4096, 65536],
            Self::Bandwidth => &[1024, 4096, 16384, 65536, 1048576],
            Self::Rate => &[64],
            Self::Connect => &[1],
            Self::Load => &[64, 4096, 65536],
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Rate => "rate",
            Self::Connect => "connect",
            Self::Load => "load",
        })
    }
}

/// How an end waits for the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Wait {
    /// Spin on non-blocking calls
    Poll,
    /// Make blocking calls. Calls of Sovia and of a native VI spin for a limited time, and then sleep
    Block,
    /// Make blocking calls that sleep at once, also in Sovia (SOVIA_SPIN=0)
    Sleep,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Poll => "poll",
            Self::Block => "block",
            Self::Sleep => "sleep",
        })
    }
}

/// Which processors the two ends run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Cpus {
    /// One processor for each end, on different cores if there are several
    Apart,
    /// One processor for both ends together
    Together,
    /// Any processors: the kernel chooses, and may move the ends at any time
    Free,
}

impl Cpus {
    /// Returns the default processors: ends that spin get one each, and ends that sleep are not bound.
    pub(super) fn default_for(wait: Wait) -> Self {
        match wait {
            Wait::Poll => Self::Apart,
            Wait::Block | Wait::Sleep => Self::Free,
        }
    }
}

/// One measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) scenario: Scenario,
    pub(super) layer: Layer,
    pub(super) wait: Wait,
    pub(super) cpus: Cpus,
    pub(super) size_bytes: usize,
    pub(super) seconds: f64,
    /// Real-time priority of both ends, if given.
    pub(super) realtime: Option<i32>,
    /// Places of the NICs, for the layer `nic`.
    pub(super) nic: Option<Places>,
    /// TCP's largest throughput in bytes a second, for the scenario `load`.
    pub(super) peak: Option<f64>,
}

/// End of the connection that a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Role {
    /// The end that sends first, and measures.
    Requester,
    Responder,
}

/// Task of one process, as JSON in its only argument.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Errand {
    pub(super) task: Task,
    pub(super) role: Role,
    /// Processor to run on.
    pub(super) cpu: Option<usize>,
    /// Place where the two processes meet, in a form that depends on the layer. A responder without a place chooses
    /// one, and prints it in its first line.
    pub(super) place: Option<String>,
}

/// One result of a measurement. The requester prints it as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Figure {
    pub(super) metric: Metric,
    /// Value in the metric's unit.
    pub(super) value: f64,
    /// Percentiles of single messages, if messages are timed one by one.
    pub(super) tail: Option<Tail>,
}

/// Times of the slowest messages, in the metric's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Tail {
    pub(super) p99: f64,
    pub(super) p999: f64,
}

/// Meaning of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Metric {
    HalfRoundTrip,
    Bandwidth,
    Messages,
    Transactions,
    Connections,
    CpuAtTenth,
    CpuAtHalf,
}

impl Metric {
    /// Returns the name in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::HalfRoundTrip => "half_round_trip",
            Self::Bandwidth => "bandwidth",
            Self::Messages => "messages",
            Self::Transactions => "transactions",
            Self::Connections => "connections",
            Self::CpuAtTenth => "cpu_at_10_percent",
            Self::CpuAtHalf => "cpu_at_50_percent",
        }
    }

    /// Returns the unit of the figures. A GB is 10^9 bytes.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::HalfRoundTrip => "us",
            Self::Bandwidth => "GB/s",
            Self::Messages | Self::Transactions | Self::Connections => "1/s",
            Self::CpuAtTenth | Self::CpuAtHalf => "%",
        }
    }

    /// Returns true if less is better.
    pub(super) fn is_cost(self) -> bool {
        matches!(self, Self::HalfRoundTrip | Self::CpuAtTenth | Self::CpuAtHalf)
    }
}
