//! A message that arrives in parts, in order. Each part goes directly to its memory.

use crate::world::{Progress, Started, ViCore};
use sovia_link::message::Message;
use sovia_link::wire::{Operation, Part, Payload};
use via::descriptor::Segments;
use via::{DataSegment, Status, WorkQueueKind};

/// The message that is currently arriving on a connection.
#[derive(Debug)]
pub(crate) struct Arriving {
    /// Bytes of the longest message.
    longest: u32,
    begun: Option<Begun>,
}

/// A message with some arrived parts.
#[derive(Debug)]
struct Begun {
    operation: Operation,
    immediate: Option<u32>,
    total: u32,
    came: u32,
    into: Target,
}

/// Destination of a message's bytes.
#[derive(Debug)]
enum Target {
    /// Memory that the VI may use. The segments have room for all bytes.
    Memory(Segments),
    /// A temporary buffer, because no receive is posted. The program may post a receive before the last part arrives.
    Buffer(Vec<u8>),
    /// No destination. The status is the message's result.
    Nowhere(Status),
}

/// A message whose parts have all arrived.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) operation: Operation,
    pub(crate) immediate: Option<u32>,
    pub(crate) length: u32,
    pub(crate) bytes: Bytes,
}

/// State of a message's bytes.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// The bytes are in place.
    Placed,
    /// The bytes must still be placed.
    Here(Vec<u8>),
    /// The bytes cannot be placed.
    Refused(Status),
}

impl Arriving {
    /// Accepts messages of up to `longest` bytes.
    pub(crate) fn new(longest: u32) -> Arriving {
        Arriving { longest, begun: None }
    }

    /// Returns true if a part can be the next one.
    pub(crate) fn fits<B: Payload + AsRef<[u8]>>(&self, part: &Part<B>) -> bool {
        let of = (part.operation, part.immediate, part.total, part.start);
        part.total <= self.longest
            && !part.is_announcement()
            && match &self.begun {
                None => part.start == 0,
                Some(it) => (it.operation, it.immediate, it.total, it.came) == of,
            }
    }

    /// Returns true if a part announces the next message, whose bytes arrive separately.
    pub(crate) fn announces<B>(&self, part: &Part<B>) -> bool {
        part.start == 0 && part.total <= self.longest && self.begun.is_none()
    }

    /// Adds the next part, which must fit. Returns the message if this was its last part.
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
    /// Places a complete message; `None` if it is longer than a message can be.
    pub(crate) fn whole<N>(message: &Message, vi: &ViCore<N>) -> Option<Arrived> {
        let Message { operation, immediate, ref bytes } = *message;
        let total = u32::try_from(bytes.len()).ok()?;
        let part = Part { operation, immediate, total, start: 0, bytes };
        Arriving::new(total).add(&part, vi)
    }
}

impl<N> ViCore<N> {
    /// Returns the destination of a message that begins with this part.
    fn target<B>(&self, part: &Part<B>) -> Target {
        if part.operation == Operation::Send && self.recv.work.front().is_none() {
            // The kernel provides no page of the buffer before its bytes arrive.
            return Target::Buffer(Vec::with_capacity(part.total as usize));
        }
        self.whereto(part.operation, part.total, 0).map_or_else(Target::Nowhere, Target::Memory)
    }

    /// Returns the segments for a message's bytes. `ahead` is the number of unfinished earlier messages that consume
    /// receives.
    ///
    /// # Errors
    /// The result of the message, if it has no destination.
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

    /// Writes bytes from byte `at` of their message on. Checks the rights for each part, because the program may have
    /// changed them since the previous part.
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

    /// Returns the segments of the RDMA read with this number.
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
