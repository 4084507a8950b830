//! Messages whose bytes the medium moves.

use crate::card::Card;
use crate::ids::ViId;
use smallvec::SmallVec;
use sovia_link::wire::{EndId, Operation};
use std::sync::Arc;
use via::descriptor::Segments;
use via::{MemHandle, Memory};

/// An announced message of this end whose bytes the peer has not requested yet.
#[derive(Debug)]
pub(crate) struct Announced {
    /// Number of the message's item.
    pub(crate) number: u64,
    pub(crate) source: Lending,
}

/// Position of a message's bytes.
#[derive(Debug)]
pub(crate) enum Lending {
    /// In memory that the VI may use.
    Segments(Segments),
    /// In a copy.
    Copied(Memory),
}

/// A message of the peer whose bytes are being moved.
#[derive(Debug)]
pub(crate) struct Coming {
    pub(crate) number: u64,
    pub(crate) operation: Operation,
    pub(crate) immediate: Option<u32>,
    pub(crate) total: u32,
    /// Result of placing the bytes, once it is known.
    pub(crate) placed: Option<Result<(), via::Status>>,
}

impl Coming {
    /// Returns true if the message consumes a posted receive.
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

/// A move by the medium, which may outlive its connection.
pub(crate) struct Move<N> {
    pub(crate) nic: Arc<Card<N>>,
    pub(crate) vi: ViId,
    pub(crate) conn: EndId,
    pub(crate) number: u64,
    pub(crate) way: Way,
    /// Handles of the regions in use.
    pub(crate) regions: SmallVec<[u32; 4]>,
}

/// Direction and destination of a move.
#[derive(Debug)]
pub(crate) enum Way {
    /// To the peer.
    Out,
    /// Directly into place.
    In,
    /// Into temporary memory, from which the bytes are copied to the segments.
    By(Memory, Segments),
}

impl<N> core::fmt::Debug for Move<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "message {} of {:?}: {:?}", self.number, self.conn, self.way)
    }
}

impl<N> Move<N> {
    /// Returns true if the move uses a region of a NIC.
    pub(crate) fn uses(&self, nic: &Arc<Card<N>>, handle: MemHandle) -> bool {
        Arc::ptr_eq(&self.nic, nic) && self.regions.contains(&handle.raw())
    }
}
