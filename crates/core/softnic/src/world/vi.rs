//! A VI: its state, and its descriptors.

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
    /// The tag is always named.
    pub(crate) attributes: ViAttributes,
    pub(crate) ptag: Ptag,
    pub(crate) state: ViState,
    pub(crate) cause: Option<Cause>,
    /// Its end of a connection; there too while an acceptance is not settled.
    pub(crate) conn: Option<EndId>,
    pub(crate) send: Workqueue,
    pub(crate) recv: Workqueue,
    /// Posted sends that the engine has not looked at yet.
    pub(crate) waiting: VecDeque<DescriptorAddress>,
    /// Sends that are under way, in order.
    pub(crate) started: VecDeque<Started>,
    pub(crate) attempt: Option<Attempt<N>>,
    /// What has become of the last attempt, until it is asked for.
    pub(crate) outcome: Option<Result<ViAttributes, ConnectError>>,
    /// A doorbell is on its way.
    pub(crate) rung: bool,
    /// The program has been told that a completion queue ran over.
    pub(crate) overrun: bool,
    pub(crate) recent: Recent,
}

/// Callbacks that are to have a queue's next completions.
#[derive(Default)]
pub(crate) struct Notify(pub(crate) VecDeque<Registered<ViCallback>>);

impl core::fmt::Debug for Notify {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} callbacks", self.0.len())
    }
}

/// A work queue, the completion queue that it is attached to, and the callbacks that wait for it.
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

/// A descriptor of the send queue that is under way.
#[derive(Debug)]
pub(crate) struct Started {
    /// The number of its last item.
    pub(crate) last: u64,
    pub(crate) operation: Status,
    pub(crate) length: u32,
    pub(crate) progress: Progress,
    /// The medium has not moved its bytes yet.
    pub(crate) moving: bool,
}

/// How far it is.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Its last item is not acknowledged.
    Sent,
    /// The answer to an RDMA read is to come, for these segments.
    Reading(Segments),
    /// Done well; it may wait for those before it.
    Done,
    /// Done badly, by its own fault.
    Failed(Status),
}
