//! Receives, and messages that arrive before their receive.

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
    /// Memory for the message.
    pub buffer: Buffer,
    /// The value by which the program identifies the receive.
    pub context: usize,
    /// Set if the completion queue gets an entry for success.
    pub tell: bool,
    /// Set if the receive takes messages with tags, clear for messages without tags.
    pub tagged: bool,
    /// The only source to accept, as a number of the address vector.
    pub source: Option<u64>,
    /// The tag to match, except the bits in `ignore`.
    pub tag: u64,
    /// Bits of the tag that do not matter.
    pub ignore: u64,
    /// Set if the receive takes several messages, until little room is left (a multi-receive).
    pub multi: bool,
}

/// Query about messages that no receive awaits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Looks for a matching message.
    Look,
    /// Reserves a matching message for a later receive with the same context.
    Claim,
    /// Discards a matching message.
    Discard,
}

/// A receive that waits for its message.
#[derive(Debug)]
pub(super) struct Receive {
    pub(super) context: usize,
    pub(super) buffer: Buffer,
    pub(super) tell: bool,
    /// For a multi-receive: number of bytes used so far.
    pub(super) used: Option<usize>,
    /// For a part of a multi-receive: set if the whole ends with this part.
    pub(super) is_last: bool,
}

/// A message that waits for its receive.
#[derive(Debug)]
pub(super) enum Kept {
    /// A message with all its bytes.
    Whole { bytes: Vec<u8>, data: Option<u64>, id: Option<u64> },
    /// A message whose bytes are still in the sender's memory.
    Long { id: u64, len: usize, pieces: Pieces, data: Option<u64> },
}

/// Facts about a message that has met its receive.
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
    /// Returns the fields of a completion that any message of this receive has.
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

    /// For a multi-receive: returns the part for a message of `len` bytes, and true if the part is the last. See
    /// [`Receive::split`].
    #[inline(always)]
    pub(super) fn part(&mut self, len: usize, left: usize) -> Option<(Receive, bool)> {
        self.used?;
        let part = self.split(len, left);
        let is_last = part.is_last;
        Some((part, is_last))
    }

    /// Splits off the part of a multi-receive that takes a message of `len` bytes. The whole ends if fewer than `left`
    /// bytes remain.
    pub(super) fn split(&mut self, len: usize, left: usize) -> Receive {
        let at = self.used.unwrap_or(0);
        let room = self.buffer.len().saturating_sub(at);
        // Messages begin at multiples of 8 bytes.
        let next = (at + len.min(room)).next_multiple_of(8);
        self.used = Some(next);
        let is_last = next.saturating_add(left.max(1)) > self.buffer.len();
        let buffer = self.buffer.sub(at, room);
        Receive { context: self.context, buffer, tell: self.tell, used: None, is_last }
    }
}

impl Met {
    /// Returns the completion of `receive` for a message of `len` bytes, and the number of bytes that do not fit.
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
    /// Returns [`Error::INVALID`] if the address vector does not have the source.
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
        // Writes each word directly into its final place. `completion` explains the cost of a copy.
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

    /// Gives waiting messages to a multi-receive. Returns true if the receive is over.
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

    /// Returns the number of free bytes that a multi-receive needs after this message to stay posted. A long message is
    /// always the last, because its bytes arrive over time and the messages before it must be complete when it ends.
    pub(super) fn left_for(&self, long: bool) -> usize {
        if long { usize::MAX } else { self.min_multi_receive }
    }

    /// Looks for a message that no receive awaits, including messages that have just arrived. Reports a completion, or
    /// the failure [`Error::NO_MESSAGE`], to the receive queue.
    ///
    /// # Errors
    /// Returns the errors of [`Endpoint::receive`].
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
            // No counter counts this failure, because no operation has failed.
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

    /// Receives the message that was claimed with the same context. Discards the message unless `wanted`.
    ///
    /// # Errors
    /// Returns [`Error::INVALID`] if no message was claimed with this context.
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

    /// Cancels a receive. Returns false if no receive with this context waits.
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

    /// Gives a waiting message to its receive.
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

    /// Discards a message. The sender sees an ordinary confirmation.
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

    /// Confirms to the sender that a message has been received, or has failed with `error`. Does nothing if the sender
    /// did not ask.
    #[inline]
    pub(super) fn confirm(&mut self, peer: u32, id: Option<u64>, error: Option<Error>) {
        if let Some(id) = id {
            let data = error.map_or(0, |Error(number)| number as u64);
            self.answer(peer, Head { kind: DONE, len: 0, tag: id, data }, &[]);
        }
    }

    /// Completes a message of `len` bytes that has been copied to its receive.
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

    /// Starts to receive the bytes of a long message. The sender sends bytes from the start of the message, while this
    /// end copies bytes from the sender's memory, from the end of the message.
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
