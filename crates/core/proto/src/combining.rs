//! When small messages wait for more, and when what waits goes (ICS section 4.2).
//!
//! A message below the limit is appended to a chunk, and goes with it: (1) when a timer runs out
//! that began with the chunk's first message, (2) when the next small message has no room in it,
//! (3) when a larger message comes, (4) when the program receives or closes, and when it switches
//! combining off (TCP_NODELAY).

use crate::configuration::Combine;

/// What a stream's chunk holds. Lengths only; the bytes are the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Combiner {
    /// The limit, while combining is on.
    below: Option<u32>,
    chunk: u32,
    waiting: u32,
    /// Chunks begun so far.
    begun: u32,
    due: bool,
}

/// What to do with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Append it to the chunk, at that byte.
    Join(u32),
    /// What waits must go first.
    After,
    /// It goes by itself.
    Alone,
}

impl Combiner {
    /// An empty one, for chunks of so many bytes.
    pub fn new(combine: Option<Combine>, chunk: u32) -> Combiner {
        let below = combine.map(|combine| combine.below.min(chunk));
        Combiner { below, chunk, waiting: 0, begun: 0, due: false }
    }

    /// Chunks are of at most so many bytes: what the peer receives.
    pub fn limit(&mut self, chunk: u32) {
        self.chunk = chunk;
        self.below = self.below.map(|below| below.min(chunk));
    }

    /// What is to be done with a message of `bytes`, and counts it as joined if it joins.
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

    /// What waits is to go as soon as the window lets it.
    pub fn flush(&mut self) {
        self.due = self.waiting > 0;
    }

    /// Switches combining on, below so many bytes, or off.
    pub fn switch(&mut self, below: Option<u32>) {
        self.below = below.map(|below| below.min(self.chunk));
        if self.below.is_none() {
            self.flush();
        }
    }

    /// Whether small messages are combined.
    pub const fn is_on(&self) -> bool {
        self.below.is_some()
    }

    /// Bytes that wait.
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Whether they are to go.
    pub const fn is_due(&self) -> bool {
        self.due
    }

    /// The number of the chunk in which bytes wait and are not yet to go: a timer set for it is
    /// void once this changes.
    pub const fn batch(&self) -> Option<u32> {
        if self.waiting > 0 && !self.due { Some(self.begun) } else { None }
    }

    /// What waits is gone; how many bytes it was.
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
