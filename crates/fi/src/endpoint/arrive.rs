//! Progress: handles arrived messages.

use super::receive::{Kept, Met};
use super::{Common, Endpoint, IDLE, IDLE_LOOKS, LOOKS};
use crate::error::Error;
use crate::shm::{Body, Corrupt, Head, WORDS_MAX};
use crate::wire::{
    ATOMIC, BYTES, DONE, ENOUGH, GRANT, KIND, NEED, PLAIN, PLAIN_LONG, READ, TAGGED, TAGGED_LONG,
    WITH_DATA, WITH_ID, WRITE, WRITE_LONG, pieces_of,
};
use sovia_sys::{cache, call};
use sovia_tags::Label;

/// Maximum number of messages that one round handles from one peer, before the next peer's turn.
const BATCH: usize = 64;

impl Endpoint {
    /// Handles arrived messages, and sends messages that wait for room.
    #[inline(always)]
    pub fn progress(&mut self, common: &mut Common) {
        self.looks = self.looks.wrapping_add(1);
        self.idle = self.idle.wrapping_add(1);
        // Usually no message has arrived. A quick check here makes the next look sooner.
        let is_due = self.idle % IDLE_LOOKS == IDLE_LOOKS - 1 || self.looks.is_multiple_of(LOOKS);
        let is_busy = !self.stuck.is_empty() || !self.pulls.is_empty();
        let is_near = !self.inlets.is_empty();
        let is_far_due = self.far.as_mut().is_some_and(|far| far.is_due(is_near));
        let has_news = || self.inlets.iter().any(|inlet| inlet.reader.has_news());
        if is_due || is_busy || is_far_due || has_news() {
            self.take_in(common, is_far_due);
        } else {
            cache::look_in_turn();
        }
    }

    fn take_in(&mut self, common: &mut Common, is_far_due: bool) {
        if self.looks.is_multiple_of(LOOKS) || self.idle % IDLE_LOOKS == IDLE_LOOKS - 1 {
            self.look_around(common);
            if self.idle > IDLE {
                call::sched_yield();
            }
        }
        if !self.stuck.is_empty() {
            self.unstick(common);
        }
        let mut found = is_far_due && self.look_far(common);
        // No handler of a message adds or removes inlets.
        let mut inlets = core::mem::take(&mut self.inlets);
        let mut corrupt = None;
        for inlet in &mut inlets {
            for i in 0..BATCH {
                if i > 0 {
                    inlet.reader.expect_more();
                }
                let taken = match inlet.reader.peek() {
                    Ok(None) => break,
                    Ok(Some((head, body))) => {
                        self.arrived(common, inlet.peer, head, &body).map(|()| head)
                    }
                    Err(damage) => Err(damage),
                };
                match taken {
                    Ok(head) => inlet.reader.release(head),
                    Err(Corrupt(_)) => {
                        corrupt = Some(inlet.peer);
                        break;
                    }
                }
                found = true;
            }
        }
        self.inlets = inlets;
        if found {
            self.idle = 0;
        }
        if !self.pulls.is_empty() {
            self.pull_on(common);
        }
        if let Some(peer) = corrupt {
            self.lose(common, peer, Error::CORRUPT);
        }
    }

    /// Looks at once for peers that have connected or ended.
    pub fn look(&mut self, common: &mut Common) {
        self.look_around(common);
    }

    /// Handles all messages that an ended peer sent.
    pub(super) fn read_all(&mut self, common: &mut Common, peer: u32) {
        let Some(at) = self.inlets.iter().position(|inlet| inlet.peer == peer) else { return };
        let mut inlet = self.inlets.swap_remove(at);
        while let Ok(Some((head, body))) = inlet.reader.peek() {
            if self.arrived(common, peer, head, &body).is_err() {
                break;
            }
            inlet.reader.release(head);
        }
    }

    #[inline(always)]
    pub(super) fn arrived(
        &mut self,
        common: &mut Common,
        peer: u32,
        head: Head,
        body: &Body<'_>,
    ) -> Result<(), Corrupt> {
        match head.kind & KIND {
            TAGGED => self.message(common, peer, head, body, true),
            PLAIN => self.message(common, peer, head, body, false),
            TAGGED_LONG => self.long_message(common, peer, head, body, true),
            PLAIN_LONG => self.long_message(common, peer, head, body, false),
            DONE => self.done(common, peer, head),
            NEED => self.needed(common, peer, head, body),
            BYTES => self.bytes(common, peer, head, body),
            ENOUGH => {
                self.enough(peer, head);
                Ok(())
            }
            WRITE => self.serve_write(common, peer, head, body),
            WRITE_LONG => self.serve_long_write(common, peer, head, body),
            READ => self.serve_read(common, peer, head, body),
            GRANT => self.granted(common, peer, head),
            ATOMIC => self.serve_atomic(common, peer, head, body),
            _ => Err(Corrupt("no such kind of message")),
        }
    }

    /// Handles a message with all its bytes.
    #[inline(always)]
    fn message(
        &mut self,
        common: &mut Common,
        peer: u32,
        head: Head,
        body: &Body<'_>,
        tagged: bool,
    ) -> Result<(), Corrupt> {
        let mut skip = 0;
        let mut id = None;
        if head.kind & WITH_ID != 0 {
            skip = 8;
            id = Some(body.words::<1>()[0]);
        }
        let len = body.len().checked_sub(skip).ok_or(Corrupt("a message without its id"))?;
        let data = (head.kind & WITH_DATA != 0).then_some(head.data);
        let label = Label { source: peer, tag: head.tag };
        let met = Met { peer, tagged, tag: head.tag, data };
        let left = self.min_multi_receive;
        let matcher = if tagged { &mut self.tagged } else { &mut self.plain };
        let receive = matcher.arrive_at(label, |receive| receive.part(len, left));
        match receive {
            Some(receive) => {
                body.copy(skip, &receive.buffer, 0);
                self.received(common, met, &receive, len, id);
            }
            None => {
                let mut bytes = self.spare.pop().unwrap_or_default();
                body.append_to(skip, &mut bytes);
                matcher.keep(label, Kept::Whole { bytes, data, id });
            }
        }
        Ok(())
    }

    /// Handles a message whose bytes are still in the sender's memory.
    fn long_message(
        &mut self,
        common: &mut Common,
        peer: u32,
        head: Head,
        body: &Body<'_>,
        tagged: bool,
    ) -> Result<(), Corrupt> {
        let words: [u64; WORDS_MAX] = body.words();
        let [id, len, ..] = words;
        let end = (body.len() / 8).min(words.len());
        let pieces = words.get(2..end).and_then(|words| pieces_of(words, len));
        let pieces = pieces.ok_or(Corrupt("pieces of another length"))?;
        let len = usize::try_from(len).map_err(|_| Corrupt("longer than memory"))?;
        let data = (head.kind & WITH_DATA != 0).then_some(head.data);
        let label = Label { source: peer, tag: head.tag };
        let met = Met { peer, tagged, tag: head.tag, data };
        let left = self.left_for(true);
        let matcher = if tagged { &mut self.tagged } else { &mut self.plain };
        let receive = matcher.arrive_at(label, |receive| receive.part(len, left));
        match receive {
            Some(receive) => self.pull(common, met, receive, id, len, pieces),
            None => matcher.keep(label, Kept::Long { id, len, pieces, data }),
        }
        Ok(())
    }

    /// Handles the peer's request to send the bytes of an operation.
    fn needed(
        &mut self,
        common: &mut Common,
        peer: u32,
        head: Head,
        body: &Body<'_>,
    ) -> Result<(), Corrupt> {
        let [len] = body.words();
        let operation = self.operations.get_mut(head.tag);
        let operation = operation.filter(|it| it.peer == peer && !it.takes);
        let operation = operation.ok_or(Corrupt("bytes wanted of no operation"))?;
        let len = usize::try_from(len).ok().filter(|len| *len <= operation.buffer.len());
        let len = len.ok_or(Corrupt("more bytes wanted than there are"))?;
        if body.len() > 8 {
            return self.needed_far(peer, head.tag, len, body);
        }
        let from = super::push::From::Operation(head.tag);
        self.push(common, peer, super::push::Push { from, to: head.data, sent: 0, len });
        Ok(())
    }

    /// Handles bytes for an operation.
    fn bytes(
        &mut self,
        common: &mut Common,
        peer: u32,
        head: Head,
        body: &Body<'_>,
    ) -> Result<(), Corrupt> {
        let operation = self.operations.get_mut(head.tag);
        let Some(operation) = operation.filter(|it| it.peer == peer && it.takes) else {
            // This end copied the bytes itself before the sender knew.
            return Ok(());
        };
        if head.data != operation.got as u64 {
            return Err(Corrupt("bytes that were not asked for"));
        }
        if operation.region.is_some_and(|region| common.regions.of(region).is_none()) {
            let origin = operation.origin;
            self.operations.remove(head.tag);
            self.confirm(peer, origin, Some(Error::KEY));
            return Ok(());
        }
        // This end has already copied the bytes after `expected`.
        let len = body.len().min(operation.expected - operation.got);
        body.copy_part(len, &operation.buffer, operation.got);
        operation.got += len;
        if operation.got == operation.expected {
            self.arrived_all(common, peer, head.tag);
        }
        Ok(())
    }
}
