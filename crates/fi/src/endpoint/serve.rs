//! The target's side of peers' reads, writes and atomic operations on registered memory.

use super::operation::Operation;
use super::push::{From, Push};
use super::{Common, Count, Endpoint};
use crate::atomic::Code;
use crate::completion::Completion;
use crate::error::Error;
use crate::flag::{self, REMOTE_READ, REMOTE_WRITE};
use crate::memory::{Buffer, Missed};
use crate::shm::{Body, Corrupt, Head};
use crate::wire::{GRANT, NEED, PUSH, WITH_DATA, pieces_of};

/// Largest read, in bytes, that the target answers from a copy. The program may then deregister the region at once.
const SMALL: usize = crate::shm::EAGER_MAX;

impl Endpoint {
    /// Executes a write whose bytes are in the message.
    pub(super) fn serve_write(
        &mut self,
        common: &mut Common,
        peer: u32,
        head: Head,
        body: &Body<'_>,
    ) -> Result<(), Corrupt> {
        const WORDS: usize = 2;
        let [id, address] = body.words();
        let len = body.len().checked_sub(8 * WORDS).ok_or(Corrupt("a write without words"))?;
        let found = common.regions.find(head.tag, address, len as u64, REMOTE_WRITE);
        let result = found.map(|(region, at)| {
            body.copy(8 * WORDS, &region.memory, at);
            region.counter
        });
        self.written(common, peer, id, head, len, result, flag::RMA);
        Ok(())
    }

    /// Executes a write whose bytes are in the initiator's memory.
    pub(super) fn serve_long_write(
        &mut self,
        common: &mut Common,
        peer: u32,
        head: Head,
        body: &Body<'_>,
    ) -> Result<(), Corrupt> {
        let words: [u64; crate::shm::WORDS_MAX] = body.words();
        let [id, address, len, ..] = words;
        let end = (body.len() / 8).min(words.len());
        let pieces = words.get(3..end).and_then(|words| pieces_of(words, len));
        let pieces = pieces.ok_or(Corrupt("pieces of another length"))?;
        let len = len as usize;
        let (region, at) = match common.regions.find(head.tag, address, len as u64, REMOTE_WRITE) {
            Ok(found) => found,
            Err(error) => {
                self.written(common, peer, id, head, len, Err(error), flag::RMA);
                return Ok(());
            }
        };
        let memory = self.peers[peer as usize].memory.as_mut().filter(|memory| memory.is_open());
        let missed = match memory {
            Some(memory) => memory.read(&region.memory.sub(at, len), 0, pieces.as_slice()),
            None => Err(Missed::Closed),
        };
        let result = match missed {
            Ok(()) => Ok(region.counter),
            Err(Missed::Closed) => {
                let buffer = region.memory.sub(at, len);
                let completion = Completion {
                    flags: written_flags(head, flag::RMA),
                    data: head.data,
                    len,
                    source: self.peers[peer as usize].number,
                    ..Completion::default()
                };
                let own = self.operations.insert(Operation {
                    peer,
                    buffer,
                    takes: true,
                    got: 0,
                    expected: len,
                    pieces: None,
                    completion,
                    count: Count::RemoteWrite,
                    tell: head.kind & WITH_DATA != 0,
                    excess: 0,
                    origin: Some(id),
                    region: common.regions.registration(head.tag),
                });
                self.answer(peer, Head { kind: NEED, len: 0, tag: id, data: own }, &[len as u64]);
                return Ok(());
            }
            // The link reports the peer's end.
            Err(Missed::Gone) => return Ok(()),
            Err(Missed::Fault) => Err(Error::FAULT),
        };
        self.written(common, peer, id, head, len, result, flag::RMA);
        Ok(())
    }

    /// Reports to both ends that a write was executed or refused.
    #[expect(clippy::too_many_arguments, reason = "what is told is all of this")]
    fn written(
        &mut self,
        common: &mut Common,
        peer: u32,
        id: u64,
        head: Head,
        len: usize,
        result: Result<Option<usize>, Error>,
        kind: u64,
    ) {
        if let Ok(counter) = result {
            let completion = Completion {
                flags: written_flags(head, kind),
                data: head.data,
                len,
                source: self.peers[peer as usize].number,
                ..Completion::default()
            };
            let tell = head.kind & WITH_DATA != 0;
            self.complete(common, Count::RemoteWrite, tell, completion);
            count(common, counter);
        }
        self.confirm(peer, Some(id), result.err());
    }

    /// Executes a read.
    pub(super) fn serve_read(
        &mut self,
        common: &mut Common,
        peer: u32,
        head: Head,
        body: &Body<'_>,
    ) -> Result<(), Corrupt> {
        let [id, address, len] = body.words();
        if body.len() != 24 {
            return Err(Corrupt("a read of another length"));
        }
        let (region, at) = match common.regions.find(head.tag, address, len, REMOTE_READ) {
            Ok(found) => found,
            Err(error) => {
                self.confirm(peer, Some(id), Some(error));
                return Ok(());
            }
        };
        let len = len as usize;
        let mut pieces = region.memory.part(at, len);
        let only = pieces.next().filter(|piece| piece.len == len && len > SMALL);
        let granted = only.filter(|_| head.kind & PUSH == 0);
        let from = if len > SMALL {
            From::Region(head.tag, address)
        } else {
            let mut bytes = vec![0; len];
            region.memory.read(at, &mut bytes);
            From::Own(bytes)
        };
        drop(pieces);
        match granted {
            Some(piece) => {
                let head = Head { kind: GRANT, len: 0, tag: id, data: piece.address as u64 };
                self.answer(peer, head, &[]);
            }
            None => self.push(common, peer, Push { from, to: id, sent: 0, len }),
        }
        self.complete(common, Count::RemoteRead, false, Completion::default());
        Ok(())
    }

    /// Executes an atomic operation.
    pub(super) fn serve_atomic(
        &mut self,
        common: &mut Common,
        peer: u32,
        head: Head,
        body: &Body<'_>,
    ) -> Result<(), Corrupt> {
        const WORDS: usize = 3;
        let [id, address, word] = body.words();
        let mut operands = Vec::new();
        body.append_to(8 * WORDS, &mut operands);
        let code = Code::read(word).ok_or(Corrupt("no such atomic operation"))?;
        let size = code.size().ok_or(Corrupt("no such element"))?;
        let len = operands.len() / if code.compares { 2 } else { 1 };
        if !len.is_multiple_of(size) {
            return Err(Corrupt("a part of an element"));
        }
        let (operands, compares) = operands.split_at(len);
        let access = match (code.fetches, code.op) {
            (true, 10) => REMOTE_READ,
            (true, _) => REMOTE_READ | REMOTE_WRITE,
            (false, _) => REMOTE_WRITE,
        };
        let found = common.regions.find(head.tag, address, len as u64, access);
        let (region, at) = match found {
            Ok(found) => found,
            Err(error) => {
                self.confirm(peer, Some(id), Some(error));
                return Ok(());
            }
        };
        let before = apply(code, &region.memory, at, size, operands, compares);
        let counter = region.counter;
        if code.fetches {
            let from = From::Own(before);
            self.push(common, peer, Push { from, to: id, sent: 0, len });
            self.complete(common, Count::RemoteRead, false, Completion::default());
            if access & REMOTE_WRITE != 0 {
                count(common, counter);
            }
        } else {
            self.written(common, peer, id, head, len, Ok(counter), flag::ATOMIC);
        }
        Ok(())
    }

    /// Handles the target's answer with the address of the bytes of a read.
    pub(super) fn granted(
        &mut self,
        common: &mut Common,
        peer: u32,
        head: Head,
    ) -> Result<(), Corrupt> {
        let its = &mut self.peers[peer as usize];
        let operation = self.operations.get_mut(head.tag);
        let operation = operation.filter(|it| it.peer == peer && it.takes && it.got == 0);
        let (Some(operation), Some(memory)) = (operation, its.memory.as_mut()) else {
            return Err(Corrupt("a grant that was not asked for"));
        };
        let address = usize::try_from(head.data).map_err(|_| Corrupt("no address"))?;
        let from = crate::memory::Piece { address, len: operation.expected };
        let result = match memory.read(&operation.buffer, 0, &[from]) {
            Ok(()) => Ok(()),
            Err(Missed::Gone) => Err(Error::GONE),
            Err(Missed::Fault | Missed::Closed) => Err(Error::FAULT),
        };
        self.end(common, peer, head.tag, result);
        Ok(())
    }

    /// Handles the end of an operation, as the peer reports it.
    pub(super) fn done(
        &mut self,
        common: &mut Common,
        peer: u32,
        head: Head,
    ) -> Result<(), Corrupt> {
        let result = match i32::try_from(head.data) {
            Ok(0) => Ok(()),
            Ok(number) => Err(Error(number)),
            Err(_) => return Err(Corrupt("no error's number")),
        };
        match self.end(common, peer, head.tag, result) {
            true => Ok(()),
            false => Err(Corrupt("the end of what had not begun")),
        }
    }
}

fn written_flags(head: Head, kind: u64) -> u64 {
    let data = if head.kind & WITH_DATA != 0 { flag::REMOTE_CQ_DATA } else { 0 };
    kind | flag::REMOTE_WRITE | data
}

pub(super) fn count(common: &mut Common, counter: Option<usize>) {
    let counter = counter.and_then(|at| common.counters.get_mut(at)?.as_mut());
    if let Some(counter) = counter {
        counter.value += 1;
    }
}

/// Applies an atomic operation to every element, and returns the old elements.
fn apply(
    code: Code,
    memory: &Buffer,
    at: usize,
    size: usize,
    operands: &[u8],
    compares: &[u8],
) -> Vec<u8> {
    let mut before = vec![0; operands.len()];
    memory.read(at, &mut before);
    let mut after = before.clone();
    for (i, element) in after.chunks_exact_mut(size).enumerate() {
        let part = i * size..(i + 1) * size;
        let operand = &operands[part.clone()];
        let compare = compares.get(part).unwrap_or(operand);
        // `Code::read` accepts only operations that cannot fail here.
        let _ = code.apply(element, operand, compare);
    }
    memory.write(at, &after);
    before
}
