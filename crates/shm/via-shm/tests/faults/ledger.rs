//! An end that checks that every posted descriptor completes once, in order.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use via::queue::Completion;
use via::{DescriptorAddress, Done, Status, Vi};
use via_conformance::End;
use via_shm::ShmNic;

/// Descriptors that are posted to a work queue and not yet taken.
#[derive(Debug, Default, Clone)]
pub(crate) struct Ledger(Arc<Mutex<VecDeque<DescriptorAddress>>>);

impl Ledger {
    fn posted(&self, descriptor: DescriptorAddress) {
        self.0.lock().unwrap().push_back(descriptor);
    }

    /// Removes a taken descriptor. Returns its length, or its status if it failed.
    pub(crate) fn taken(&self, done: &Completion) -> Result<u32, Status> {
        assert_eq!(self.0.lock().unwrap().pop_front(), Some(done.descriptor), "out of turn");
        done.result()
    }

    /// Returns true if all posted descriptors have been taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }
}

/// An end with a ledger for each work queue.
pub(crate) struct Counted<'n> {
    pub(crate) end: End<'n, ShmNic>,
    pub(crate) sends: Ledger,
    pub(crate) receives: Ledger,
}

impl<'n> Counted<'n> {
    pub(crate) fn new(end: End<'n, ShmNic>) -> Counted<'n> {
        Counted { end, sends: Ledger::default(), receives: Ledger::default() }
    }

    /// Posts to the receive queue. Records the descriptor first, because it may complete at once.
    pub(crate) fn post_recv(&self, descriptor: DescriptorAddress) {
        self.receives.posted(descriptor);
        self.end.vi.post_recv(descriptor).unwrap();
    }

    /// Posts to the send queue.
    pub(crate) fn post_send(&self, descriptor: DescriptorAddress) {
        self.sends.posted(descriptor);
        self.end.vi.post_send(descriptor).unwrap();
    }

    /// Disconnects the VI, takes the flushed descriptors, and checks that none is left.
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
