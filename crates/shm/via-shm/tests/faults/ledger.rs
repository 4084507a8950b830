//! An end that keeps count: every descriptor that is posted is done once, in its turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use via::queue::Completion;
use via::{DescriptorAddress, Done, Status, Vi};
use via_conformance::End;
use via_shm::ShmNic;

/// What is posted to a work queue and not taken.
#[derive(Debug, Default, Clone)]
pub(crate) struct Ledger(Arc<Mutex<VecDeque<DescriptorAddress>>>);

impl Ledger {
    fn posted(&self, descriptor: DescriptorAddress) {
        self.0.lock().unwrap().push_back(descriptor);
    }

    /// A descriptor is taken; whether it went well.
    pub(crate) fn taken(&self, done: &Completion) -> Result<u32, Status> {
        assert_eq!(self.0.lock().unwrap().pop_front(), Some(done.descriptor), "out of turn");
        done.result()
    }

    /// Whether all that was posted is taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }
}

/// An end and its two ledgers.
pub(crate) struct Counted<'n> {
    pub(crate) end: End<'n, ShmNic>,
    pub(crate) sends: Ledger,
    pub(crate) receives: Ledger,
}

impl<'n> Counted<'n> {
    pub(crate) fn new(end: End<'n, ShmNic>) -> Counted<'n> {
        Counted { end, sends: Ledger::default(), receives: Ledger::default() }
    }

    /// Posts to the receive queue; with the ledger first, because it may be done at once.
    pub(crate) fn post_recv(&self, descriptor: DescriptorAddress) {
        self.receives.posted(descriptor);
        self.end.vi.post_recv(descriptor).unwrap();
    }

    /// Posts to the send queue.
    pub(crate) fn post_send(&self, descriptor: DescriptorAddress) {
        self.sends.posted(descriptor);
        self.end.vi.post_send(descriptor).unwrap();
    }

    /// Ends it: what is posted is flushed, and nothing is left.
    pub(crate) fn settle(&self) {
        self.end.vi.disconnect();
        while let Done::Completion(done) = self.end.vi.send_done() {
            let _ = self.sends.taken(&done);
        }
        while let Done::Completion(done) = self.end.vi.recv_done() {
            let _ = self.receives.taken(&done);
        }
        self.end.nothing_posted();
    }
}
