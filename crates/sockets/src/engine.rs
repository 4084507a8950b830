//! The engine's start in a process, and its end.

use crate::conn::Phase;
use crate::{closer, config, family, fork, process, progress, relay, stats, stream, table};

/// Takes over in a new process: after exec, before the program's own code.
pub fn start() {
    stream::start();
    config::load();
    family::start();
    table::start();
    closer::start();
    progress::start();
    relay::start();
    process::own();
    fork::start();
}

/// The program ends: what its open connections have counted goes to the statistics.
pub fn finish() {
    if stats::page().is_none() {
        return;
    }
    table::for_each_conn(|_, at| {
        if at.conn.phase() == Phase::Attached
            && let Some(mut guard) = at.conn.try_lock()
        {
            guard.settle_traffic();
        }
    });
}
