//! The thread that makes time pass in a live network when nobody waits.
//!
//! Threads that wait step by themselves, which saves a change of threads for each event; this one
//! takes care of what is on its way while everybody computes.

use crate::network::Shared;
use core::time::Duration;
use std::sync::{Arc, mpsc};
use std::thread;

/// How long the others have to be faster.
const PATIENCE: Duration = Duration::from_micros(200);

/// Starts the thread. It ends with the network. Where it cannot be started, things happen only
/// while somebody waits.
pub(crate) fn start(calls: mpsc::Receiver<()>, shared: &Arc<Shared>) {
    let shared = Arc::downgrade(shared);
    let run = move || {
        for () in calls {
            thread::sleep(PATIENCE);
            while let Some(shared) = shared.upgrade()
                && shared.drive()
            {}
        }
    };
    drop(thread::Builder::new().name("simnet".into()).spawn(run));
}
