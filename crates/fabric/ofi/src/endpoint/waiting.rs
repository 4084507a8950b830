//! Operations that wait until the provider has room.

use super::{Buffer, Endpoint};
use crate::leaving::enter;
use crate::operation::{Operation, Peer};
use core::ptr::NonNull;

/// An operation that the provider had no room for.
#[derive(Debug)]
pub(super) enum Waiting {
    /// A frame: its buffer, its length and its peer.
    Frame(Buffer, usize, Peer),
    /// An operation that libfabric does not have yet.
    Move(NonNull<Operation>),
}

impl Endpoint {
    /// Queues an operation to a peer, after the operations that wait already.
    pub(super) fn wait(&mut self, to: Option<Peer>, waiting: Waiting) {
        self.waiting.entry(to).or_default().push_back(waiting);
    }

    /// Passes waiting receives, frames and moves to the provider, as far as it has room.
    pub fn flush(&mut self) {
        if let Some(_inside) = enter() {
            self.flush_inside();
        }
    }

    /// Does the work of [`Endpoint::flush`], for a thread that has entered libfabric.
    pub(super) fn flush_inside(&mut self) {
        self.post_receives();
        if self.waiting.is_empty() {
            return;
        }
        let mut all = core::mem::take(&mut self.waiting);
        all.retain(|_, waiting| {
            while let Some(first) = waiting.front() {
                let is_taken = match *first {
                    Waiting::Frame(buffer, len, to) => self.try_send(buffer, len, to),
                    Waiting::Move(operation) => self.try_move(operation),
                };
                if !is_taken {
                    return true;
                }
                waiting.pop_front();
            }
            false
        });
        self.waiting = all;
    }

    /// Returns the peers that have waiting operations.
    pub fn stuck(&self) -> impl Iterator<Item = Peer> {
        self.waiting.keys().filter_map(|to| *to)
    }

    /// Returns true if an operation to this peer waits.
    pub fn is_stuck(&self, peer: Peer) -> bool {
        self.waiting.contains_key(&Some(peer))
    }

    /// Drops the waiting frames to a lost peer, and ends the waiting moves from it.
    pub fn give_up(&mut self, peer: Peer) {
        let Some(_inside) = enter() else { return };
        for waiting in self.waiting.remove(&Some(peer)).into_iter().flatten() {
            match waiting {
                Waiting::Frame(buffer, ..) => self.free.push(buffer),
                Waiting::Move(operation) => {
                    // SAFETY: `begin` returned the operation, and libfabric never had it.
                    let kind = unsafe { self.open.operations.end(operation) };
                    self.note_end(&kind, false);
                }
            }
        }
    }

    /// Returns true if [`Endpoint::poll`] must be called again soon, although the descriptor may not become readable:
    /// an operation or an event waits.
    pub fn is_full(&self) -> bool {
        !self.waiting.is_empty() || !self.noted.is_empty()
    }
}
