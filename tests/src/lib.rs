//! Differential tests: calls of one program must return the same results over the kernel and over
//! Sovia.
//!
//! A scenario is a small C or Python program that writes down what it sees.
//! Its server and its client are started separately, in all four pairings of the kernel and Sovia.
//! Each end's transcript must equal the transcript that this end writes when both are on the
//! kernel.

mod apps;
mod board;
mod bottleneck;
mod cluster;
mod far;
mod hosts;
mod lane;
mod launch;
mod leftovers;
mod nics;
mod pairing;
mod programs;
mod reference;
mod scenario;
mod summary;
mod terminal;
mod transcript;
mod turn;
mod until;
pub mod walk;
mod workspace;

pub use apps::{c_program, native_c_program, native_c_program_with_library};
pub use bottleneck::Bottleneck;
pub use cluster::Cluster;
pub use far::{FarNic, FarPair, Key};
pub use hosts::{Agent, Hosts};
pub use lane::{LaneEnd, LaneNics, LaneScene, Served};
pub use launch::{Launch, Outcome, Running, finish};
pub use leftovers::Leftovers;
pub use nics::{LOSSY, Nics, between};
pub use pairing::{Pairing, Stack};
pub use programs::{Client, Service, free_port, installed, skipped, unpacked};
pub use scenario::{Observation, Scenario};
pub use summary::accelerated;
pub use terminal::Terminal;
pub use transcript::difference;
pub use turn::in_turn;
pub use until::until;
pub use workspace::{TempDir, all_may_read, fi_providers, libsovia, sovia};

/// Scenarios of one C program, each a test of the same name. What is common to
/// them may follow the program: `scenarios!("bulk", Scenario::single: one, other)`.
#[macro_export]
macro_rules! scenarios {
    ($program:literal: $($case:ident),+ $(,)?) => {
        $crate::scenarios!($program, std::convert::identity: $($case),+);
    };
    ($program:literal, $adapt:path: $($case:ident),+ $(,)?) => {
        $(
            #[test]
            fn $case() {
                $adapt($crate::Scenario::c($program, stringify!($case))).run();
            }
        )+
    };
}

/// Cases in which Sovia is known to differ from the kernel, each with its reason. They count as
/// skipped. `--ignored` runs them, for a developer who wants to remove the difference.
#[macro_export]
macro_rules! known_limits {
    ($program:literal, $why:literal: $($case:ident),+ $(,)?) => {
        $crate::known_limits!($program, $why, run: $($case),+);
    };
    ($program:literal, $why:literal, $run:ident: $($case:ident),+ $(,)?) => {
        $(
            #[test]
            #[ignore = $why]
            fn $case() {
                $crate::Scenario::c($program, stringify!($case)).$run();
            }
        )+
    };
}

/// Like `scenarios`, with the switch to shared memory before, during and after the scenario's work.
#[macro_export]
macro_rules! scenarios_across_the_switch {
    ($program:literal: $($case:ident),+ $(,)?) => {
        $(
            #[test]
            fn $case() {
                $crate::Scenario::c($program, stringify!($case)).run_across_the_switch();
            }
        )+
    };
}
