//! Takes the host's posts.

use super::{Engine, Io};
use crate::array::{Array, Cursor, Outcome, Status};
use crate::matching::{Dropped, Waiting};
use crate::message::Outgoing;
use crate::wire::{Body, Message};

impl<A: Copy + PartialEq> Engine<A> {
    /// Returns true if the host has posted entries that the NIC has not taken.
    pub fn has_posts(&self, array: &Array) -> bool {
        !self.posts.is_empty(array)
    }

    /// Returns true if a peer may wait for a receive of this station. Otherwise the NIC may take posted receives with
    /// the next frame.
    pub fn misses_receives(&self) -> bool {
        self.matching.has_dropped()
    }

    pub(super) fn take_posts(&mut self, io: &mut Io<'_, A>) {
        while let Some(posted) = self.posts.next(io.array) {
            if posted.is_cancel {
                self.cancel(io, posted.index);
                continue;
            }
            let order = io.array.order(posted.index);
            if !io.array.is_node(order.node) {
                let tag = order.tag.unwrap_or(0);
                self.end(io, posted.index, Status::UnknownNode, order.node, tag, 0);
            } else if order.is_receive {
                let (node, tag, room) = (order.node, order.tag, order.length);
                let dropped = self.matching.post(Waiting { index: posted.index, node, tag, room });
                if let Some(Dropped { node, tag }) = dropped {
                    self.say(io, node, |sender| Body::Go { sender, tag });
                }
            } else {
                self.begin_send(io, posted.index, order.node, order.tag.unwrap_or(0), order.length);
            }
        }
    }

    /// Cancels a receive that has met no message. The host may then use the descriptor again.
    fn cancel(&mut self, io: &Io<'_, A>, index: u16) {
        if self.matching.take(index) {
            let order = io.array.order(index);
            self.end(io, index, Status::Cancelled, order.node, order.tag.unwrap_or(0), 0);
        }
    }

    fn begin_send(&mut self, io: &mut Io<'_, A>, index: u16, node: u16, tag: u32, total: u32) {
        let at = self.activate(io.now, node);
        let peer = &mut self.peers[usize::from(node)];
        let id = peer.next_send;
        peer.next_send = id.wrapping_add(1);
        let is_greeted = peer.is_greeted;
        let (size, collection) = (self.size, self.config.collection);
        let frames = Message::frames_of(total, size);
        self.outgoing[usize::from(index)] = Some(Outgoing {
            peer: node,
            id,
            message: Message { total, frames, size, after: 0, tag, collection },
            next: 0,
            acknowledged: 0,
            below: 0,
            is_sent: false,
            is_matched: false,
            parked: None,
            parks: 0,
            cursor: Cursor::new(index),
        });
        let active = self.active(at);
        active.out.push_back(index);
        active.unsent.push_back(index);
        if is_greeted {
            self.ready(at);
        } else {
            self.ask(io, node);
        }
        self.settle(at);
    }

    /// Reports the outcome of a send or receive to the host.
    pub(super) fn end(
        &mut self,
        io: &Io<'_, A>,
        index: u16,
        status: Status,
        node: u16,
        tag: u32,
        length: u32,
    ) {
        self.counters.ended += 1;
        io.array.complete(index, &Outcome { status, node, tag, length });
    }
}
