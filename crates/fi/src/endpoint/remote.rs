//! The initiator's side of reads, writes and atomic operations on peers' memory.

use super::operation::Operation;
use super::{Common, Count, Endpoint};
use crate::atomic::Code;
use crate::completion::Completion;
use crate::error::Error;
use crate::flag;
use crate::memory::{Buffer, Piece};
use crate::shm::{EAGER_MAX, Head, Load, WORDS_MAX};
use crate::wire::{ATOMIC, PUSH, READ, WITH_DATA, WRITE, WRITE_LONG, put_pieces};

/// An operation on a peer's memory.
#[derive(Debug)]
pub struct Remote {
    /// The bytes to write, or memory for the bytes to read.
    pub buffer: Buffer,
    /// The peer's number in the address vector.
    pub to: u64,
    /// The address in the peer's region.
    pub address: u64,
    /// The region's key.
    pub key: u64,
    /// For a write: data for the peer's completion queue.
    pub data: Option<u64>,
    /// The value by which the program identifies the operation.
    pub context: usize,
    /// Set if the completion queue gets an entry for success.
    pub tell: bool,
}

/// Maximum number of bytes of an atomic operation: operands and comparison operands together.
pub const ATOMIC_MAX: usize = EAGER_MAX;

impl Remote {
    fn operation(&mut self, peer: u32, flags: u64, count: Count) -> Operation {
        let completion = Completion {
            context: self.context,
            flags,
            source: flag::ADDRESS_NONE,
            ..Completion::default()
        };
        Operation {
            peer,
            buffer: Buffer::default(),
            takes: false,
            got: 0,
            expected: 0,
            pieces: None,
            completion,
            count,
            tell: self.tell,
            excess: 0,
            origin: None,
            region: None,
        }
    }
}

impl Endpoint {
    /// Writes to a peer's memory. Up to [`EAGER_MAX`](crate::EAGER_MAX) bytes are copied before this function returns.
    ///
    /// # Errors
    /// Returns [`Error::AGAIN`] if no room is free now, or the reason why the peer cannot be reached.
    pub fn write(&mut self, common: &mut Common, mut remote: Remote) -> Result<(), Error> {
        let peer = self.peer_of(common, remote.to)?;
        let operation = remote.operation(peer, flag::RMA | flag::WRITE, Count::Write);
        let id = self.operations.insert(operation);
        let with_data = if remote.data.is_some() { WITH_DATA } else { 0 };
        let data = remote.data.unwrap_or(0);
        let Remote { buffer, address, key, .. } = remote;
        let len = buffer.len();
        let head = |kind| Head { kind: kind | with_data, len: 0, tag: key, data };
        if len <= EAGER_MAX {
            let load = Load { words: &[id, address], buffer: Some((&buffer, 0, len)) };
            let sent = self.put(peer, head(WRITE), load);
            return self.begun(id, sent, Buffer::default());
        }
        let mut words = [0; WORDS_MAX];
        words[..3].copy_from_slice(&[id, address, len as u64]);
        let end = put_pieces(&mut words, 3, buffer.part(0, len));
        let sent = self.put(peer, head(WRITE_LONG), Load { words: &words[..end], buffer: None });
        self.begun(id, sent, buffer)
    }

    /// Reads from a peer's memory.
    ///
    /// # Errors
    /// Returns the errors of [`Endpoint::write`].
    pub fn read(&mut self, common: &mut Common, mut remote: Remote) -> Result<(), Error> {
        let peer = self.peer_of(common, remote.to)?;
        let mut operation = remote.operation(peer, flag::RMA | flag::READ, Count::Read);
        let Remote { buffer, address, key, .. } = remote;
        let len = buffer.len();
        (operation.takes, operation.expected) = (true, len);
        let id = self.operations.insert(operation);
        let its = &self.peers[peer as usize];
        // The peer's memory is unknown before the first connection.
        let reachable = its.memory.as_ref().is_some_and(|memory| memory.is_open());
        let kind = if reachable { READ } else { READ | PUSH };
        let head = Head { kind, len: 0, tag: key, data: 0 };
        let load = Load { words: &[id, address, len as u64], buffer: None };
        let sent = self.put(peer, head, load);
        self.begun(id, sent, buffer)
    }

    /// Starts an atomic operation on a peer's memory. The old elements go to `buffer`, if the operation fetches them.
    /// The operands are copied before this function returns.
    ///
    /// # Errors
    /// Returns the errors of [`Endpoint::write`], [`Error::NOT_SUPPORTED`] if the operation is not offered, and
    /// [`Error::TOO_LONG`] for more than [`ATOMIC_MAX`] bytes.
    pub fn atomic(
        &mut self,
        common: &mut Common,
        mut remote: Remote,
        code: Code,
        operands: &Buffer,
        compares: &Buffer,
    ) -> Result<(), Error> {
        let peer = self.peer_of(common, remote.to)?;
        if !code.is_offered() {
            return Err(Error::NOT_SUPPORTED);
        }
        let (flags, count) = match code.fetches {
            true => (flag::ATOMIC | flag::READ, Count::Read),
            false => (flag::ATOMIC | flag::WRITE, Count::Write),
        };
        let mut operation = remote.operation(peer, flags, count);
        let Remote { buffer, address, key, data, .. } = remote;
        // A read has no operands. Zeros in their place tell the target the length.
        let len = if operands.is_empty() { buffer.len() } else { operands.len() };
        let compared = if code.compares { len } else { 0 };
        let fits = compares.len() >= compared && (!code.fetches || buffer.len() == len);
        if !fits || len + compared > ATOMIC_MAX {
            return Err(if fits { Error::TOO_LONG } else { Error::INVALID });
        }
        let mut bytes = vec![0; len + compared];
        operands.read(0, &mut bytes[..len]);
        compares.read(0, &mut bytes[len..]);
        if code.fetches {
            (operation.takes, operation.expected) = (true, len);
        }
        let id = self.operations.insert(operation);
        let piece = Piece { address: bytes.as_ptr().addr(), len: bytes.len() };
        // SAFETY: the bytes outlive the buffer.
        let load = unsafe { Buffer::new(&[piece]) }?;
        let kind = if data.is_some() { ATOMIC | WITH_DATA } else { ATOMIC };
        let head = Head { kind, len: 0, tag: key, data: data.unwrap_or(0) };
        let words = [id, address, code.word()];
        let load = Load { words: &words, buffer: Some((&load, 0, bytes.len())) };
        let sent = self.put(peer, head, load);
        self.begun(id, sent, if code.fetches { buffer } else { Buffer::default() })
    }

    /// Finishes the start of an operation: stores its buffer, or removes the operation if the request could not be
    /// sent.
    fn begun(&mut self, id: u64, sent: Result<bool, Error>, buffer: Buffer) -> Result<(), Error> {
        if sent == Ok(true) {
            if let Some(operation) = self.operations.get_mut(id) {
                operation.buffer = buffer;
            }
            return Ok(());
        }
        self.operations.remove(id);
        sent.and(Err(Error::AGAIN))
    }
}
