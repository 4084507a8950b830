//! Operations that are under way: what has been asked of a peer and not been answered yet.

use super::{Common, Count, Endpoint};
use crate::completion::{Completion, Failure};
use crate::error::Error;
use crate::memory::Buffer;
use crate::region::Registration;
use crate::wire::Pieces;

/// An operation under way.
#[derive(Debug)]
pub(super) struct Operation {
    /// The only peer that may speak of it.
    pub(super) peer: u32,
    /// The program's memory that is read from or written to.
    pub(super) buffer: Buffer,
    /// Whether bytes of the peer's go to the buffer.
    pub(super) takes: bool,
    /// Bytes that have arrived, from the first on, and bytes that are to: those behind them have been copied.
    pub(super) got: usize,
    pub(super) expected: usize,
    /// Where in the peer's memory the bytes are, if they can be copied from there.
    pub(super) pieces: Option<Pieces>,
    /// What is told at its end, to which counter, and whether the queue is told of success.
    pub(super) completion: Completion,
    pub(super) count: Count,
    pub(super) tell: bool,
    /// Of a receive: bytes beyond its buffer.
    pub(super) excess: usize,
    /// Of a receive: the sender's id of it.
    pub(super) origin: Option<u64>,
    /// Of a peer's write: the region, which the program may take back meanwhile. `buffer` is a part of it.
    pub(super) region: Option<Registration>,
}

impl Endpoint {
    /// Ends an operation that the peer may end; whether there was one.
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

    /// Tells the end of an operation.
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
