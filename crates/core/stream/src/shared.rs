//! State that the streams of a stack share: the NIC, a protection tag for their memory, and the threads.

use crate::background::{Background, Tended};
use crate::cache::Choice;
use crate::handler::Handler;
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_proto::configuration::{Configuration, Transfer};
use std::sync::{Arc, Weak};
use std::time::Instant;
use via::error::PtagError;
use via::{Nic, Ptag};

/// State that all streams of a stack share.
pub(crate) struct Shared<N: Nic + 'static> {
    pub(crate) nic: Arc<N>,
    pub(crate) ptag: Ptag,
    /// The registration cache for the program's memory.
    pub(crate) cache: Choice<N>,
    last: AtomicU64,
    handler: Handler<N>,
    background: Background,
}

impl<N: Nic + 'static> core::fmt::Debug for Shared<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let nic = &self.nic.attributes().name;
        f.debug_struct("Stack").field("nic", nic).finish_non_exhaustive()
    }
}

impl<N: Nic + 'static> Shared<N> {
    /// Creates the state, with a new protection tag.
    pub(crate) fn new(nic: N, background: Background) -> Result<Shared<N>, PtagError> {
        let ptag = nic.create_ptag()?;
        let nic = Arc::new(nic);
        let (cache, last, handler) = Default::default();
        Ok(Shared { nic, ptag, cache, last, handler, background })
    }

    /// Returns the way of sending that suits the NIC best; see [`crate::Stack::recommended`].
    pub(crate) fn soonest(&self) -> Transfer {
        match self.nic.attributes().capabilities.sends_execute_in_caller {
            true => Configuration::default().transfer,
            false => Transfer::Copy,
        }
    }

    /// Returns a number that no other stream of this stack has.
    pub(crate) fn fresh(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn handler(&self) -> &Handler<N> {
        &self.handler
    }

    /// Sets a timer for a stream. Returns false if there is no thread to run it.
    pub(crate) fn wake_at(&self, at: Instant, stream: Weak<dyn Tended>) -> bool {
        self.background.wake_at(at, stream)
    }

    /// Continues to close a stream that its program has dropped.
    pub(crate) fn finish(&self, stream: Arc<dyn Tended>) {
        self.background.finish(stream);
    }

    /// Checks each closed stream once. Returns the number of unfinished streams.
    pub(crate) fn step(&self) -> usize {
        self.background.step()
    }

    /// Notes that the program has dropped the stack.
    pub(crate) fn leave(&self) {
        self.background.leave();
    }
}

impl<N: Nic + 'static> Drop for Shared<N> {
    fn drop(&mut self) {
        self.background.stop();
        self.cache.end();
        // The call cannot fail: all objects with the tag have been dropped.
        let _ = self.nic.destroy_ptag(self.ptag);
    }
}
