//! The thread that makes time pass in a live network when no call waits.
//!
//! Threads that wait step by themselves, which saves a change of threads for each event; this one
//! takes care of what is on its way while all other threads compute.

use core::time::Duration;
use std::sync::mpsc;
use std::thread;

/// How long the others have to be faster.
const PATIENCE: Duration = Duration::from_micros(200);

/// Starts the thread. At each call it steps until `step` returns false; it ends when there is no caller any more.
/// Where it cannot be started, things happen only while a call waits.
pub(crate) fn start(calls: mpsc::Receiver<()>, step: impl Fn() -> bool + Send + 'static) {
    let run = move || {
        for () in calls {
            thread::sleep(PATIENCE);
            while step() {}
        }
    };
    drop(thread::Builder::new().name("simnet".into()).spawn(run));
}
