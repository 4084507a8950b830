//! The lifetime of a NIC's thread.

use crate::slot::lock;
use crate::state::{Card, Job};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A NIC's thread, which ends with the last handle of the NIC and its VIs.
pub(crate) struct Open {
    card: Arc<Card>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Open {
    pub(crate) fn new(card: Arc<Card>, thread: JoinHandle<()>) -> Open {
        Open { card, thread: Mutex::new(Some(thread)) }
    }
}

impl core::fmt::Debug for Open {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.card.fmt(f)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.card.job(Job::End);
        if let Some(thread) = lock(&self.thread).take() {
            // The thread has been notified to end. It first sends its last reports to peers.
            let _ = thread.join();
        }
    }
}
