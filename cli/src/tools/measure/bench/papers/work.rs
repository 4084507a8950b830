//! Tasks of a pair of processes, and their results.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::net::Net;
use crate::measure::bench::layer::Layer;
use crate::measure::bench::nic::Places;
use crate::measure::bench::task::{self, Cpus, Role, Wait};

/// A scenario: a chapter of the report, and a command of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scenario {
    Loops,
    Throughput,
    Strided,
    Scatter,
    Queues,
    Netpipe,
    Calls,
    Memory,
    Registration,
    Sovia,
    Buffers,
    Hosts,
    Rpc,
    Ftp,
    Emp,
}

impl Scenario {
    /// Scenarios within one host, which the report measures itself.
    pub(super) const ALL: [Self; 11] = [
        Self::Loops,
        Self::Throughput,
        Self::Strided,
        Self::Scatter,
        Self::Queues,
        Self::Netpipe,
        Self::Calls,
        Self::Memory,
        Self::Registration,
        Self::Sovia,
        Self::Buffers,
    ];

    /// Scenarios of other commands, whose figures the report includes.
    pub(super) const COMPANIONS: [Self; 4] = [Self::Hosts, Self::Rpc, Self::Ftp, Self::Emp];

    /// Returns the name in commands and in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Loops => "loops",
            Self::Throughput => "throughput",
            Self::Strided => "strided",
            Self::Scatter => "scatter",
            Self::Queues => "queues",
            Self::Netpipe => "netpipe",
            Self::Calls => "calls",
            Self::Memory => "memory",
            Self::Registration => "registration",
            Self::Sovia => "sovia",
            Self::Buffers => "buffers",
            Self::Hosts => "hosts",
            Self::Rpc => "rpc",
            Self::Ftp => "ftp",
            Self::Emp => "emp",
        }
    }

    /// Returns the meaning of `x` in results.
    pub(super) fn x_name(self) -> &'static str {
        match self {
            Self::Strided => "stride_doubles",
            Self::Scatter => "block_bytes",
            Self::Queues => "vis",
            Self::Memory => "vis",
            Self::Loops
            | Self::Throughput
            | Self::Netpipe
            | Self::Calls
            | Self::Registration
            | Self::Sovia
            | Self::Buffers
            | Self::Hosts
            | Self::Rpc
            | Self::Ftp
            | Self::Emp => "size_bytes",
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Carrier of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Way {
    /// Sends to posted receives
    SendRecv,
    /// Writes to the peer's memory
    RdmaWrite,
    Tcp,
    /// TCP over IP over VIs, the papers' baseline
    Lane,
    Unix,
    /// A bare ring in shared memory: the hardware's limit
    Ring,
    /// A SOVIA stream over a VI
    Sovia,
    /// TCP programs under `sovia run`
    Run,
    /// Sockets of libsovia
    Native,
    /// EMP
    Emp,
    /// Within one process, without communication
    Local,
}

impl Way {
    /// Returns the name in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SendRecv => "send_recv",
            Self::RdmaWrite => "rdma_write",
            Self::Tcp => "tcp",
            Self::Lane => "lane",
            Self::Unix => "unix",
            Self::Ring => "ring",
            Self::Sovia => "sovia",
            Self::Run => "run",
            Self::Native => "native",
            Self::Emp => "emp",
            Self::Local => "local",
        }
    }

    /// Returns the name for readers.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::SendRecv => "send/receive",
            Self::RdmaWrite => "RDMA write",
            Self::Tcp => "TCP",
            Self::Lane => "TCP over LANE",
            Self::Unix => "Unix socket",
            Self::Ring => "bare ring",
            Self::Sovia => "SOVIA",
            Self::Run => "sovia run",
            Self::Native => "libsovia",
            Self::Emp => "EMP",
            Self::Local => "local copy",
        }
    }
}

/// End that a figure belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum End {
    Requester,
    Responder,
}

impl End {
    /// Returns the name in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Requester => "requester",
            Self::Responder => "responder",
        }
    }
}

impl From<Role> for End {
    fn from(role: Role) -> Self {
        match role {
            Role::Requester => Self::Requester,
            Role::Responder => Self::Responder,
        }
    }
}

/// Way to spread a message over the receiver's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Spread {
    /// By the segments of the receive descriptor
    Segments,
    /// By the program, which copies the message after receiving it in one piece
    Copied,
    /// Not spread
    None,
}

/// Way to find the VI with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Strategy {
    CompletionQueue,
    RoundRobin,
}

/// Preparation of a send's bytes before the post.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Prepared {
    /// Registers them with the NIC, and deregisters them
    Registered,
    /// Locks them in memory, and unlocks them
    Pinned,
    /// Copies them, always the same bytes
    CopiedCached,
    /// Copies them, always other bytes
    CopiedUncached,
}

/// Published law for the cost of registration, in simulated time
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Law {
    /// By size, and by the amount of other registered memory
    MVia,
    /// By size only
    Clan,
}

/// Sender that registers the bytes of a send in simulated time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Sender {
    /// A program without a stream
    Alone,
    /// A stream, which registers for each send
    CacheOff,
    /// A stream that keeps a buffer registered until it notices that the memory is unmapped
    CacheOn,
    /// A stream that keeps a buffer registered until the program notifies it
    CacheTold,
}

/// Memory that messages are sent from and received into, and the receiver's use of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Buffers {
    /// Always the same memory
    Hot,
    /// Other memory each time, in total twice the size of the last cache
    Cold,
    /// Like `Cold`, and the receiver reads every byte before it answers
    Read,
}

/// A NetPIPE message size: a base size and a perturbation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Perturbed {
    pub(super) base: usize,
    pub(super) off: i32,
}

impl Perturbed {
    /// Returns the size in bytes.
    pub(super) fn size(self) -> usize {
        self.base.saturating_add_signed(self.off as isize)
    }
}

/// Work of the two processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Work {
    /// The ping-pong loops with four bytes, whole and call by call
    Loops,
    /// A stream of messages, confirmed at the end
    OneWay { sizes: Vec<usize> },
    /// A stream of messages with a limited rate, between ends that block
    Paced { sizes: Vec<usize>, mbits: u32 },
    /// The ping-pong loop by size
    PingPong { sizes: Vec<Perturbed> },
    /// Blocks of doubles, spread over the target buffer
    Strided { spread: Spread, strides: Vec<usize> },
    /// Messages of 32 blocks
    Scatter { spread: Spread, blocks: Vec<usize> },
    /// Requests and short replies over many VIs
    Queues { strategy: Strategy, outstanding: usize, size: usize, vis: Vec<usize> },
    /// Single calls
    Calls,
    /// Scenarios of `sovia bench`
    Layer { scenario: task::Scenario, layer: Layer, size: usize },
    /// Memory of idle connected VIs
    Memory { vis: usize },
    /// Preparation of a send's bytes by one end, while `held` other bytes are registered
    Registering { prepared: Prepared, sizes: Vec<usize>, held: usize },
    /// Preparation in simulated time, at the papers' costs
    Simulated { law: Law, sender: Sender, sizes: Vec<usize>, held: usize },
    /// The ping-pong loop by size, with different memory for messages
    Buffers { buffers: Buffers, sizes: Vec<usize> },
    /// No work: the figures were stored, or another command measured them
    Stored,
}

/// One line in a scenario's pictures. A pair of processes runs it, from the first point to the last, once in every run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) scenario: Scenario,
    /// Name within the scenario, for readers.
    pub(super) series: String,
    pub(super) way: Way,
    pub(super) wait: Wait,
    pub(super) cpus: Cpus,
    pub(super) work: Work,
    /// Configuration of a SOVIA stream or of sockets, as text.
    pub(super) configuration: Option<String>,
    /// True if TCP combines small messages by Nagle's algorithm, and has the largest buffers that the system allows, as
    /// in the papers' figures of bandwidth. Otherwise TCP has TCP_NODELAY.
    pub(super) nagle: bool,
    /// Network, for a part between two hosts.
    pub(super) net: Option<Net>,
    /// Places of the VIs' NICs, if not in shared memory.
    pub(super) nic: Option<Places>,
    /// Time for each point.
    pub(super) seconds: f64,
}

impl Part {
    /// Returns the number of points, which are measured one after the other.
    pub(super) fn points(&self) -> usize {
        match &self.work {
            Work::Loops => 2,
            Work::OneWay { sizes } | Work::Paced { sizes, .. } => sizes.len(),
            Work::PingPong { sizes } => sizes.len(),
            Work::Strided { strides, .. } => strides.len(),
            Work::Scatter { blocks, .. } => blocks.len(),
            Work::Queues { vis, .. } => vis.len(),
            Work::Registering { sizes, .. }
            | Work::Simulated { sizes, .. }
            | Work::Buffers { sizes, .. } => sizes.len(),
            Work::Calls => 8,
            Work::Memory { .. } | Work::Layer { .. } | Work::Stored => 1,
        }
    }
}

/// Task of one process, as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Errand {
    pub(super) part: Part,
    pub(super) role: Role,
    /// Processor to run on.
    pub(super) cpu: Option<usize>,
    /// Place where the two processes meet. The responder chooses it, and prints it in its first line.
    pub(super) place: Option<String>,
    /// Network namespace that is this end's host, for a part between hosts.
    pub(super) namespace: Option<String>,
}

/// One figure of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Reading {
    pub(super) end: End,
    pub(super) metric: Metric,
    pub(super) x: u64,
    /// NetPIPE's perturbation of `x`, in bytes.
    pub(super) off: i32,
    /// Value in the metric's unit.
    pub(super) value: f64,
}

macro_rules! metrics {
    ($($name:ident $text:literal $unit:literal $title:literal;)+) => {
        /// Meaning of a figure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub(super) enum Metric {
            $(#[doc = $title] $name,)+
        }

        impl Metric {
            const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the name in results.
            pub(super) fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// Returns the metric with this name.
            pub(super) fn of_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|metric| metric.name() == name)
            }

            /// Returns the unit of the figures. A Mbit is 10^6 bits.
            pub(super) fn unit(self) -> &'static str {
                match self { $(Self::$name => $unit,)+ }
            }

            /// Returns the name for readers.
            pub(super) fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)+ }
            }
        }
    };
}

metrics! {
    RoundTrip "round_trip" "us" "round trip";
    HalfTrip "half_round_trip" "us" "half a round trip";
    Throughput "throughput" "Mbit/s" "throughput";
    Rate "rate" "1/s" "messages a second";
    Processor "processor_time" "%" "processor time of the sender / of the receiver";
    ProcessorUser "processor_user" "%" "processor time in the program, of the sender / of the receiver";
    ProcessorSystem "processor_system" "%" "processor time in the kernel, of the sender / of the receiver";
    ProcessorPerByte "processor_per_mb" "us/MB" "processor time per MB, of the sender / of the receiver";
    CallTime "call" "us" "a call and its answer";
    Isend "isend" "us" "posting a send";
    Irecv "irecv" "us" "posting a receive";
    Waitall "waitall" "us" "waiting for a batch";
    AllCalls "all_calls" "us" "the three calls together";
    Share "share" "%" "share of the processor that the program has";
    Preparing "preparing" "us" "making the bytes of a send ready";
    PerMessage "time_per_message" "us" "time per message";
    PostSend "post_send" "ns" "post send";
    PostSendSilent "post_send_silent" "ns" "post send, the other end does not poll";
    PostRecv "post_recv" "ns" "post receive";
    SendDone "send_done" "ns" "send done, until it is";
    SendWait "send_wait" "ns" "send wait";
    RecvDone "recv_done" "ns" "receive done, until it is";
    RecvWait "recv_wait" "ns" "receive wait";
    Flag "flag" "ns" "the flag, until it changes";
    SendDoneEmpty "send_done_empty" "ns" "send done, nothing posted";
    RecvDoneEmpty "recv_done_empty" "ns" "receive done, nothing posted";
    RecvDonePending "recv_done_pending" "ns" "receive done, nothing there yet";
    SendDoneReady "send_done_ready" "ns" "send done, one is";
    RecvDoneReady "recv_done_ready" "ns" "receive done, a message is there";
    Private "private" "bytes" "pages of one process";
    Shared "shared" "bytes" "pages that both touch";
    Proportional "proportional" "bytes" "share of all pages (PSS)";
}
