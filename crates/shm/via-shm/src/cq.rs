//! Completion queues of the shared-memory NIC, for programs.

use crate::card::Card;
use crate::completion::CqCore;
use crate::vi::inner::Core;
use core::time::Duration;
use std::sync::Arc;
use via::CompletionQueue;
use via::cq::{CqCallback, CqEntry, CqSignal, Watch};
use via::error::{CqError, WaitError};

/// A completion queue of the shared-memory NIC.
///
/// ```
/// use via::{Attach, CompletionQueue, CqEntry, MemAttributes, Memory, Nic, Vi, ViAttributes, WorkQueueKind};
/// use via_shm::ShmNic;
///
/// # let nic = ShmNic::open("example-cq")?;
/// # let at = |end: &[u8]| nic.address(end);
/// let queue = nic.create_cq(64, 0)?;
/// // Each message that a VI receives adds an entry with the VI's `context` to the queue.
/// let vi = |context| {
///     let attach = Attach { recv: Some(&queue), context, ..Attach::default() };
///     nic.create_vi_with(ViAttributes::default(), attach)
/// };
/// let (first, second) = (vi(1)?, vi(2)?);
/// # first.connect_peer_request(&at(b"1"), &at(b"2"), None)?;
/// # second.connect_peer_request(&at(b"2"), &at(b"1"), None)?;
/// # (first.connect_peer_wait()?, second.connect_peer_wait()?);
/// # let memory = Memory::zeroed(4096);
/// # let handle = nic.register_mem(&memory, MemAttributes::default())?;
/// # let descriptor = |at| {
/// #     memory.descriptor(at).unwrap().prepare(&[], Some(5)).unwrap();
/// #     via::DescriptorAddress { address: memory.address(at), handle }
/// # };
/// second.post_recv(descriptor(0))?;
/// first.post_send(descriptor(64))?;
///
/// assert_eq!(queue.wait(None)?, CqEntry { context: 2, queue: WorkQueueKind::Recv });
/// let done = second.recv_done().completion().expect("there is an entry for it");
/// # assert_eq!(done.immediate, Some(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ShmCq(pub(crate) Arc<CqCore<Core>>);

impl ShmCq {
    /// Creates a completion queue with room for `entries` entries.
    pub(crate) fn create(card: &Arc<Card>, entries: u32, context: u64) -> Result<ShmCq, CqError> {
        if entries == 0 || entries > card.attributes.max_cq_entries {
            return Err(CqError::Entries);
        }
        card.cq_made()?;
        Ok(ShmCq(Arc::new(CqCore::new(card.clone(), entries, context))))
    }
}

impl CompletionQueue for ShmCq {
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }

    fn resize(&self, entries: u32) -> Result<(), CqError> {
        self.0.resize(entries)
    }

    #[inline]
    fn done(&self) -> Option<CqEntry> {
        self.0.done()
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<CqEntry, WaitError> {
        self.0.wait(timeout)
    }

    fn notify(&self, callback: CqCallback) {
        self.0.notify(callback);
    }

    fn signal(&self, signal: CqSignal) {
        self.0.signal(signal);
    }

    /// Returns `None`, because no file descriptor reports a new entry: a waiting thread sleeps on words of shared
    /// memory.
    fn watch(&self) -> Option<Watch> {
        None
    }

    fn awake(&self, _: [bool; 3]) {}

    fn in_use(&self) -> bool {
        self.0.in_use()
    }

    fn destroy(self) -> Result<(), Self> {
        if self.in_use() { Err(self) } else { Ok(()) }
    }
}

impl Drop for ShmCq {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
