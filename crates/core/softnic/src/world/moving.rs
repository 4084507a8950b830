//! Messages whose bytes the medium moves.

use crate::card::Card;
use crate::ids::ViId;
use smallvec::SmallVec;
use sovia_link::wire::{EndId, Operation};
use std::sync::Arc;
use via::descriptor::Segments;
use via::{MemHandle, Memory};

/// A message of this end's that has been announced and is not asked for yet.
#[derive(Debug)]
pub(crate) struct Announced {
    /// The number of its item.
    pub(crate) number: u64,
    pub(crate) source: Lending,
}

/// Where its bytes are.
#[derive(Debug)]
pub(crate) enum Lending {
    /// In memory that the VI may use.
    Segments(Segments),
    /// In a copy.
    Copied(Memory),
}

/// A message of the other end's whose bytes are coming.
#[derive(Debug)]
pub(crate) struct Coming {
    pub(crate) number: u64,
    pub(crate) operation: Operation,
    pub(crate) immediate: Option<u32>,
    pub(crate) total: u32,
    /// What has become of its bytes, once that is known.
    pub(crate) placed: Option<Result<(), via::Status>>,
}

impl Coming {
    /// Whether it consumes a posted receive.
    pub(crate) fn takes_receive(&self) -> bool {
        takes_receive(&self.operation, self.immediate)
    }
}

fn takes_receive(operation: &Operation, immediate: Option<u32>) -> bool {
    match operation {
        Operation::Send => true,
        Operation::Write { .. } => immediate.is_some(),
        Operation::ReadReply { .. } => false,
    }
}

/// Bytes that the medium is moving. It may outlive its connection.
pub(crate) struct Move<N> {
    pub(crate) nic: Arc<Card<N>>,
    pub(crate) vi: ViId,
    pub(crate) conn: EndId,
    pub(crate) number: u64,
    pub(crate) way: Way,
    /// The regions that are used.
    pub(crate) regions: SmallVec<[u32; 4]>,
}

/// Which way bytes move.
#[derive(Debug)]
pub(crate) enum Way {
    /// To the other side.
    Out,
    /// To where they belong.
    In,
    /// To memory in between, from which they are copied to those segments.
    By(Memory, Segments),
}

impl<N> core::fmt::Debug for Move<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "message {} of {:?}: {:?}", self.number, self.conn, self.way)
    }
}

impl<N> Move<N> {
    /// Whether it uses a region of a NIC.
    pub(crate) fn uses(&self, nic: &Arc<Card<N>>, handle: MemHandle) -> bool {
        Arc::ptr_eq(&self.nic, nic) && self.regions.contains(&handle.raw())
    }
}
