//! The thread of a NIC that is open.

use crate::slot::lock;
use crate::state::{Card, Job};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The thread of a NIC, which ends with the last handle of the NIC and its VIs.
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
            // It has been told to end, and says what is to be said to far sides first.
            let _ = thread.join();
        }
    }
}
