//! Receives, and messages that no receive awaits.

use super::operation::Operation;
use super::{Common, Count, Endpoint};
use crate::completion::{Completion, Failure};
use crate::error::Error;
use crate::flag;
use crate::memory::{Buffer, OtherMemory};
use crate::shm::Head;
use crate::wire::{DONE, NEED, Pieces};
use sovia_tags::{Label, Pattern, Posted};

/// A receive as the program posts it.
#[derive(Debug)]
pub struct Post {
    /// Where the message goes.
    pub buffer: Buffer,
    /// By what the program names it.
    pub context: usize,
    /// Whether the completion queue is told of success.
    pub tell: bool,
    /// Whether it takes messages with tags, or those without.
    pub tagged: bool,
    /// The only source, as a number of the address vector.
    pub source: Option<u64>,
    /// The tag, and which of its bits do not matter.
    pub tag: u64,
    /// Bits that do not matter.
    pub ignore: u64,
    /// Whether it takes messages one behind the other until little room is left.
    pub multi: bool,
}

/// What is asked about messages that no receive awaits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Whether there is one.
    Look,
    /// The same, and it is to wait for a receive with the same context.
    Claim,
    /// The same, and it is not wanted.
    Discard,
}

/// A receive that waits.
#[derive(Debug)]
pub(super) struct Receive {
    pub(super) context: usize,
    pub(super) buffer: Buffer,
    pub(super) tell: bool,
    /// Of one for many messages: bytes used so far.
    pub(super) used: Option<usize>,
    /// Of a part of such a one: whether the whole is over with it.
    pub(super) is_last: bool,
}

/// A message that waits.
#[derive(Debug)]
pub(super) enum Kept {
    /// It is all there.
    Whole { bytes: Vec<u8>, data: Option<u64>, id: Option<u64> },
    /// Its bytes are the sender's still.
    Long { id: u64, len: usize, pieces: Pieces, data: Option<u64> },
}

/// What is known of a message that has met its receive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Met {
    pub(super) peer: u32,
    pub(super) tagged: bool,
    pub(super) tag: u64,
    pub(super) data: Option<u64>,
}

impl Kept {
    fn len(&self) -> usize {
        match self {
            Kept::Whole { bytes, .. } => bytes.len(),
            Kept::Long { len, .. } => *len,
        }
    }

    fn data(&self) -> Option<u64> {
        match self {
            Kept::Whole { data, .. } | Kept::Long { data, .. } => *data,
        }
    }
}

impl Receive {
    /// What a completion says of any receive like this one.
    pub(super) fn blank(&self, tagged: bool) -> Completion {
        let kind = if tagged { flag::TAGGED } else { flag::MSG };
        let flags = flag::RECV | kind;
        Completion {
            context: self.context,
            flags,
            source: flag::ADDRESS_NONE,
            ..Default::default()
        }
    }

    /// Of a receive for many messages what takes one of `len` bytes, and whether it is the last: see [`Receive::split`].
    #[inline(always)]
    pub(super) fn part(&mut self, len: usize, left: usize) -> Option<(Receive, bool)> {
        self.used?;
        let part = self.split(len, left);
        let is_last = part.is_last;
        Some((part, is_last))
    }

    /// The part of a receive for many messages that takes one of `len` bytes. The whole is over if less than `left` bytes
    /// remain of it.
    pub(super) fn split(&mut self, len: usize, left: usize) -> Receive {
        let at = self.used.unwrap_or(0);
        let room = self.buffer.len().saturating_sub(at);
        // Places for messages begin at words.
        let next = (at + len.min(room)).next_multiple_of(8);
        self.used = Some(next);
        let is_last = next.saturating_add(left.max(1)) > self.buffer.len();
        let buffer = self.buffer.sub(at, room);
        Receive { context: self.context, buffer, tell: self.tell, used: None, is_last }
    }
}

impl Met {
    /// What is told of a message of `len` bytes that meets `receive`; and its bytes for which there is no room.
    #[inline(always)]
    pub(super) fn completion(
        &self,
        receive: &Receive,
        len: usize,
        source: u64,
    ) -> (Completion, usize) {
        let room = receive.buffer.len();
        let kind = if self.tagged { flag::TAGGED } else { flag::MSG };
        let last = if receive.is_last { flag::MULTI_RECV } else { 0 };
        let data = if self.data.is_some() { flag::REMOTE_CQ_DATA } else { 0 };
        let completion = Completion {
            context: receive.context,
            flags: flag::RECV | kind | data | last,
            len: len.min(room),
            buffer: receive.buffer.address(),
            data: self.data.unwrap_or(0),
            tag: self.tag,
            source,
        };
        (completion, len.saturating_sub(room))
    }
}

impl Endpoint {
    /// Posts a receive.
    ///
    /// # Errors
    /// [`Error::INVALID`] if it names a source that the address vector does not have.
    #[inline(always)]
    pub fn receive(&mut self, common: &mut Common, post: Post) -> Result<(), Error> {
        let source = match post.source {
            Some(number) => Some(self.peer_of(common, number)?),
            None => None,
        };
        let is_gone = source.is_some_and(|peer| self.peers[peer as usize].is_gone);
        let matcher = if post.tagged { &mut self.tagged } else { &mut self.plain };
        if post.multi || is_gone || matcher.messages() > 0 {
            return self.receive_slowly(common, post, source);
        }
        // Each word is written to its place at once: see `completion`.
        let Post { buffer, context, tell, tag, ignore, .. } = post;
        let receive = Receive { context, buffer, tell, used: None, is_last: false };
        matcher.wait(Pattern { source, tag, ignore }, receive);
        Ok(())
    }

    fn receive_slowly(
        &mut self,
        common: &mut Common,
        post: Post,
        source: Option<u32>,
    ) -> Result<(), Error> {
        let Post { buffer, context, tell, tagged, tag, ignore, multi, .. } = post;
        let pattern = Pattern { source, tag, ignore };
        let used = multi.then_some(0);
        let mut receive = Receive { context, buffer, tell, used, is_last: false };
        let matcher = if tagged { &mut self.tagged } else { &mut self.plain };
        let is_gone = source.is_some_and(|peer| self.peers[peer as usize].is_gone);
        if is_gone && matcher.peek(pattern).is_none() {
            let completion = receive.blank(tagged);
            let failure = Failure { completion, excess: 0, error: Error::GONE };
            self.fail(common, Count::Receive, failure);
            return Ok(());
        }
        if multi && self.receive_kept(common, tagged, pattern, &mut receive) {
            return Ok(());
        }
        let matcher = if tagged { &mut self.tagged } else { &mut self.plain };
        if let Posted::Matched(receive, label, kept) = matcher.post(pattern, receive) {
            let met = Met { peer: label.source, tagged, tag: label.tag, data: kept.data() };
            self.meet(common, met, receive, kept);
        }
        Ok(())
    }

    /// A receive for many messages takes those that have been kept; whether it is over then.
    fn receive_kept(
        &mut self,
        common: &mut Common,
        tagged: bool,
        pattern: Pattern,
        receive: &mut Receive,
    ) -> bool {
        loop {
            let matcher = if tagged { &mut self.tagged } else { &mut self.plain };
            let Some((label, kept)) = matcher.claim(pattern) else { return false };
            let met = Met { peer: label.source, tagged, tag: label.tag, data: kept.data() };
            let left = self.left_for(matches!(kept, Kept::Long { .. }));
            let part = receive.split(kept.len(), left);
            let is_last = part.is_last;
            self.meet(common, met, part, kept);
            if is_last {
                return true;
            }
        }
    }

    /// Bytes that must be left of a receive for many messages when this one has come. A long one is the last, for it
    /// comes by and by: those before it have all been received when it is.
    pub(super) fn left_for(&self, long: bool) -> usize {
        if long { usize::MAX } else { self.min_multi_receive }
    }

    /// Asks about messages that no receive awaits, those that have just arrived among them. The answer is a completion, or the failure [`Error::NO_MESSAGE`].
    ///
    /// # Errors
    /// As for [`Endpoint::receive`].
    pub fn probe(&mut self, common: &mut Common, post: &Post, probe: Probe) -> Result<(), Error> {
        self.progress(common);
        let source = post.source.map(|number| self.peer_of(common, number)).transpose()?;
        let pattern = Pattern { source, tag: post.tag, ignore: post.ignore };
        let blank = Receive {
            context: post.context,
            buffer: Buffer::default(),
            tell: true,
            used: None,
            is_last: false,
        };
        let matcher = if post.tagged { &mut self.tagged } else { &mut self.plain };
        let Some((label, kept)) = matcher.peek(pattern) else {
            let completion = Completion { tag: post.tag, ..blank.blank(post.tagged) };
            let failure = Failure { completion, excess: 0, error: Error::NO_MESSAGE };
            // No counter counts it: nothing has failed.
            if let Some(queue) = super::queue(common, self.bindings.receive_queue) {
                queue.fail(failure);
            }
            return Ok(());
        };
        let (len, data) = (kept.len(), kept.data());
        let met = Met { peer: label.source, tagged: post.tagged, tag: label.tag, data };
        let source = self.peers[label.source as usize].number;
        let (completion, _) = met.completion(&blank, len, source);
        let completion = Completion { len, buffer: 0, ..completion };
        match probe {
            Probe::Look => {}
            Probe::Claim => {
                if let Some((label, kept)) = matcher.claim(pattern) {
                    self.claimed.push((post.context, label, kept));
                }
            }
            Probe::Discard => {
                if let Some((label, kept)) = matcher.claim(pattern) {
                    self.discard(label.source, kept);
                }
            }
        }
        if let Some(queue) = super::queue(common, self.bindings.receive_queue) {
            queue.push(completion);
        }
        Ok(())
    }

    /// Receives the message that was claimed with the same context, or discards it.
    ///
    /// # Errors
    /// [`Error::INVALID`] if there is none.
    pub fn receive_claimed(
        &mut self,
        common: &mut Common,
        post: Post,
        wanted: bool,
    ) -> Result<(), Error> {
        let at = self.claimed.iter().position(|(context, _, _)| *context == post.context);
        let (_, label, kept) = self.claimed.remove(at.ok_or(Error::INVALID)?);
        let Post { buffer, context, tell, tagged, .. } = post;
        let receive = Receive { context, buffer, tell, used: None, is_last: false };
        let Label { source: peer, tag } = label;
        let met = Met { peer, tagged, tag, data: kept.data() };
        if wanted {
            self.meet(common, met, receive, kept);
        } else {
            let source = self.peers[peer as usize].number;
            let (completion, _) = met.completion(&receive, 0, source);
            self.discard(peer, kept);
            self.complete(common, Count::Receive, tell, completion);
        }
        Ok(())
    }

    /// Takes a receive back; false if none of that context waits.
    pub fn cancel(&mut self, common: &mut Common, context: usize) -> bool {
        for tagged in [true, false] {
            let matcher = if tagged { &mut self.tagged } else { &mut self.plain };
            if let Some(receive) = matcher.cancel(|_, receive| receive.context == context) {
                let completion = receive.blank(tagged);
                let failure = Failure { completion, excess: 0, error: Error::CANCELED };
                self.fail(common, Count::Receive, failure);
                return true;
            }
        }
        false
    }

    /// A message that was kept meets its receive.
    fn meet(&mut self, common: &mut Common, met: Met, receive: Receive, kept: Kept) {
        match kept {
            Kept::Whole { bytes, id, .. } => {
                receive.buffer.write(0, &bytes);
                self.received(common, met, &receive, bytes.len(), id);
                self.recycle(bytes);
            }
            Kept::Long { id, len, pieces, .. } => self.pull(common, met, receive, id, len, pieces),
        }
    }

    fn recycle(&mut self, mut bytes: Vec<u8>) {
        const SPARE_MAX: usize = 256;
        if self.spare.len() < SPARE_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// A message is not wanted; its sender need not know.
    fn discard(&mut self, peer: u32, kept: Kept) {
        let id = match kept {
            Kept::Whole { bytes, id, .. } => {
                self.recycle(bytes);
                id
            }
            Kept::Long { id, .. } => Some(id),
        };
        self.confirm(peer, id, None);
    }

    /// Tells the sender that a message has been received, if it wants to know.
    #[inline]
    pub(super) fn confirm(&mut self, peer: u32, id: Option<u64>, error: Option<Error>) {
        if let Some(id) = id {
            let data = error.map_or(0, |Error(number)| number as u64);
            self.answer(peer, Head { kind: DONE, len: 0, tag: id, data }, &[]);
        }
    }

    /// A message of `len` bytes has been copied to its receive.
    #[inline(always)]
    pub(super) fn received(
        &mut self,
        common: &mut Common,
        met: Met,
        receive: &Receive,
        len: usize,
        id: Option<u64>,
    ) {
        let source = self.peers[met.peer as usize].number;
        let (completion, excess) = met.completion(receive, len, source);
        if excess > 0 {
            let failure = Failure { completion, excess, error: Error::TRUNCATED };
            self.fail(common, Count::Receive, failure);
        } else {
            self.complete(common, Count::Receive, receive.tell, completion);
        }
        self.confirm(met.peer, id, None);
    }

    /// A long message meets its receive: the sender sends its bytes, and this end copies them from its memory, both at the
    /// same time, from either end of the message.
    pub(super) fn pull(
        &mut self,
        common: &mut Common,
        met: Met,
        receive: Receive,
        id: u64,
        len: usize,
        pieces: Pieces,
    ) {
        let peer = met.peer;
        let its = &self.peers[peer as usize];
        let (completion, excess) = met.completion(&receive, len, its.number);
        if its.is_gone {
            let completion = Completion { len: 0, ..completion };
            let failure = Failure { completion, excess, error: Error::GONE };
            return self.fail(common, Count::Receive, failure);
        }
        let is_open = its.memory.as_ref().is_some_and(OtherMemory::is_open);
        let expected = completion.len;
        let own = self.operations.insert(Operation {
            peer,
            buffer: receive.buffer,
            takes: true,
            got: 0,
            expected,
            pieces: is_open.then_some(pieces),
            completion,
            count: Count::Receive,
            tell: receive.tell,
            excess,
            origin: Some(id),
            region: None,
        });
        if is_open {
            self.pulls.push(own);
        }
        if let Some(node) = self.peers[peer as usize].node {
            return self.receive_far(common, peer, node, own);
        }
        self.answer(peer, Head { kind: NEED, len: 0, tag: id, data: own }, &[expected as u64]);
    }
}
