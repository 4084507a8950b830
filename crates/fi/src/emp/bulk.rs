//! Long messages between hosts. EMP sends each part as a message, directly from and to the program's memory.
//!
//! The receiver posts receives for the first parts, and reports up to which byte it has posted. When some receives have
//! ended, the receiver posts more. All parts of a message have one tag, so EMP matches the parts to their receives in
//! order.

use crate::error::Error;
use crate::memory::Buffer;
use emp_eth::{
    CHAIN_PIECES, Handle, Misuse, Node, Outcome, PIECE_MAX, Piece, PostError, Station, Status,
};
use std::collections::VecDeque;

/// Bytes of a part. Even with the program's own split into pieces, a part fits into EMP's longest message.
pub(super) const PART: usize = 4 << 20;
/// Number of parts under way at the same time.
const WINDOW: usize = 4;

/// A long message under way.
#[derive(Debug)]
pub(super) struct Bulk {
    pub(super) node: Node,
    pub(super) tag: u32,
    /// The number of the operation that this message belongs to.
    pub(super) operation: u64,
    pub(super) sends: bool,
    buffer: Buffer,
    len: usize,
    /// Number of bytes, from the start, for which the receiver has posted receives, as far as this end knows.
    allowed: usize,
    posted: usize,
    parts: VecDeque<Part>,
    pub(super) error: Option<Error>,
}

#[derive(Debug)]
struct Part {
    handle: Handle,
    len: usize,
    descriptors: usize,
}

/// Results of [`Bulk::look`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// Number of parts that have ended.
    pub(super) ended: u32,
    /// Number of descriptors of the ended parts.
    pub(super) descriptors: usize,
}

impl Bulk {
    /// Prepares to send or receive the first `len` bytes of a buffer.
    pub(super) fn new(
        (node, tag): (Node, u32),
        operation: u64,
        sends: bool,
        buffer: &Buffer,
        len: usize,
    ) -> Bulk {
        let buffer = buffer.sub(0, len);
        let allowed = if sends { 0 } else { len };
        let parts = VecDeque::new();
        Bulk { node, tag, operation, sends, buffer, len, allowed, posted: 0, parts, error: None }
    }

    /// Records that the receiver has posted receives for the bytes before `upto`.
    ///
    /// # Errors
    /// Returns [`Error::CORRUPT`] if `upto` is not the end of a part, or not larger than an earlier `upto`.
    pub(super) fn allow(&mut self, upto: u64) -> Result<(), Error> {
        let upto = usize::try_from(upto).map_err(|_| Error::CORRUPT)?;
        let is_end = upto == self.len || upto < self.len && upto.is_multiple_of(PART);
        if !is_end || upto <= self.allowed {
            return Err(Error::CORRUPT);
        }
        self.allowed = upto;
        Ok(())
    }

    /// Posts as many parts as allowed, with at most `room` descriptors. Returns the number of descriptors used.
    /// [`Bulk::posted`] returns the new end of the posted bytes.
    pub(super) fn post(&mut self, station: &Station, room: usize) -> usize {
        let mut used = 0;
        while self.error.is_none() && self.posted < self.allowed && self.parts.len() < WINDOW {
            let len = (self.len - self.posted).min(PART);
            let mut pieces = Vec::with_capacity(crate::memory::PIECES_MAX);
            let mut count = 0;
            for piece in self.buffer.part(self.posted, len) {
                pieces.push(Piece { address: piece.address as u64, length: piece.len });
                count += piece.len.div_ceil(PIECE_MAX);
            }
            let chained = 1 + count.saturating_sub(1).div_ceil(2);
            let descriptors = if count > CHAIN_PIECES { 1 } else { chained };
            if used + descriptors > room {
                return used;
            }
            // SAFETY: the program has lent the memory until its operation is over. The operation is over only when all
            // parts have ended, or when the station has been dropped.
            let posted = unsafe {
                match self.sends {
                    true => station.post_send(self.node, self.tag, &pieces),
                    false => station.post_receive(Some(self.node), Some(self.tag), &pieces),
                }
            };
            match posted {
                Ok(handle) => self.parts.push_back(Part { handle, len, descriptors }),
                Err(PostError::Full) => return used,
                Err(_) => self.error = Some(Error::FAULT),
            }
            used += descriptors;
            self.posted += len;
        }
        used
    }

    /// Returns the number of bytes, from the start, in posted parts.
    pub(super) fn posted(&self) -> usize {
        self.posted
    }

    /// Checks which parts have ended.
    pub(super) fn look(&mut self, station: &Station) -> Found {
        let mut found = Found::default();
        let (mut error, is_send) = (self.error, self.sends);
        self.parts.retain(|part| {
            match station.outcome(part.handle) {
                Ok(None) => return true,
                Ok(Some(outcome)) => {
                    found.ended += 1;
                    error = error.or(failed(&outcome, part.len, is_send));
                }
                Err(Misuse) => error = error.or(Some(Error::CORRUPT)),
            }
            found.descriptors += part.descriptors;
            false
        });
        self.error = error;
        found
    }

    /// Cancels receives that no message has met. Every posted part ends later.
    pub(super) fn cancel(&mut self, station: &Station, error: Error) {
        self.error = self.error.or(Some(error));
        if !self.sends {
            for part in &self.parts {
                // Ignores the error of a part that has already ended.
                let _ = station.cancel(part.handle);
            }
        }
    }

    /// Returns the result when the NIC no longer uses the program's memory; `None` before.
    pub(super) fn result(&self) -> Option<Result<(), Error>> {
        if !self.parts.is_empty() {
            return None;
        }
        match self.error {
            Some(error) => Some(Err(error)),
            None => (self.posted == self.len).then_some(Ok(())),
        }
    }
}

/// Returns the error of an ended part; `None` if the part is complete.
fn failed(outcome: &Outcome, len: usize, sends: bool) -> Option<Error> {
    match outcome.status {
        Status::Done => (!sends && outcome.length as usize != len).then_some(Error::CORRUPT),
        status => Some(error_of(status)),
    }
}

/// Converts the status of an ended transfer into the error that the program sees.
pub(super) fn error_of(status: Status) -> Error {
    match status {
        Status::PeerDead | Status::UnknownNode => Error::UNREACHABLE,
        Status::PeerRestarted => Error::GONE,
        Status::Done | Status::TooLong => Error::CORRUPT,
        Status::Cancelled | Status::Closed => Error::CANCELED,
    }
}
