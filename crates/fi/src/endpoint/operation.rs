//! Operations under way: requests to a peer that have no answer yet.

use super::{Common, Count, Endpoint};
use crate::completion::{Completion, Failure};
use crate::error::Error;
use crate::memory::Buffer;
use crate::region::Registration;
use crate::wire::Pieces;

/// An operation under way.
#[derive(Debug)]
pub(super) struct Operation {
    /// The only peer whose messages may name this operation.
    pub(super) peer: u32,
    /// The program's memory for the bytes.
    pub(super) buffer: Buffer,
    /// Set if bytes from the peer go into the buffer.
    pub(super) takes: bool,
    /// Number of bytes that have arrived, from the start, and number of bytes that must arrive. This end has copied the
    /// bytes after `expected` itself.
    pub(super) got: usize,
    pub(super) expected: usize,
    /// Addresses of the bytes in the peer's memory, if this end can copy from there.
    pub(super) pieces: Option<Pieces>,
    /// The completion at the end, its counter, and a flag: set if the queue gets an entry for success.
    pub(super) completion: Completion,
    pub(super) count: Count,
    pub(super) tell: bool,
    /// For a receive: number of bytes that do not fit into the buffer.
    pub(super) excess: usize,
    /// For a receive: the sender's number of the operation.
    pub(super) origin: Option<u64>,
    /// For a peer's write: the region of `buffer`. The program may deregister the region meanwhile.
    pub(super) region: Option<Registration>,
}

impl Endpoint {
    /// Ends operation `id` of `peer`. Returns true if such an operation exists.
    pub(super) fn end(
        &mut self,
        common: &mut Common,
        peer: u32,
        id: u64,
        result: Result<(), Error>,
    ) -> bool {
        if self.operations.get_mut(id).is_none_or(|operation| operation.peer != peer) {
            return false;
        }
        if self.is_held(id, result) {
            return true;
        }
        if let Some(operation) = self.operations.remove(id) {
            self.tell(common, operation, result);
        }
        true
    }

    /// Reports the end of an operation.
    pub(super) fn tell(
        &mut self,
        common: &mut Common,
        operation: Operation,
        result: Result<(), Error>,
    ) {
        let Operation { completion, count, tell, excess, region, .. } = operation;
        let error = match result {
            Ok(()) if excess > 0 => Error::TRUNCATED,
            Ok(()) => {
                let counter = region.and_then(|region| common.regions.of(region)?.counter);
                super::serve::count(common, counter);
                return self.complete(common, count, tell, completion);
            }
            Err(error) => error,
        };
        self.fail(common, count, Failure { completion, excess, error });
    }
}
