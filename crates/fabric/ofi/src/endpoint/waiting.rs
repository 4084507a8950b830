//! What waits until the provider has room.

use super::{Buffer, Endpoint};
use crate::leaving::enter;
use crate::operation::{Operation, Peer};
use core::ptr::NonNull;

/// A frame or a move that the provider had no room for.
#[derive(Debug)]
pub(super) enum Waiting {
    /// A frame in that buffer, of that length, to that peer.
    Frame(Buffer, usize, Peer),
    /// An operation that libfabric has not seen.
    Move(NonNull<Operation>),
}

impl Endpoint {
    /// Has a frame or a move to that peer wait, behind those that wait already.
    pub(super) fn wait(&mut self, to: Option<Peer>, waiting: Waiting) {
        self.waiting.entry(to).or_default().push_back(waiting);
    }

    /// Hands waiting receives, frames and moves to the provider, as far as it has room by now.
    pub fn flush(&mut self) {
        if let Some(_inside) = enter() {
            self.flush_inside();
        }
    }

    /// The same, for a thread that is inside libfabric.
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

    /// The peers for which a frame or a move waits.
    pub fn stuck(&self) -> impl Iterator<Item = Peer> {
        self.waiting.keys().filter_map(|to| *to)
    }

    /// Whether a frame or a move to that peer waits.
    pub fn is_stuck(&self, peer: Peer) -> bool {
        self.waiting.contains_key(&Some(peer))
    }

    /// Drops the frames that wait for a peer that is gone, and ends the moves.
    pub fn give_up(&mut self, peer: Peer) {
        let Some(_inside) = enter() else { return };
        for waiting in self.waiting.remove(&Some(peer)).into_iter().flatten() {
            match waiting {
                Waiting::Frame(buffer, ..) => self.free.push(buffer),
                Waiting::Move(operation) => {
                    // SAFETY: libfabric has not seen it.
                    let kind = unsafe { self.open.operations.end(operation) };
                    self.note_end(&kind, false);
                }
            }
        }
    }

    /// Whether [`Endpoint::poll`] has to be called again soon though the descriptor does not become readable: the provider had no room
    /// for something, or events are noted.
    pub fn is_full(&self) -> bool {
        !self.waiting.is_empty() || !self.noted.is_empty()
    }
}
