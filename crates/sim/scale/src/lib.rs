//! Many nodes on a simulated network of switches, to study the protocol without a cluster.
//!
//! A [`Scenario`] describes traffic, network and failures, and [`run`] simulates it. An [`Outcome`] has goodput, the
//! latency of messages, counters of frames, and the memory of the ends. The ends are those of `sovia-link`: streams
//! with acknowledgements, loss detection and congestion control. Messages travel in parts, and the receiver compares
//! their bytes. The network is that of `sovia-simnet`: cables, and switches with finite queues. Time is virtual, random
//! choices come from a seed, and all figures are integers. So a scenario has the same outcome on every machine until
//! the protocol changes.
//!
//! - `scenario`, `traffic`: the description of a run; `catalogue`: the scenarios whose figures the project stores;
//! - `model`: running ends, nodes and network; `vis`: scenarios over whole NICs; `outcome`: the outcome; `table`: the
//!   outcome as text.

#![forbid(unsafe_code)]

mod catalogue;
mod model;
mod outcome;
mod scenario;
mod table;
mod traffic;
mod vis;

pub use catalogue::{large, small, vis};
pub use model::run;
pub use outcome::{Frames, Latency, Outcome, State, ViOutcome};
pub use scenario::{Death, Fault, Scenario, Traffic};
pub use table::{heading, line, vi_heading, vi_line};
pub use vis::run_vis;
