//! Long messages: parts of the program's memory, each a message of EMP's.
//!
//! The receiver posts receives for the first parts and says up to where; when some have ended it posts more. Parts have one
//! tag, so EMP has them meet their receives in their order.

use crate::error::Error;
use crate::memory::Buffer;
use emp_eth::{
    CHAIN_PIECES, Handle, Misuse, Node, Outcome, PIECE_MAX, Piece, PostError, Station, Status,
};
use std::collections::VecDeque;

/// Bytes of a part: with pieces as the program has them it is no longer than EMP's longest message.
pub(super) const PART: usize = 4 << 20;
/// Parts that are under way at the same time.
const WINDOW: usize = 4;

/// A long message under way.
#[derive(Debug)]
pub(super) struct Bulk {
    pub(super) node: Node,
    pub(super) tag: u32,
    /// The operation that it belongs to.
    pub(super) operation: u64,
    pub(super) sends: bool,
    buffer: Buffer,
    len: usize,
    /// Up to where there are receives, as far as is known.
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

/// What one look has come to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// Parts that have ended.
    pub(super) ended: u32,
    /// Descriptors of those.
    pub(super) descriptors: usize,
}

impl Bulk {
    /// The first `len` bytes of a buffer are to be sent, or received.
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

    /// There are receives up to there.
    ///
    /// # Errors
    /// [`Error::CORRUPT`] if that is no end of a part, or behind what has been said before.
    pub(super) fn allow(&mut self, upto: u64) -> Result<(), Error> {
        let upto = usize::try_from(upto).map_err(|_| Error::CORRUPT)?;
        let is_end = upto == self.len || upto < self.len && upto.is_multiple_of(PART);
        if !is_end || upto <= self.allowed {
            return Err(Error::CORRUPT);
        }
        self.allowed = upto;
        Ok(())
    }

    /// Posts what may be, with no more descriptors than there are; how many it took. Up to where it has posted: [`Bulk::posted`].
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
            // SAFETY: the program has lent the memory until its operation is over, and that is told only when all parts have
            // ended, or when the station has been dropped.
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

    /// Up to where parts have been posted.
    pub(super) fn posted(&self) -> usize {
        self.posted
    }

    /// Looks which parts have ended.
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

    /// Takes receives back that have met nothing; whatever is posted ends.
    pub(super) fn cancel(&mut self, station: &Station, error: Error) {
        self.error = self.error.or(Some(error));
        if !self.sends {
            for part in &self.parts {
                // It may have ended.
                let _ = station.cancel(part.handle);
            }
        }
    }

    /// Whether the NIC is done with the program's memory for good, and how it went.
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

/// What is wrong with how a part has ended.
fn failed(outcome: &Outcome, len: usize, sends: bool) -> Option<Error> {
    match outcome.status {
        Status::Done => (!sends && outcome.length as usize != len).then_some(Error::CORRUPT),
        status => Some(error_of(status)),
    }
}

/// What the program is told of a transfer that has ended like that.
pub(super) fn error_of(status: Status) -> Error {
    match status {
        Status::PeerDead | Status::UnknownNode => Error::UNREACHABLE,
        Status::PeerRestarted => Error::GONE,
        Status::Done | Status::TooLong => Error::CORRUPT,
        Status::Cancelled | Status::Closed => Error::CANCELED,
    }
}
