//! A message that comes in parts, in order: each part goes to the memory where it belongs as it comes.

use crate::world::{Progress, Started, ViCore};
use sovia_link::message::Message;
use sovia_link::wire::{Operation, Part, Payload};
use via::descriptor::Segments;
use via::{DataSegment, Status, WorkQueueKind};

/// The message of a connection that is coming.
#[derive(Debug)]
pub(crate) struct Arriving {
    /// Bytes of the longest message.
    longest: u32,
    begun: Option<Begun>,
}

/// A message of which some parts have come.
#[derive(Debug)]
struct Begun {
    operation: Operation,
    immediate: Option<u32>,
    total: u32,
    came: u32,
    into: Target,
}

/// Where a message's bytes go.
#[derive(Debug)]
enum Target {
    /// To memory that the VI may use, whose segments have room for all of them.
    Memory(Segments),
    /// Nowhere yet: no receive is posted, and there may be one when the last part comes.
    Buffer(Vec<u8>),
    /// Nowhere: that is what becomes of the message.
    Nowhere(Status),
}

/// A message all parts of which have come.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) operation: Operation,
    pub(crate) immediate: Option<u32>,
    pub(crate) length: u32,
    pub(crate) bytes: Bytes,
}

/// What has become of a message's bytes.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// They are where they belong.
    Placed,
    /// They are to be placed.
    Here(Vec<u8>),
    /// They cannot be placed.
    Refused(Status),
}

impl Arriving {
    /// For messages of up to `longest` bytes.
    pub(crate) fn new(longest: u32) -> Arriving {
        Arriving { longest, begun: None }
    }

    /// Whether a part can be the next one.
    pub(crate) fn fits<B: Payload + AsRef<[u8]>>(&self, part: &Part<B>) -> bool {
        let of = (part.operation, part.immediate, part.total, part.start);
        part.total <= self.longest
            && !part.is_announcement()
            && match &self.begun {
                None => part.start == 0,
                Some(it) => (it.operation, it.immediate, it.total, it.came) == of,
            }
    }

    /// Whether a part announces the next message, whose bytes come by themselves.
    pub(crate) fn announces<B>(&self, part: &Part<B>) -> bool {
        part.start == 0 && part.total <= self.longest && self.begun.is_none()
    }

    /// The next part, which fits, for that VI; returns the message if it was the last one.
    pub(crate) fn add<N, B: Payload + AsRef<[u8]>>(
        &mut self,
        part: &Part<B>,
        vi: &ViCore<N>,
    ) -> Option<Arrived> {
        let Part { operation, immediate, total, .. } = *part;
        let begin = || Begun { operation, immediate, total, came: 0, into: vi.target(part) };
        let begun = self.begun.get_or_insert_with(begin);
        let bytes = part.bytes.as_ref();
        match &mut begun.into {
            Target::Memory(segments) => {
                if let Err(status) = vi.place(operation, segments, part.start, bytes) {
                    begun.into = Target::Nowhere(status);
                }
            }
            Target::Buffer(buffer) => buffer.extend_from_slice(bytes),
            Target::Nowhere(_) => {}
        }
        begun.came = part.end();
        if !part.is_last() {
            return None;
        }
        let bytes = match self.begun.take()?.into {
            Target::Memory(_) => Bytes::Placed,
            Target::Buffer(buffer) => Bytes::Here(buffer),
            Target::Nowhere(status) => Bytes::Refused(status),
        };
        Some(Arrived { operation, immediate, length: total, bytes })
    }
}

impl Arrived {
    /// A message that has come whole, for that VI; `None` if it is longer than a message can be.
    pub(crate) fn whole<N>(message: &Message, vi: &ViCore<N>) -> Option<Arrived> {
        let Message { operation, immediate, ref bytes } = *message;
        let total = u32::try_from(bytes.len()).ok()?;
        let part = Part { operation, immediate, total, start: 0, bytes };
        Arriving::new(total).add(&part, vi)
    }
}

impl<N> ViCore<N> {
    /// Where a message's bytes go whose first part that is.
    fn target<B>(&self, part: &Part<B>) -> Target {
        if part.operation == Operation::Send && self.recv.work.front().is_none() {
            // No page of it is touched before its bytes are there.
            return Target::Buffer(Vec::with_capacity(part.total as usize));
        }
        self.whereto(part.operation, part.total, 0).map_or_else(Target::Nowhere, Target::Memory)
    }

    /// Where the bytes of a message go, of which so many that are not done yet meet receives before it.
    ///
    /// # Errors
    /// What becomes of it where it has no place.
    pub(crate) fn whereto(
        &self,
        operation: Operation,
        total: u32,
        ahead: u32,
    ) -> Result<Segments, Status> {
        let access = self.access();
        let total = total as usize;
        match operation {
            Operation::Send => {
                let receive = self.recv.work.pending(ahead).ok_or(Status::TRANSPORT_ERROR)?;
                access.reserve(&access.load(receive, WorkQueueKind::Recv)?.data, total)
            }
            Operation::Write { address, handle } => {
                let segment = DataSegment { address, handle, length: total as u32 };
                let allowed = self.attributes.enable_rdma_write;
                allowed.then_some(()).ok_or(Status::RDMA_PROT_ERROR)?;
                access.reserve(&[segment], total)
            }
            Operation::ReadReply { read } => {
                let data = self.reading(read).ok_or(Status::RDMA_PROT_ERROR)?;
                access.reserve(data, total)
            }
        }
    }

    /// Places bytes that begin at byte `at` of their message. Rights are looked at for each part: the program may have changed
    /// them since the one before.
    fn place(
        &self,
        operation: Operation,
        segments: &[DataSegment],
        at: u32,
        bytes: &[u8],
    ) -> Result<(), Status> {
        let access = self.access();
        if let (Operation::Write { .. }, [segment]) = (operation, segments) {
            access.may_write(segment).ok_or(Status::RDMA_PROT_ERROR)?;
        }
        access.put(segments, at as usize, bytes)
    }

    /// The segments that the RDMA read of that number is for.
    fn reading(&self, read: u64) -> Option<&Segments> {
        self.started.iter().find_map(|it| match it {
            Started { last, progress: Progress::Reading(data), .. } if *last == read => Some(data),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(total: u32, start: u32, bytes: &[u8]) -> Part<&[u8]> {
        Part { operation: Operation::Send, immediate: None, total, start, bytes }
    }

    #[test]
    fn only_the_beginning_of_a_message_that_is_not_too_long_fits_at_first() {
        let arriving = Arriving::new(10);
        assert!(arriving.fits(&part(10, 0, b"ab")) && arriving.fits(&part(0, 0, b"")));
        assert!(!arriving.fits(&part(11, 0, b"ab")) && !arriving.fits(&part(10, 1, b"ab")));
    }
}
