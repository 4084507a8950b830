//! Handles messages of peers: finds their receives and acknowledges them.

use super::{Engine, Io};
use crate::array::Status;
use crate::ids::{AHEAD, is_before};
use crate::matching::Dropped;
use crate::message::{Incoming, Place};
use crate::wire::{Ack, Body, Head, Message, WHOLE, Why};

impl<A: Copy + PartialEq> Engine<A> {
    /// Handles a part of a message.
    pub(super) fn data(
        &mut self,
        io: &mut Io<'_, A>,
        at: u16,
        head: Head,
        message: Option<Message>,
        bytes: &[u8],
    ) {
        let Head { id, number } = head;
        self.remind(io, at);
        let next = self.peer_at(at).next_receive;
        let active = self.active(at);
        if is_before(id, next) || active.done.has(id) {
            self.counters.again += 1;
            return self.acknowledge_later(io, at, id, number, WHOLE);
        }
        if let Some(why) = active.is_refused(id) {
            return self.refuse(io, at, id, why);
        }
        if id.wrapping_sub(next) >= AHEAD {
            return;
        }
        let index = match (self.find_in(at, id), message) {
            (Some(index), _) => index,
            (None, Some(message)) => match self.meet(io, at, id, &message) {
                Some(index) => index,
                None => return,
            },
            (None, None) => {
                self.counters.unmatched += 1;
                return;
            }
        };
        self.put(io, at, index, number, bytes);
    }

    /// Sends a refusal again while the peer does not seem to know.
    fn remind(&mut self, io: &mut Io<'_, A>, at: u16) {
        let pause = self.config.timing.first;
        let active = self.active(at);
        if let Some(&(id, why)) = active.refused.first()
            && active.refused_at.after(pause) <= io.now
        {
            self.refuse(io, at, id, why);
        }
    }

    fn refuse(&mut self, io: &mut Io<'_, A>, at: u16, id: u32, why: Why) {
        let active = self.active(at);
        if active.is_refused(id).is_none() {
            active.refused.push((id, why));
        }
        active.refused_at = io.now;
        let node = active.peer;
        self.say(io, node, |sender| Body::Refused { sender, id, why });
    }

    pub(super) fn noted(&mut self, at: u16, id: u32) {
        let active = self.active(at);
        if active.is_refused(id).is_some() {
            active.refused.retain(|refused| refused.0 != id);
            active.done.put(id);
            self.advance(at);
        }
    }

    /// Removes complete messages from the front of the sequence, and advances `next_receive`.
    pub(super) fn advance(&mut self, at: u16) {
        let active = &mut self.actives[usize::from(at)];
        let peer = &mut self.peers[usize::from(active.peer)];
        while active.done.take(peer.next_receive) {
            peer.next_receive = peer.next_receive.wrapping_add(1);
        }
    }

    /// Returns the receive that a message of a peer has met.
    fn find_in(&self, at: u16, id: u32) -> Option<u16> {
        let receives = &self.actives[usize::from(at)].incoming;
        let is_it = |index: &&u16| {
            self.incoming[usize::from(**index)].as_ref().is_some_and(|message| message.id == id)
        };
        receives.iter().find(is_it).copied()
    }

    /// Returns true if a message of a peer has met a receive, or never will.
    fn is_matched(&self, at: u16, id: u32) -> bool {
        let active = &self.actives[usize::from(at)];
        is_before(id, self.peers[usize::from(active.peer)].next_receive)
            || active.done.has(id)
            || active.is_refused(id).is_some()
            || self.find_in(at, id).is_some()
    }

    /// Finds a receive for a message by its first frame. `None` means that the NIC drops the frame.
    fn meet(&mut self, io: &mut Io<'_, A>, at: u16, id: u32, message: &Message) -> Option<u16> {
        let node = self.active(at).peer;
        let before = id.wrapping_sub(message.after.into());
        let is_early = message.after > 0 && !self.is_matched(at, before);
        let receive = self.matching.find(node, message.tag).filter(|_| !is_early);
        let Some(receive) = receive else {
            self.counters.dropped += 1;
            if !is_early {
                self.matching.remember(Dropped { node, tag: message.tag });
            }
            self.say(io, node, |sender| Body::NotReady { sender, id, is_early });
            return None;
        };
        self.matching.take(receive.index);
        self.matching.forget(Dropped { node, tag: message.tag });
        let is_taken = message.total <= receive.room;
        if is_taken {
            let incoming = Incoming::new(node, id, *message, receive.index);
            self.incoming[usize::from(receive.index)] = Some(incoming);
            self.active(at).incoming.push(receive.index);
        } else {
            self.end(io, receive.index, Status::TooLong, node, message.tag, message.total);
            self.refuse(io, at, id, Why::TooLong);
        }
        is_taken.then_some(receive.index)
    }

    /// Copies a frame's bytes into the receive.
    fn put(&mut self, io: &mut Io<'_, A>, at: u16, index: u16, number: u32, bytes: &[u8]) {
        let Some(incoming) = &mut self.incoming[usize::from(index)] else { return };
        let id = incoming.id;
        match incoming.place_of(number) {
            Place::Nowhere => {}
            Place::Again => {
                self.counters.again += 1;
                let (is_whole, below) = (incoming.is_whole_at(number), incoming.below());
                if is_whole {
                    self.acknowledge_later(io, at, id, number, below);
                }
            }
            Place::New => {
                let (place, len) = incoming.message.place_of(number);
                if bytes.len() != len as usize {
                    self.counters.malformed += 1;
                    return;
                }
                let mut rest = bytes;
                io.array.parts(index, &mut incoming.cursor, place, len, |address, length| {
                    let (now, later) = rest.split_at(length as usize);
                    io.memory.write(address, now);
                    rest = later;
                });
                let is_whole = incoming.came(number);
                if incoming.is_complete() {
                    self.complete(io, at, index, number);
                } else if is_whole {
                    let below = incoming.below();
                    self.acknowledge_later(io, at, id, number, below);
                }
            }
        }
    }

    /// Handles the completion of a message.
    fn complete(&mut self, io: &mut Io<'_, A>, at: u16, index: u16, number: u32) {
        let Some(id) = self.incoming[usize::from(index)].as_ref().map(|it| it.id) else { return };
        self.end_incoming(io, index, Status::Done);
        let active = self.active(at);
        active.incoming.retain(|&it| it != index);
        active.done.put(id);
        self.advance(at);
        self.acknowledge_later(io, at, id, number, WHOLE);
    }

    /// Schedules an acknowledgement: on the next frame to the peer, or alone.
    fn acknowledge_later(&mut self, io: &mut Io<'_, A>, at: u16, id: u32, number: u32, below: u32) {
        let next = self.peer_at(at).next_receive;
        let collection = self.find_in(at, id).and_then(|index| self.incoming[usize::from(index)]);
        let collection = collection.map_or(1, |incoming| u32::from(incoming.message.collection));
        let active = self.active(at);
        if let Some(old) = active.ack {
            let is_covered = is_before(old.id, next)
                || old.id == id && (below == WHOLE || old.number / collection < below)
                || old.id == id && old.number / collection == number / collection;
            if !is_covered {
                self.say_ack(io, at);
            }
        }
        let active = self.active(at);
        active.ack = Some(Ack { id, number, below, done: next });
        if !active.is_owed {
            active.is_owed = true;
            self.owed.push(at);
        }
    }

    /// Sends the scheduled acknowledgement. Returns false if the sink had no room.
    fn say_ack(&mut self, io: &mut Io<'_, A>, at: u16) -> bool {
        let active = self.active(at);
        let (node, ack) = (active.peer, active.ack);
        let Some(ack) = ack else { return true };
        let done = self.peer_at(at).next_receive;
        let ack = Ack { done, ..ack };
        let said = self.say(io, node, |sender| Body::Ack { sender, ack });
        if said {
            self.active(at).ack = None;
        }
        said
    }

    /// Sends all acknowledgements that no other frame has carried.
    pub fn acknowledge(&mut self, io: &mut Io<'_, A>) {
        while let Some(&at) = self.owed.last() {
            if !self.say_ack(io, at) {
                return;
            }
            self.owed.pop();
            self.active(at).is_owed = false;
            self.settle(at);
        }
    }

    /// Returns true if an acknowledgement waits.
    pub fn owes(&self) -> bool {
        !self.owed.is_empty()
    }
}
