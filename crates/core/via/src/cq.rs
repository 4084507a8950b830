//! Completion queues: one place to poll for completions of many work queues.
//!
//! VIA 1.0: a program may attach a work queue to a completion queue when it creates the VI. Each completed descriptor
//! then adds an entry, which names the VI and one of its two queues. The program takes the entry and then the
//! descriptor.

use crate::error::{CqError, WaitError};
use core::time::Duration;
use std::os::fd::RawFd;

/// One of the two work queues of a VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkQueueKind {
    /// The send queue.
    Send,
    /// The receive queue.
    Recv,
}

/// An entry of a completion queue: one more descriptor of this work queue is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CqEntry {
    /// Value that the program chose to identify the VI ([`Attach::context`]).
    pub context: u64,
    /// The work queue of the VI.
    pub queue: WorkQueueKind,
}

/// A callback that runs once and receives an entry of a completion queue.
pub type CqCallback = Box<dyn FnOnce(CqEntry) + Send>;

/// A callback that runs once when a completion queue has an entry, and leaves the entry in the queue. The callback runs
/// immediately in the thread that adds the entry, maybe under the provider's locks. So the callback may wake a thread,
/// but must not call the NIC or wait.
pub type CqSignal = Box<dyn FnOnce() + Send>;

/// File descriptors and a deadline for a thread that waits for a completion queue and for other events
/// ([`CompletionQueue::watch`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watch {
    /// File descriptors that become readable when there may be work; -1 for none. The descriptors stay the same while
    /// the NIC is open.
    pub descriptors: [RawFd; 3],
    /// Time at which there is work even if no descriptor is readable (nanoseconds of CLOCK_MONOTONIC).
    pub until: Option<u64>,
}

/// Completion queues and context of a new VI (`VipCreateVi`).
#[derive(Debug)]
pub struct Attach<'a, Cq> {
    /// The completion queue of the VI's send queue.
    pub send: Option<&'a Cq>,
    /// The completion queue of the VI's receive queue.
    pub recv: Option<&'a Cq>,
    /// Value chosen by the program to identify the VI in completion queues and error reports.
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

/// A completion queue. If it is dropped while work queues are attached, the last of them to be dropped frees it.
pub trait CompletionQueue: Send + Sync {
    /// Returns the largest number of entries.
    fn capacity(&self) -> u32;

    /// Changes the largest number of entries, and keeps the current entries (`VipResizeCQ`).
    ///
    /// # Errors
    /// [`CqError::Entries`] if the number is zero, above the NIC's limit, or below the number of current entries.
    fn resize(&self, entries: u32) -> Result<(), CqError>;

    /// Takes the oldest entry (`VipCQDone`). Each completed descriptor of an attached work queue has one entry. Entries
    /// of one work queue are in completion order.
    fn done(&self) -> Option<CqEntry>;

    /// Like [`CompletionQueue::done`], but waits for an entry (`VipCQWait`).
    ///
    /// # Errors
    /// [`WaitError::Timeout`].
    fn wait(&self, timeout: Option<Duration>) -> Result<CqEntry, WaitError>;

    /// Registers `callback` for one entry: a NIC thread takes the next entry and passes it on (`VipCQNotify`).
    /// Callbacks run in the order of their calls. Destroying the completion queue cancels the remaining callbacks.
    fn notify(&self, callback: CqCallback);

    /// Runs `signal` once when the program can take an entry: now, or with the next entry that no callback of
    /// [`CompletionQueue::notify`] takes. The entry stays in the queue, and another thread may take it first.
    /// Destroying the completion queue cancels the remaining signals.
    fn signal(&self, signal: CqSignal);

    /// Begins a sleep of the calling thread on the returned descriptors and on others of its own.
    ///
    /// From here to [`CompletionQueue::awake`], the calling thread watches the network instead of the NIC's own thread,
    /// which need not wake for arriving frames. The calling thread must not call the NIC during this time. If the queue
    /// has an entry, [`Watch::until`] is in the past.
    ///
    /// Returns `None` if the NIC cannot be watched in this way, or if another thread watches it or sleeps in a call of
    /// the NIC. Then use [`CompletionQueue::signal`]. While threads watch now and then, callbacks and other signals may
    /// be late by some tens of milliseconds. Destroying the completion queue ends its watch.
    fn watch(&self) -> Option<Watch>;

    /// Ends the sleep of the watching thread. Call it once after each [`CompletionQueue::watch`] of this queue that did
    /// not return `None`. `ready` says which of the descriptors were readable.
    fn awake(&self, ready: [bool; 3]);

    /// Returns true while a work queue is attached.
    fn in_use(&self) -> bool;

    /// Destroys the completion queue (`VipDestroyCQ`).
    ///
    /// # Errors
    /// Returns the completion queue if a work queue is attached.
    fn destroy(self) -> Result<(), Self>
    where
        Self: Sized;
}
