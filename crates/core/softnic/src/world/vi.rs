//! A VI: its state and its descriptors.

use crate::access::Access;
use crate::card::Card;
use crate::ids::CqId;
use crate::recent::Recent;
use crate::registered::Registered;
use crate::world::Attempt;
use sovia_link::wire::EndId;
use std::collections::VecDeque;
use std::sync::Arc;
use via::descriptor::Segments;
use via::error::{Cause, ConnectError};
use via::event::ViCallback;
use via::queue::WorkQueue;
use via::{DescriptorAddress, Ptag, Reliability, Status, ViAttributes, ViState, WorkQueueKind};

/// A VI.
#[derive(Debug)]
pub(crate) struct ViCore<N> {
    pub(crate) nic: Arc<Card<N>>,
    pub(crate) context: u64,
    /// Attributes. The protection tag is always present.
    pub(crate) attributes: ViAttributes,
    pub(crate) ptag: Ptag,
    pub(crate) state: ViState,
    pub(crate) cause: Option<Cause>,
    /// The VI's end of a connection. Also present while an acceptance is not settled.
    pub(crate) conn: Option<EndId>,
    pub(crate) send: Workqueue,
    pub(crate) recv: Workqueue,
    /// Posted sends that have not been started.
    pub(crate) waiting: VecDeque<DescriptorAddress>,
    /// Sends in progress, in order.
    pub(crate) started: VecDeque<Started>,
    pub(crate) attempt: Option<Attempt<N>>,
    /// Result of the last attempt, until the program takes it.
    pub(crate) outcome: Option<Result<ViAttributes, ConnectError>>,
    /// Set while a doorbell timer is pending.
    pub(crate) rung: bool,
    /// Set once the overflow of a completion queue has been reported.
    pub(crate) overrun: bool,
    pub(crate) recent: Recent,
}

/// Callbacks for a queue's next completions.
#[derive(Default)]
pub(crate) struct Notify(pub(crate) VecDeque<Registered<ViCallback>>);

impl core::fmt::Debug for Notify {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} callbacks", self.0.len())
    }
}

/// A work queue, its completion queue, and the callbacks that wait for its completions.
#[derive(Debug)]
pub(crate) struct Workqueue {
    pub(crate) work: WorkQueue,
    pub(crate) cq: Option<CqId>,
    pub(crate) notify: Notify,
}

impl Workqueue {
    pub(crate) fn new(capacity: u32, cq: Option<CqId>) -> Workqueue {
        Workqueue { work: WorkQueue::new(capacity), cq, notify: Notify::default() }
    }
}

impl<N> ViCore<N> {
    pub(crate) fn queue(&mut self, kind: WorkQueueKind) -> &mut Workqueue {
        match kind {
            WorkQueueKind::Send => &mut self.send,
            WorkQueueKind::Recv => &mut self.recv,
        }
    }

    pub(crate) fn access(&self) -> Access<'_> {
        let (table, pins, recent) = (&self.nic.table, &self.nic.pins, &self.recent);
        Access { table, pins, recent, ptag: self.ptag }
    }

    pub(crate) fn is_reliable(&self) -> bool {
        self.attributes.reliability != Reliability::UNRELIABLE
    }
}

/// A send in progress.
#[derive(Debug)]
pub(crate) struct Started {
    /// Number of the send's last item.
    pub(crate) last: u64,
    pub(crate) operation: Status,
    pub(crate) length: u32,
    pub(crate) progress: Progress,
    /// Set until the medium has moved the send's bytes.
    pub(crate) moving: bool,
}

/// Progress of a send.
#[derive(Debug)]
pub(crate) enum Progress {
    /// The peer has not acknowledged the send's last item.
    Sent,
    /// An RDMA read that waits for its answer, with its segments.
    Reading(Segments),
    /// Successful, but earlier sends may be unfinished.
    Done,
    /// Failed by an error of the descriptor itself.
    Failed(Status),
}
