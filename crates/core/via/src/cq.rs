//! Completion queues: one place to look for the news of many work queues.
//!
//! VIA 1.0: a work queue may be attached to a completion queue when its VI is created. Each of its
//! descriptors that is done then leaves an entry, which names the VI and which of its two queues;
//! the program takes the entry and then the descriptor.

use crate::error::{CqError, WaitError};
use core::time::Duration;
use std::os::fd::RawFd;

/// Which work queue of a VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkQueueKind {
    /// The send queue.
    Send,
    /// The receive queue.
    Recv,
}

/// An entry of a completion queue: in this work queue one more descriptor is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CqEntry {
    /// What the program gave the VI to tell it by ([`Attach::context`]).
    pub context: u64,
    /// Which of the VI's queues.
    pub queue: WorkQueueKind,
}

/// What runs, once, when a completion queue has an entry.
pub type CqCallback = Box<dyn FnOnce(CqEntry) + Send>;

/// What runs, once, when a completion queue has an entry that is left in it. It runs at once,
/// wherever that turns out, maybe under locks of the provider's: it may wake a thread, and must not
/// call the NIC or wait.
pub type CqSignal = Box<dyn FnOnce() + Send>;

/// What a thread sleeps on that waits for a completion queue among other things ([`CompletionQueue::watch`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watch {
    /// Each is readable when there may be something to do; -1: none. They are the same for as long as the NIC is open.
    pub descriptors: [RawFd; 3],
    /// When there is something to do though none is readable (nanoseconds of CLOCK_MONOTONIC).
    pub until: Option<u64>,
}

/// How a VI that is being created is attached (`VipCreateVi`).
#[derive(Debug)]
pub struct Attach<'a, Cq> {
    /// The completion queue of its send queue.
    pub send: Option<&'a Cq>,
    /// The completion queue of its receive queue.
    pub recv: Option<&'a Cq>,
    /// Names the VI in completion queues and error reports; the program's to choose.
    pub context: u64,
}

impl<Cq> Default for Attach<'_, Cq> {
    fn default() -> Self {
        Attach { send: None, recv: None, context: 0 }
    }
}

impl<Cq> Clone for Attach<'_, Cq> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Cq> Copy for Attach<'_, Cq> {}

/// A completion queue. Dropping it while work queues are attached leaves it to them; the last one
/// to go frees it.
pub trait CompletionQueue: Send + Sync {
    /// Entries that it holds at most.
    fn capacity(&self) -> u32;

    /// Changes how many entries it holds; those it has stay (`VipResizeCQ`).
    ///
    /// # Errors
    /// [`CqError::Entries`] for none, more than the NIC allows, or fewer than it has now.
    fn resize(&self, entries: u32) -> Result<(), CqError>;

    /// Takes the oldest entry (`VipCQDone`). Entries of one work queue come in the order in which
    /// its descriptors are done, and as many as there are descriptors.
    fn done(&self) -> Option<CqEntry>;

    /// As [`CompletionQueue::done`], waiting for one (`VipCQWait`).
    ///
    /// # Errors
    /// [`WaitError::Timeout`].
    fn wait(&self, timeout: Option<Duration>) -> Result<CqEntry, WaitError>;

    /// Has the next entry taken and handed to `callback`, in a thread of the NIC's
    /// (`VipCQNotify`). One entry for each call, in the order of the calls. Destroying the
    /// completion queue cancels those still to come.
    fn notify(&self, callback: CqCallback);

    /// Has `signal` run when there is an entry to be taken: now, or with the next one that no
    /// callback of [`CompletionQueue::notify`] takes. The entry is left to the thread that looks next, and may
    /// be gone soon. Once for each call. Destroying the completion queue cancels those still to come.
    fn signal(&self, signal: CqSignal);

    /// The calling thread goes to sleep on these descriptors, and on others of its own. From here to [`CompletionQueue::awake`] it sees to
    /// the network in place of the NIC's own thread, which need not wake for what comes, and uses the NIC for nothing. Where the queue has
    /// an entry, `until` has passed. `None` if the NIC cannot be watched in this way, or another thread watches or sleeps in a call of the NIC's: then
    /// [`CompletionQueue::signal`] tells. While threads watch now and then, callbacks and other signals may come some tens of milliseconds late. Destroying
    /// the completion queue ends its watch.
    fn watch(&self) -> Option<Watch>;

    /// The thread that watches is awake; once after each [`CompletionQueue::watch`] of this queue's that was not `None`. `ready`: which of
    /// the descriptors were readable.
    fn awake(&self, ready: [bool; 3]);

    /// Whether a work queue is attached.
    fn in_use(&self) -> bool;

    /// Destroys it (`VipDestroyCQ`).
    ///
    /// # Errors
    /// Handed back if a work queue is attached.
    fn destroy(self) -> Result<(), Self>
    where
        Self: Sized;
}
