//! Sends the bytes of long messages in parts, while the receiver may copy other bytes from the sender's memory.
//!
//! Two processors copy faster than one. If the caches hold the segment, a copy through the segment is faster than a
//! copy by the kernel. But a sender that is busy elsewhere sends nothing. So both ends work on a long message. The
//! sender sends from the first byte on. A receiver that has no other message copies from the last byte backwards, in
//! steps. The receiver then tells the sender which bytes the sender need not send.

use super::{Common, Endpoint};
use crate::error::Error;
use crate::flag::REMOTE_READ;
use crate::memory::{Buffer, Piece};
use crate::shm::{EAGER_MAX, Head, Load};
use crate::wire::{BYTES, DONE, ENOUGH};

/// Bytes on their way to an operation of a peer.
#[derive(Debug)]
pub(super) struct Push {
    pub(super) from: From,
    /// The peer's number of its operation.
    pub(super) to: u64,
    pub(super) sent: usize,
    pub(super) len: usize,
}

/// Source of the bytes of a [`Push`].
#[derive(Debug)]
pub(super) enum From {
    /// The buffer of an operation of this endpoint.
    Operation(u64),
    /// A region, as key and address. The program may deregister the region meanwhile.
    Region(u64, u64),
    /// Bytes that the push owns.
    Own(Vec<u8>),
}

/// Number of messages sent before the next look at the peer's messages.
const BATCH: usize = 8;
/// Number of looks in vain, after which this end copies bytes itself.
const PATIENCE: u32 = 32;
/// Number of bytes that this end copies in one step.
const STEP: usize = 64 << 10;

impl Endpoint {
    /// Copies the last bytes of a long message, if the sender seems to be busy elsewhere.
    #[cold]
    pub(super) fn pull_on(&mut self, common: &mut Common) {
        let Some(&id) = self.pulls.last() else { return };
        let Some(operation) = self.operations.get_mut(id) else {
            self.pulls.pop();
            return;
        };
        let peer = operation.peer;
        let memory = self.peers[peer as usize].memory.as_mut().filter(|memory| memory.is_open());
        let (Some(memory), Some(pieces)) = (memory, operation.pieces) else {
            self.pulls.pop();
            return;
        };
        if self.idle < PATIENCE {
            return;
        }
        let len = (operation.expected - operation.got).min(STEP);
        let at = operation.expected - len;
        let part = pieces.part(at, len);
        if memory.read(&operation.buffer, at, part.as_slice()).is_err() {
            // The sender sends the bytes, or this end learns of the sender's end.
            operation.pieces = None;
            return;
        }
        operation.expected = at;
        if operation.got < at {
            let Some(origin) = operation.origin else { return };
            self.answer(peer, Head { kind: ENOUGH, len: 0, tag: origin, data: at as u64 }, &[]);
        } else {
            self.arrived_all(common, peer, id);
        }
    }

    /// Ends an operation whose last byte has arrived, and confirms this to the peer.
    pub(super) fn arrived_all(&mut self, common: &mut Common, peer: u32, id: u64) {
        let origin = self.operations.get_mut(id).and_then(|operation| operation.origin);
        self.end(common, peer, id, Ok(()));
        self.confirm(peer, origin, None);
    }

    /// Handles the peer's message that it does not need the last bytes of an operation.
    pub(super) fn enough(&mut self, peer: u32, head: Head) {
        let is_it = |push: &&mut Push| matches!(push.from, From::Operation(id) if id == head.tag);
        let pushes = &mut self.peers[peer as usize].pushes;
        if let Some(push) = pushes.iter_mut().find(is_it) {
            push.len = push.len.min(usize::try_from(head.data).unwrap_or(usize::MAX));
        }
    }

    /// Sends bytes to a peer, as room becomes free.
    pub(super) fn push(&mut self, common: &Common, peer: u32, push: Push) {
        self.peers[peer as usize].pushes.push_back(push);
        self.is_stuck(peer);
        self.push_on(common, peer);
    }

    /// Sends waiting data to all peers.
    #[cold]
    pub(super) fn unstick(&mut self, common: &Common) {
        for peer in core::mem::take(&mut self.stuck) {
            self.peers[peer as usize].is_stuck = false;
            self.is_stuck(peer);
            self.push_on(common, peer);
        }
        let peers = &self.peers;
        self.stuck.retain(|peer| peers[*peer as usize].is_stuck);
    }

    /// Sends waiting data to one peer.
    fn push_on(&mut self, common: &Common, peer: u32) {
        let done = self.try_push(common, peer).unwrap_or_else(|_| {
            // The connection has ended. Its end is reported elsewhere.
            let its = &mut self.peers[peer as usize];
            its.answers.clear();
            its.pushes.clear();
            true
        });
        if done {
            self.peers[peer as usize].is_stuck = false;
        }
    }

    fn try_push(&mut self, common: &Common, peer: u32) -> Result<bool, Error> {
        if self.peers[peer as usize].is_gone {
            return Err(Error::GONE);
        }
        if self.peers[peer as usize].outlet.is_none() && !self.open(peer)? {
            return Ok(false);
        }
        let its = &mut self.peers[peer as usize];
        if !its.flush(self.far.as_deref_mut())? {
            return Ok(false);
        }
        let Some(outlet) = &mut its.outlet else { return Ok(false) };
        for _ in 0..BATCH {
            let Some(push) = its.pushes.front_mut() else { return Ok(true) };
            let is_over = match push.from {
                // The operation has ended: the peer has all bytes.
                From::Operation(id) => self.operations.get_mut(id).is_none(),
                From::Region(..) | From::Own(_) => false,
            };
            if is_over || push.sent > 0 && push.sent >= push.len {
                its.pushes.pop_front();
                continue;
            }
            let len = (push.len - push.sent).min(EAGER_MAX);
            let head = Head { kind: BYTES, len: 0, tag: push.to, data: push.sent as u64 };
            let owned;
            let buffer = match &push.from {
                From::Operation(id) => self
                    .operations
                    .get_mut(*id)
                    .map(|operation| (&operation.buffer, push.sent, len)),
                From::Region(key, address) => {
                    let found = common.regions.find(*key, *address, push.len as u64, REMOTE_READ);
                    found.ok().map(|(region, at)| (&region.memory, at + push.sent, len))
                }
                From::Own(bytes) => {
                    let piece = Piece { address: bytes.as_ptr().addr(), len: bytes.len() };
                    // SAFETY: the bytes live as long as the push, and the buffer is dropped before the push.
                    owned = unsafe { Buffer::new(&[piece]) }?;
                    Some((&owned, push.sent, len))
                }
            };
            let step = if buffer.is_some() { len } else { push.len };
            let sent = match buffer {
                Some(buffer) => {
                    let load = Load { words: &[], buffer: Some(buffer) };
                    outlet.send(self.far.as_deref_mut(), head, load)
                }
                // The program has deregistered the region, so the peer's operation fails.
                None => {
                    let data = Error::CANCELED.0 as u64;
                    let head = Head { kind: DONE, data, ..head };
                    outlet.send(self.far.as_deref_mut(), head, Load { words: &[], buffer: None })
                }
            };
            if !sent? {
                return Ok(false);
            }
            push.sent = push.len.min(push.sent + step);
            if push.sent == push.len {
                its.pushes.pop_front();
            }
        }
        Ok(its.pushes.is_empty())
    }
}
