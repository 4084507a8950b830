//! Sends messages to peers: chooses the next collection, and handles the peers' answers.

use super::{Engine, Io};
use crate::active::spread;
use crate::array::Status;
use crate::ids::{AHEAD, is_before};
use crate::message::Outgoing;
use crate::wire::{Ack, Body, Frame, Head, Message, WHOLE, Why};
use sovia_link::Time;

/// The wait of a message until an earlier message is matched.
const NEVER: Time = Time::from_nanos(u64::MAX);
/// Maximum number of collections sent to a peer in one turn.
const TURN: usize = 16;

impl<A: Copy + PartialEq> Engine<A> {
    /// Puts a peer into the list of peers that may have data to send.
    pub(super) fn ready(&mut self, at: u16) {
        let active = self.active(at);
        if !active.is_ready {
            active.is_ready = true;
            self.ready.push_back(at);
        }
    }

    pub(super) fn send_ready(&mut self, io: &mut Io<'_, A>) {
        for _ in 0..self.ready.len() {
            let Some(at) = self.ready.pop_front() else { return };
            let sent = self.send_turn(io, at);
            if sent == Sent::All {
                self.active(at).is_ready = false;
            } else {
                self.ready.push_back(at);
            }
            self.settle(at);
            if sent == Sent::NoRoom {
                return;
            }
        }
    }

    fn send_turn(&mut self, io: &mut Io<'_, A>, at: u16) -> Sent {
        if !self.peer_at(at).is_greeted {
            return Sent::All;
        }
        for _ in 0..TURN {
            let active = self.active(at);
            if !active.has_room() {
                return Sent::All;
            }
            if let Some(&(index, collection)) = active.lost.front() {
                if !self.send_collection(io, at, index, collection) {
                    return Sent::NoRoom;
                }
                self.counters.resent += 1;
                let active = self.active(at);
                active.lost.pop_front();
                active.sent(index, collection, true, io.now);
                continue;
            }
            let Some(&index) = active.unsent.front() else { return Sent::All };
            let message = self.outgoing[usize::from(index)];
            let Some(message) = message.filter(Outgoing::may_go_on) else { return Sent::All };
            if message.id.wrapping_sub(self.first_of(message.peer)) >= AHEAD {
                // The peer could not distinguish this message from an old one. Sending continues when an earlier
                // message ends.
                return Sent::All;
            }
            if !self.send_collection(io, at, index, message.next) {
                return Sent::NoRoom;
            }
            let is_again = message.parks > 0;
            self.active(at).sent(index, message.next, is_again, io.now);
            if let Some(message) = &mut self.outgoing[usize::from(index)] {
                message.next += 1;
                message.is_sent = true;
                if message.next == message.collections() {
                    self.active(at).unsent.pop_front();
                }
            }
        }
        Sent::Some
    }

    /// Sends all frames of a collection. Returns false if the sink had no room for all of them.
    fn send_collection(
        &mut self,
        io: &mut Io<'_, A>,
        at: u16,
        index: u16,
        collection: u32,
    ) -> bool {
        let Some(mut out) = self.outgoing[usize::from(index)] else { return true };
        self.counters.collections += 1;
        let after = if collection == 0 { self.after(at, &out) } else { 0 };
        let done = self.peer_at(at).next_receive;
        let peer = self.peer_at(at);
        let (to, address, sender) = (peer.name, peer.address, peer.known_as);
        let (first, behind) = out.frames_of(collection);
        for number in first..behind {
            let ack = self.active(at).ack.map(|ack| Ack { done, ..ack });
            let message = (number == 0).then_some(Message { after, ..out.message });
            let (place, len) = out.message.place_of(number);
            let head = Head { id: out.id, number };
            let body = Body::Data { sender, head, message, ack, bytes: [] };
            let frame = Frame::<[u8; 0]> { to, from: self.config.name, body };
            let cursor = &mut out.cursor;
            let sent = io.sink.send(&address, &mut |room| {
                frame.emit_with(room, self.config.checksum, len as usize, |mut bytes| {
                    io.array.parts(index, cursor, place, len, |address, length| {
                        let all = core::mem::take(&mut bytes);
                        let (now, later) = all.split_at_mut(length as usize);
                        io.memory.read(address, now);
                        bytes = later;
                    });
                })
            });
            if !sent {
                return false;
            }
            self.active(at).ack = None;
        }
        if let Some(message) = &mut self.outgoing[usize::from(index)] {
            message.cursor = out.cursor;
        }
        true
    }

    /// Returns the distance to the last earlier message with the same tag, if no receive is known to match that
    /// message; otherwise 0.
    fn after(&mut self, at: u16, out: &Outgoing) -> u16 {
        let active = &self.actives[usize::from(at)];
        let messages = active.out.iter().filter_map(|&index| self.outgoing[usize::from(index)]);
        let before = messages.rev().skip_while(|it| !is_before(it.id, out.id));
        let last = before.into_iter().find(|it| it.message.tag == out.message.tag);
        let last = last.filter(|it| !it.is_matched);
        // The distance fits, because there are fewer messages.
        last.map_or(0, |last| out.id.wrapping_sub(last.id) as u16)
    }

    /// Returns the descriptor of a message to a peer.
    fn find_out(&self, at: u16, id: u32) -> Option<u16> {
        let out = &self.actives[usize::from(at)].out;
        let id_of = |index: u16| self.outgoing[usize::from(index)].map(|message| message.id);
        let is_earlier = |index: &u16| id_of(*index).is_some_and(|other| is_before(other, id));
        let index = *out.get(out.partition_point(is_earlier))?;
        (id_of(index) == Some(id)).then_some(index)
    }

    pub(super) fn acked(&mut self, io: &mut Io<'_, A>, at: u16, ack: &Ack) {
        while let Some(&index) = self.active(at).out.front()
            && let Some(message) = self.outgoing[usize::from(index)]
            && message.is_sent
            && is_before(message.id, ack.done)
        {
            self.sample(io.now, at, index, None);
            self.matched(at, index);
            self.finish(io, at, index, Status::Done);
        }
        if let Some(index) = self.find_out(at, ack.id) {
            self.acked_part(io, at, index, ack);
        }
        self.active(at).tries = 0;
        self.ready(at);
    }

    fn acked_part(&mut self, io: &mut Io<'_, A>, at: u16, index: u16, ack: &Ack) {
        if self.outgoing[usize::from(index)].is_none_or(|message| !message.is_sent) {
            return;
        }
        self.matched(at, index);
        let Some(mut message) = self.outgoing[usize::from(index)] else { return };
        if ack.below == WHOLE {
            self.sample(io.now, at, index, None);
            return self.finish(io, at, index, Status::Done);
        }
        let collection = ack.number / u32::from(message.message.collection);
        let below = ack.below.min(message.next);
        let earlier = message.below..below;
        for collection in earlier.chain(core::iter::once(collection)) {
            message.acknowledged += u32::from(self.sample(io.now, at, index, Some(collection)));
        }
        message.below = message.below.max(below);
        self.outgoing[usize::from(index)] = Some(message);
        if message.acknowledged >= message.collections() {
            self.finish(io, at, index, Status::Done);
        }
    }

    /// Handles the arrival of a collection, or of the whole message for `None`. Returns true if the arrival was not
    /// known.
    fn sample(&mut self, now: Time, at: u16, index: u16, collection: Option<u32>) -> bool {
        let active = self.active(at);
        let of_message = |flight: &&crate::active::Flight| flight.index == index;
        let last = || active.flights.iter().rev().find(of_message).map(|it| it.collection);
        let Some(collection) = collection.or_else(last) else { return false };
        let Some(sent) = active.land(index, collection) else { return false };
        if let Some(sent) = sent {
            let nanos = u64::try_from(now.since(sent).as_nanos()).unwrap_or(u64::MAX);
            active.rtt.measured(nanos, now);
        }
        true
    }

    /// Ends a message to a peer.
    fn finish(&mut self, io: &mut Io<'_, A>, at: u16, index: u16, status: Status) {
        let Some(message) = self.outgoing[usize::from(index)] else { return };
        let active = &mut self.actives[usize::from(at)];
        active.land_all(index);
        if active.out.front() == Some(&index) {
            active.out.pop_front();
        } else {
            active.out.retain(|&it| it != index);
        }
        if message.next < message.collections() {
            active.unsent.retain(|&it| it != index);
        }
        active.parked -= u32::from(message.parked.is_some());
        self.end_outgoing(io, index, status);
    }

    /// Handles the peer's report that it has no receive for a message yet.
    pub(super) fn not_ready(&mut self, now: Time, at: u16, id: u32, is_early: bool) {
        let chance = self.chance();
        let Some(index) = self.find_out(at, id) else { return };
        let Some(message) = &mut self.outgoing[usize::from(index)] else { return };
        if message.is_matched || !message.is_sent || message.parked.is_some() {
            return;
        }
        // A message that arrived before an earlier message with its tag waits for the earlier message, without a timer.
        let out = *message;
        let until = if is_early && self.after(at, &out) > 0 {
            NEVER
        } else {
            now.after(spread(self.config.timing.pause(out.parks), chance))
        };
        let Some(message) = &mut self.outgoing[usize::from(index)] else { return };
        (message.parked, message.parks) = (Some(until), out.parks + 1);
        (message.next, message.acknowledged, message.below) = (0, 0, 0);
        let active = &mut self.actives[usize::from(at)];
        active.tries = 0;
        if is_early && let Some(place) = active.flights.iter().position(|it| it.index == index) {
            // The frames sent before this message have not arrived.
            active.pass(place);
        }
        active.land_all(index);
        active.unsent.retain(|&it| it != index);
        active.parked += 1;
        active.wait_until(until);
        self.ready(at);
    }

    /// Records that a message has met a receive, or never will. Tries two more messages with its tag that wait for a
    /// receive. With one receive at a time, few messages are sent in vain; with many receives, all messages are soon
    /// tried.
    fn matched(&mut self, at: u16, index: u16) {
        let Some(message) = &mut self.outgoing[usize::from(index)] else { return };
        if !core::mem::replace(&mut message.is_matched, true) {
            let tag = message.message.tag;
            self.unpark(at, index);
            self.try_again(at, tag, 2);
        }
    }

    /// Sends the first `count` waiting messages with a tag again.
    fn try_again(&mut self, at: u16, tag: u32, count: usize) {
        if self.active(at).parked == 0 {
            return;
        }
        let mut left = count;
        for place in 0..self.active(at).out.len() {
            let index = self.active(at).out[place];
            let message = self.outgoing[usize::from(index)];
            if left > 0 && message.is_some_and(|it| it.message.tag == tag && it.parked.is_some()) {
                self.unpark(at, index);
                left -= 1;
            }
        }
    }

    /// Handles the peer's report that it has a receive for messages with a tag.
    pub(super) fn go(&mut self, at: u16, tag: u32) {
        self.active(at).tries = 0;
        self.try_again(at, tag, 1);
    }

    /// Sends a message again that waits for a receive.
    fn unpark(&mut self, at: u16, index: u16) {
        let Some(message) = &mut self.outgoing[usize::from(index)] else { return };
        if message.parked.take().is_none() {
            return;
        }
        let id = message.id;
        let active = &mut self.actives[usize::from(at)];
        let is_earlier = |&other: &u16| {
            self.outgoing[usize::from(other)].is_some_and(|other| is_before(other.id, id))
        };
        let place = active.unsent.partition_point(is_earlier);
        active.unsent.insert(place, index);
        active.parked -= 1;
        self.ready(at);
    }

    pub(super) fn unpark_due(&mut self, now: Time, at: u16) {
        self.active(at).next_park = None;
        for place in 0..self.active(at).out.len() {
            let index = self.active(at).out[place];
            let parked = self.outgoing[usize::from(index)].and_then(|message| message.parked);
            let Some(until) = parked else { continue };
            if until <= now {
                self.unpark(at, index);
            } else {
                self.active(at).wait_until(until);
            }
        }
    }

    /// Handles the peer's refusal of a message.
    pub(super) fn refused(&mut self, io: &mut Io<'_, A>, at: u16, id: u32, why: Why) {
        let node = self.active(at).peer;
        self.say(io, node, |sender| Body::Noted { sender, id });
        let Some(index) = self.find_out(at, id) else { return };
        if self.outgoing[usize::from(index)].is_some_and(|message| message.is_sent) {
            let status = match why {
                Why::TooLong => Status::TooLong,
                Why::GivenUp => Status::PeerRestarted,
            };
            self.active(at).tries = 0;
            self.matched(at, index);
            self.finish(io, at, index, status);
            self.ready(at);
        }
    }
}

/// The end of a peer's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// Nothing more can be sent now.
    All,
    /// More may be sent.
    Some,
    /// The sink is full.
    NoRoom,
}
