//! The thread that advances time in a live network while no call waits.
//!
//! Waiting threads step by themselves, which saves a thread switch for each event. This thread handles packets in
//! flight while all other threads compute.

use core::time::Duration;
use std::sync::mpsc;
use std::thread;

/// Time that other threads get to step first.
const PATIENCE: Duration = Duration::from_micros(200);

/// Starts the thread. At each call it steps until `step` returns false. The thread ends when all callers are gone. If
/// the thread cannot be started, events occur only while a call waits.
pub(crate) fn start(calls: mpsc::Receiver<()>, step: impl Fn() -> bool + Send + 'static) {
    let run = move || {
        for () in calls {
            thread::sleep(PATIENCE);
            while step() {}
        }
    };
    drop(thread::Builder::new().name("simnet".into()).spawn(run));
}
