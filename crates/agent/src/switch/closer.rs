//! Closes what programs have sent. They have nothing to send but bytes; a descriptor that comes all the same can be one whose
//! closing takes as long as its sender likes, so a thread of its own waits for that instead of the agent.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

use sovia_sys::Fd;

/// With so many descriptors to be closed no more programs are taken in.
const MOST: usize = 64;

static QUEUE: OnceLock<Sender<Fd>> = OnceLock::new();
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Starts the thread.
///
/// # Errors
/// The system has none.
pub(super) fn start() -> std::io::Result<()> {
    let (give, given) = channel::<Fd>();
    let close = move || {
        for fd in given {
            drop(fd);
            WAITING.fetch_sub(1, Ordering::Relaxed);
        }
    };
    if QUEUE.set(give).is_ok() {
        Builder::new().name("closer".into()).spawn(close)?;
        sovia_sys::fd::dispose_by(dispose);
    }
    Ok(())
}

fn dispose(fd: Fd) {
    if let Some(queue) = QUEUE.get() {
        WAITING.fetch_add(1, Ordering::Relaxed);
        // The thread lives as long as the process.
        let _ = queue.send(fd);
    }
}

/// Whether there is so much to close that no more must be taken in.
pub(super) fn is_busy() -> bool {
    WAITING.load(Ordering::Relaxed) >= MOST
}
