//! Policy for combining small messages: when such a message waits for further messages, and when it is sent (ICS
//! section 4.2).
//!
//! A message below the limit is appended to a chunk. The chunk is sent in four cases:
//!
//! 1. The timer that began with the chunk's first message expires.
//! 2. The next small message has no room in the chunk.
//! 3. A larger message comes.
//! 4. The program receives, closes, or switches combining off (TCP_NODELAY).

use crate::configuration::Combine;

/// State of a stream's chunk of combined messages. The caller stores the bytes, and this type only counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Combiner {
    /// Length in bytes below which messages are combined. `None` while combining is off.
    below: Option<u32>,
    chunk: u32,
    waiting: u32,
    /// Number of chunks begun so far.
    begun: u32,
    due: bool,
}

/// Instruction to the caller for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Copy the message into the chunk, at this offset in bytes.
    Join(u32),
    /// Send the chunk first, then offer the message again.
    After,
    /// Send the message alone.
    Alone,
}

impl Combiner {
    /// Returns an empty combiner for chunks of `chunk` bytes.
    pub fn new(combine: Option<Combine>, chunk: u32) -> Combiner {
        let below = combine.map(|combine| combine.below.min(chunk));
        Combiner { below, chunk, waiting: 0, begun: 0, due: false }
    }

    /// Limits chunks to `chunk` bytes, the length of the longest packet that the peer receives.
    pub fn limit(&mut self, chunk: u32) {
        self.chunk = chunk;
        self.below = self.below.map(|below| below.min(chunk));
    }

    /// Returns what the caller must do with a message of `bytes` bytes. If the result is [`Fate::Join`], counts the
    /// message as part of the chunk.
    pub fn offer(&mut self, bytes: u32) -> Fate {
        match self.below {
            Some(below) if bytes < below => {
                if self.due || self.waiting + bytes > self.chunk {
                    self.due = true;
                    return Fate::After;
                }
                if self.waiting == 0 {
                    self.begun = self.begun.wrapping_add(1);
                }
                let at = self.waiting;
                self.waiting += bytes;
                Fate::Join(at)
            }
            _ if self.waiting > 0 => {
                self.due = true;
                Fate::After
            }
            _ => Fate::Alone,
        }
    }

    /// Marks the chunk to be sent as soon as the window has room.
    pub fn flush(&mut self) {
        self.due = self.waiting > 0;
    }

    /// Switches combining on for messages shorter than `below` bytes. With `None`, switches combining off.
    pub fn switch(&mut self, below: Option<u32>) {
        self.below = below.map(|below| below.min(self.chunk));
        if self.below.is_none() {
            self.flush();
        }
    }

    /// Returns true if small messages are combined.
    pub const fn is_on(&self) -> bool {
        self.below.is_some()
    }

    /// Returns the number of bytes in the chunk.
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Returns true if the chunk must be sent.
    pub const fn is_due(&self) -> bool {
        self.due
    }

    /// Returns the number of the present chunk if the chunk waits for further messages. The caller must ignore a
    /// timer that it has set for a chunk with another number.
    pub const fn batch(&self) -> Option<u32> {
        if self.waiting > 0 && !self.due { Some(self.begun) } else { None }
    }

    /// Empties the chunk, which the caller now sends. Returns the number of bytes that the chunk had.
    pub const fn take(&mut self) -> u32 {
        let bytes = self.waiting;
        self.waiting = 0;
        self.due = false;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combiner() -> Combiner {
        Combiner::new(Some(Combine::PAPERS), 4096)
    }

    #[test]
    fn small_messages_wait_until_the_chunk_is_full() {
        let mut c = combiner();
        assert_eq!((c.offer(2000), c.batch()), (Fate::Join(0), Some(1)));
        assert_eq!(c.offer(2000), Fate::Join(2000));
        assert_eq!((c.offer(97), c.is_due(), c.batch()), (Fate::After, true, None));
        assert_eq!(c.offer(1), Fate::After, "nothing overtakes by being smaller");
        assert_eq!((c.take(), c.offer(97), c.batch()), (4000, Fate::Join(0), Some(2)));
    }

    #[test]
    fn a_large_message_goes_alone_and_after() {
        let mut c = combiner();
        assert_eq!(c.offer(2048), Fate::Alone);
        c.offer(1);
        assert_eq!(c.offer(2048), Fate::After);
        assert_eq!((c.take(), c.offer(2048)), (1, Fate::Alone));
    }

    #[test]
    fn a_timer_a_receive_or_a_switch_sends_combined_bytes() {
        let mut c = combiner();
        c.flush();
        assert!(!c.is_due(), "nothing waits");
        c.offer(5);
        c.flush();
        assert!(c.is_due());
        c.take();
        c.offer(5);
        c.switch(None);
        assert_eq!((c.is_due(), c.offer(1)), (true, Fate::After));
        c.take();
        assert_eq!((c.offer(1), c.is_on()), (Fate::Alone, false));
        c.switch(Some(1 << 20));
        assert_eq!(c.offer(4095), Fate::Join(0), "at most a chunk is small");
    }
}
