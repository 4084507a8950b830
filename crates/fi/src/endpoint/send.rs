//! Sends messages.

use super::operation::Operation;
use super::{Common, Count, Endpoint};
use crate::completion::Completion;
use crate::error::Error;
use crate::flag;
use crate::memory::Buffer;
use crate::shm::{EAGER_MAX, Head, Load, WORDS_MAX};
use crate::wire::{PLAIN, PLAIN_LONG, TAGGED, TAGGED_LONG, WITH_DATA, WITH_ID, put_pieces};

/// A message as the program sends it.
#[derive(Debug)]
pub struct Send {
    /// Bytes of the message.
    pub buffer: Buffer,
    /// The receiver's number in the address vector.
    pub to: u64,
    /// Tag of the message; `None` for a message to receives without tags.
    pub tag: Option<u64>,
    /// Data for the receiver's completion queue.
    pub data: Option<u64>,
    /// The value by which the program identifies the send.
    pub context: usize,
    /// Set if the completion queue gets an entry for success.
    pub tell: bool,
    /// Set if the send ends only when the message has met its receive.
    pub delivery: bool,
}

impl Endpoint {
    /// Sends a message. Up to [`EAGER_MAX`](crate::EAGER_MAX) bytes are copied before this function returns.
    ///
    /// # Errors
    /// Returns [`Error::AGAIN`] if no room is free now, or the reason why the receiver cannot be reached.
    #[inline(always)]
    pub fn send(&mut self, common: &mut Common, send: Send) -> Result<(), Error> {
        let peer = self.peer_of(common, send.to)?;
        let len = send.buffer.len();
        if len > EAGER_MAX || send.delivery {
            return self.send_slowly(common, peer, send);
        }
        let mut kind = if send.tag.is_some() { TAGGED } else { PLAIN };
        if send.data.is_some() {
            kind |= WITH_DATA;
        }
        let (tag, data) = (send.tag.unwrap_or(0), send.data.unwrap_or(0));
        let load = Load { words: &[], buffer: Some((&send.buffer, 0, len)) };
        if !self.put(peer, Head { kind, len: 0, tag, data }, load)? {
            return Err(Error::AGAIN);
        }
        self.complete(common, Count::Send, send.tell, send.completion());
        Ok(())
    }

    #[cold]
    fn send_slowly(&mut self, _: &mut Common, peer: u32, send: Send) -> Result<(), Error> {
        let len = send.buffer.len();
        let is_long = len > EAGER_MAX;
        let mut kind = match (is_long, send.tag.is_some()) {
            (false, false) => PLAIN | WITH_ID,
            (false, true) => TAGGED | WITH_ID,
            (true, false) => PLAIN_LONG,
            (true, true) => TAGGED_LONG,
        };
        if send.data.is_some() {
            kind |= WITH_DATA;
        }
        let head = Head { kind, len: 0, tag: send.tag.unwrap_or(0), data: send.data.unwrap_or(0) };
        let completion = send.completion();
        let id = self.operations.insert(Operation {
            peer,
            buffer: send.buffer,
            takes: false,
            got: 0,
            expected: 0,
            pieces: None,
            completion,
            count: Count::Send,
            tell: send.tell,
            excess: 0,
            origin: None,
            region: None,
        });
        let Some(operation) = self.operations.get_mut(id) else { return Err(Error::NO_MEMORY) };
        // No other code uses the operation before this function has put the buffer back.
        let buffer = core::mem::take(&mut operation.buffer);
        let sent = if is_long {
            let mut words = [0; WORDS_MAX];
            words[0] = id;
            words[1] = len as u64;
            let end = put_pieces(&mut words, 2, buffer.part(0, len));
            self.put(peer, head, Load { words: &words[..end], buffer: None })
        } else {
            self.put(peer, head, Load { words: &[id], buffer: Some((&buffer, 0, len)) })
        };
        if sent == Ok(true) {
            if let Some(operation) = self.operations.get_mut(id) {
                operation.buffer = buffer;
            }
            return Ok(());
        }
        self.operations.remove(id);
        sent.and(Err(Error::AGAIN))
    }
}

impl Send {
    #[inline(always)]
    fn completion(&self) -> Completion {
        let kind = if self.tag.is_some() { flag::TAGGED } else { flag::MSG };
        Completion {
            context: self.context,
            flags: flag::SEND | kind,
            source: flag::ADDRESS_NONE,
            ..Completion::default()
        }
    }
}
