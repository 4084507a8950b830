//! The engine's start in a process, and its end.

use crate::conn::Phase;
use crate::fallback::{self, Processes};
use crate::{closer, config, exec, fork, process, progress, relay, stream, table};
use sovia_sync::robust_entry;
use sovia_sys::fd;

/// Starts the engine in a new process. Called after exec, before the program's own code.
pub fn start() {
    start_alone();
    fallback::helped_by(Processes { relay: relay::take_over, accompany: relay::accompany });
}

/// Leaves the program alone. Called instead of [`start`]. The kernel alone serves every descriptor, and no call is
/// changed.
pub fn stay_out() {
    table::close();
    config::allow_io_uring();
}

/// Starts everything except the code that makes relays.
fn start_alone() {
    robust_entry::start();
    stream::start();
    config::load();
    table::start();
    closer::start();
    progress::start();
    process::start();
    fork::start();
    fd::make_room();
}

/// Takes over the connections that the process which has executed this program has left to it. Called after [`start`],
/// if the program's environment names the library.
pub fn join() {
    exec::join();
}

/// Prepares for the end of a thread. Called before a thread of the program leaves without returning from its
/// function.
pub fn thread_leaves() {
    progress::leaving();
}

/// Adds the counts of the program's open connections to the statistics. Called when the program ends.
pub fn finish() {
    table::for_each_conn(|_, at| {
        if at.conn.phase() == Phase::Attached
            && let Some(mut guard) = at.conn.try_lock()
        {
            guard.settle_traffic();
        }
    });
}

#[cfg(test)]
mod edge_tests;
#[cfg(test)]
mod tests;
