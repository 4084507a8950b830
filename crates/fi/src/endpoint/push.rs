//! Bytes that are sent in many messages, because the end that wants them cannot reach them by itself.

use super::{Common, Endpoint};
use crate::error::Error;
use crate::flag::REMOTE_READ;
use crate::memory::{Buffer, Piece};
use crate::shm::{EAGER_MAX, Head, Load};
use crate::wire::{BYTES, DONE};

/// Bytes on their way to a peer's operation.
#[derive(Debug)]
pub(super) struct Push {
    pub(super) from: From,
    /// The peer's id of its operation.
    pub(super) to: u64,
    pub(super) sent: usize,
    pub(super) len: usize,
}

/// Where they come from.
#[derive(Debug)]
pub(super) enum From {
    /// The buffer of an operation of this endpoint's.
    Operation(u64),
    /// A region, which the program may take back meanwhile: key and address.
    Region(u64, u64),
    /// Bytes of their own.
    Own(Vec<u8>),
}

impl Endpoint {
    /// Has bytes sent, as there is room for them.
    pub(super) fn push(&mut self, common: &Common, peer: u32, push: Push) {
        self.peers[peer as usize].pushes.push_back(push);
        self.is_stuck(peer);
        self.push_on(common, peer);
    }

    /// Sends what waits for room, to all peers.
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

    /// Sends what waits for room, to one peer.
    fn push_on(&mut self, common: &Common, peer: u32) {
        let done = self.try_push(common, peer).unwrap_or_else(|_| {
            // The connection is over, which its end will tell.
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
        if !its.flush()? {
            return Ok(false);
        }
        let Some(outlet) = &mut its.outlet else { return Ok(false) };
        while let Some(push) = its.pushes.front_mut() {
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
                    // SAFETY: the bytes live as long as the push, and the buffer ends before.
                    owned = unsafe { Buffer::new(&[piece]) }?;
                    Some((&owned, push.sent, len))
                }
            };
            let step = if buffer.is_some() { len } else { push.len };
            let sent = match buffer {
                Some(buffer) => outlet.send(head, Load { words: &[], buffer: Some(buffer) }),
                // What the bytes belonged to is over: so is the peer's operation.
                None => {
                    let data = Error::CANCELED.0 as u64;
                    let head = Head { kind: DONE, data, ..head };
                    outlet.send(head, Load { words: &[], buffer: None })
                }
            };
            if !sent.map_err(|_| Error::DAMAGED)? {
                return Ok(false);
            }
            push.sent = push.len.min(push.sent + step);
            if push.sent == push.len {
                its.pushes.pop_front();
            }
        }
        Ok(true)
    }
}
