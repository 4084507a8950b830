//! Many nodes on a simulated network of switches, to study what the protocol does where no machine room is at hand.
//!
//! A [`Scenario`] says who sends what to whom over which network, and what fails when; [`run`] plays it, and its
//! [`Outcome`] has the goodput, the latency of messages, what became of frames, and the memory that the ends took. The ends
//! are those of `sovia-link`: streams with their acknowledgements, their search for losses and their congestion control, and
//! messages in parts, whose bytes are compared at the receiver. The network is `sovia-simnet`'s: cables, and switches whose
//! queues overflow. Time is virtual, chance comes from a seed, and all figures are integers, so that a scenario has the same
//! outcome on every machine until the protocol changes.
//!
//! - `scenario`, `traffic`: what is to happen; `catalogue`: the scenarios that the project keeps figures of;
//! - `model`: ends, nodes and the network as they run; `vis`: the same over whole NICs; `outcome`: what came of it; `table`: that as text.

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
