//! Where a direction's larger messages lie: the writer's bookkeeping of its pool.
//!
//! Positions count bytes for the life of the VI; a position's place in the pool is its remainder
//! by [`POOL`]. Messages are placed in order, never across the pool's end, and given back in
//! order, so two numbers describe everything: where the writer is, and how far the reader has
//! released. The writer starts over at the pool's beginning as soon as it may: memory that is
//! still in the cache is worth more than memory that is free.

use crate::Corrupt;

/// Bytes of a pool (address space; pages come with use).
pub const POOL: u64 = 2 << 20;
/// Beyond this place the writer asks whether it may start over. For small messages soon: many
/// connections with a little on their way each should fit a core's cache together. For large ones
/// later: the question costs a cache line from the other core.
const REWIND_SMALL: u64 = 8 << 10;
const REWIND: u64 = 128 << 10;
/// What counts as small.
const SMALL: u32 = 3 << 10;
/// Beyond this place it starts over once half of the beginning is free.
const SOFT: u64 = 1 << 20;
const ALIGN: u64 = 64;

/// The writer's side of a pool.
///
/// ```
/// use via_shm::pool::{Reader, Writer};
///
/// let (mut writer, mut reader) = (Writer::default(), Reader::default());
/// let released = 0;
/// let first = writer.place(5000, || released)?.expect("the pool is empty");
/// let second = writer.place(100, || released)?.expect("there is room");
/// assert!(second >= first + 5000);
///
/// // The reader has consumed both: so much it publishes, and the writer may use again.
/// reader.take(first, 5000)?;
/// let released = reader.take(second, 100)?;
/// assert!(writer.is_empty(released));
/// # Ok::<(), via_shm::Corrupt>(())
/// ```
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Writer {
    position: u64,
    released: u64,
    /// Bytes of the pool from its beginning that may be used.
    limit: u32,
    /// Bytes of the pool from its beginning that have been used.
    used: u32,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer { position: 0, released: 0, limit: POOL as u32, used: 0 }
    }
}

fn lap(position: u64) -> u64 {
    position / POOL
}

fn round_up(len: u32) -> u64 {
    (u64::from(len)).next_multiple_of(ALIGN)
}

impl Writer {
    /// A place for `len` bytes, as an offset into the pool; `None` while there is no room.
    /// `released` loads the reader's word; it is called at most once.
    ///
    /// # Errors
    /// [`Corrupt`] if the reader's word is one that it cannot have written.
    #[inline]
    pub fn place(
        &mut self,
        len: u32,
        released: impl FnOnce() -> u64,
    ) -> Result<Option<u32>, Corrupt> {
        let size = round_up(len);
        let offset = self.position % POOL;
        let end = u64::from(self.limit);
        let rewind = if len <= SMALL { REWIND_SMALL } else { REWIND };
        if offset < rewind && lap(self.released) == lap(self.position) && offset + size <= end {
            return Ok(Some(self.advance(size)));
        }
        let now = released();
        if now > self.position {
            return Err(Corrupt("pool release out of range"));
        }
        // After starting over in an empty pool the writer is ahead of what the reader last published.
        let now = now.max(self.released);
        self.released = now;
        if lap(now) == lap(self.position) {
            let empty = now == self.position && offset != 0;
            let beginning_free = offset >= SOFT && now % POOL >= SOFT / 2;
            if empty || beginning_free || offset + size > end {
                // The next lap; what is free there is what the reader has left behind.
                let free = if empty { end } else { (now % POOL).min(end) };
                if size <= free {
                    self.position = (lap(self.position) + 1) * POOL;
                    if empty {
                        self.released = self.position;
                    }
                    return Ok(Some(self.advance(size)));
                }
                if offset + size > end {
                    return Ok(None);
                }
            }
            return Ok(Some(self.advance(size)));
        }
        let free = (now % POOL).min(end);
        if offset + size <= free { Ok(Some(self.advance(size))) } else { Ok(None) }
    }

    /// Bytes of the pool from its beginning that may be used.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// From now on so many may be used. Not fewer than the largest message has, or it would never go.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit.min(POOL as u32);
    }

    /// Bytes of the pool from its beginning that have been used since [`Writer::begin_anew`].
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Whether the reader, whose word is `released`, needs nothing of the pool any more.
    pub fn is_empty(&self, released: u64) -> bool {
        released.max(self.released) == self.position
    }

    /// Starts over at the beginning of a pool that is empty.
    pub fn begin_anew(&mut self) {
        if !self.position.is_multiple_of(POOL) {
            self.position = (lap(self.position) + 1) * POOL;
        }
        self.released = self.position;
        self.used = 0;
    }

    /// What has been placed since `before` is not to be sent.
    pub fn take_back(&mut self, before: Writer) {
        (self.position, self.released) = (before.position, before.released);
    }

    /// Where in the pool the next message lies, unless the writer starts over.
    pub fn offset(&self) -> usize {
        (self.position % POOL) as usize
    }

    /// The message placed last is shorter than was said.
    pub fn shorten(&mut self, from: u32, to: u32) {
        self.position -= round_up(from) - round_up(to.min(from));
    }

    fn advance(&mut self, size: u64) -> u32 {
        let offset = (self.position % POOL) as u32;
        self.position += size;
        self.used = self.used.max(offset + size as u32);
        offset
    }
}

/// The reader's side: follows the writer from the offsets it names.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Reader {
    position: u64,
}

impl Reader {
    /// What [`Reader::take`] returned last.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Checks a message's place and takes it; the position up to which the pool is free once
    /// the message has been consumed.
    ///
    /// # Errors
    /// [`Corrupt`] if the place is not within the pool.
    #[inline]
    pub fn take(&mut self, offset: u32, len: u32) -> Result<u64, Corrupt> {
        let offset = u64::from(offset);
        if !offset.is_multiple_of(ALIGN) || offset + u64::from(len) > POOL {
            return Err(Corrupt("message outside the pool"));
        }
        let mut base = lap(self.position) * POOL;
        if offset < self.position % POOL {
            base += POOL;
        }
        self.position = base + offset + round_up(len);
        // A message that ends with the pool: stay in its lap by position, not beyond it.
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashSet, VecDeque};

    proptest! {
        /// Whatever is placed and released in whatever rhythm: live messages never overlap.
        #[test]
        fn live_messages_never_overlap(
            steps in proptest::collection::vec((any::<bool>(), 1u32..100_000, 1usize..40), 1..800)
        ) {
            let mut writer = Writer::default();
            let mut reader = Reader::default();
            let mut live: VecDeque<(u32, u32)> = VecDeque::new();
            let mut released = 0;
            for (send, len, count) in steps {
                for _ in 0..count {
                    if send {
                        let Some(at) = writer.place(len, || released).unwrap() else { break };
                        prop_assert!(u64::from(at) + u64::from(len) <= POOL);
                        for &(o, l) in &live {
                            prop_assert!(at >= o + l || o >= at + len, "{at}+{len} over {o}+{l}");
                        }
                        live.push_back((at, len));
                    } else {
                        let Some((o, l)) = live.pop_front() else { break };
                        released = reader.take(o, l).unwrap();
                    }
                }
            }
            // Empty, there is always room for the largest message.
            while let Some((o, l)) = live.pop_front() {
                released = reader.take(o, l).unwrap();
            }
            prop_assert!(writer.place(1 << 20, || released).unwrap().is_some());
        }
    }

    /// A writer, a reader and the messages between them, with positions counted from the lap in which the reader is.
    #[derive(Clone, PartialEq, Eq, Hash, Debug)]
    struct Ends {
        writer: (u64, u64),
        reader: u64,
        published: u64,
        live: VecDeque<(u32, u32)>,
    }

    impl Ends {
        fn writer(&self, limit: u32) -> Writer {
            Writer { position: self.writer.0, released: self.writer.1, limit, used: 0 }
        }

        /// The same, as many laps earlier as can be.
        fn normal(mut self) -> Ends {
            let Ends { writer: (position, released), reader, published, .. } = &mut self;
            let laps = lap((*released).min(*published).min(*reader)) * POOL;
            for place in [position, released, reader, published] {
                *place -= laps;
            }
            self
        }

        /// After a message of that length has been placed, if there is room.
        fn placed(&self, limit: u32, len: u32) -> Option<Ends> {
            let mut writer = self.writer(limit);
            let at = writer.place(len, || self.published).expect("the reader is honest");
            let mut next = Ends { writer: (writer.position, writer.released), ..self.clone() };
            let Some(at) = at else {
                assert!(!self.live.is_empty(), "an empty pool has room for {len}: {self:?}");
                return None;
            };
            assert!(at + len <= limit, "{at} + {len}");
            for &(o, l) in &self.live {
                assert!(at >= o + l || o >= at + len, "{at} + {len} over {o} + {l}: {self:?}");
            }
            next.live.push_back((at, len));
            Some(next)
        }

        /// After the oldest message has been consumed and its place given back.
        fn consumed(&self) -> Option<Ends> {
            let mut next = self.clone();
            let (at, len) = next.live.pop_front()?;
            let mut reader = Reader { position: self.reader };
            next.published = reader.take(at, len).expect("the writer is honest");
            next.reader = next.published;
            Some(next)
        }
    }

    /// Every history of messages of a few lengths, however long: a pool comes back to places where it has been, so
    /// there are only so many.
    #[test]
    fn no_history_lets_messages_overlap_or_the_pool_stand_still() {
        const LENGTHS: [u32; 3] = [150 << 10, 400 << 10, 1 << 20];
        for limit in [POOL as u32, 1536 << 10, 500 << 10] {
            let lengths: Vec<_> = LENGTHS.into_iter().filter(|&len| len <= limit).collect();
            let empty = Ends { writer: (0, 0), reader: 0, published: 0, live: VecDeque::new() };
            let mut known = HashSet::from([empty.clone()]);
            let mut open = vec![empty];
            while let Some(ends) = open.pop() {
                let placed = lengths.iter().filter_map(|&len| ends.placed(limit, len));
                let next: Vec<_> = placed.chain(ends.consumed()).map(Ends::normal).collect();
                open.extend(next.into_iter().filter(|next| known.insert(next.clone())));
                assert!(known.len() < 2_000_000, "there are more places than there can be");
            }
            assert!(known.len() > 40, "{} places", known.len());
        }
    }

    #[test]
    fn a_limit_is_kept_and_messages_go_on() {
        const LIMIT: u32 = 64 << 10;
        let mut writer = Writer::default();
        let mut reader = Reader::default();
        writer.set_limit(LIMIT);
        let mut live = VecDeque::new();
        let mut released = 0;
        for i in 0..10_000u32 {
            let len = if i % 50 == 0 { LIMIT } else { 1 + i * 7919 % 9000 };
            let at = loop {
                if let Some(at) = writer.place(len, || released).unwrap() {
                    break at;
                }
                let (at, len) = live.pop_front().expect("an empty pool has room");
                released = reader.take(at, len).unwrap();
            };
            assert!(at + len <= LIMIT);
            live.push_back((at, len));
        }
        assert_eq!(writer.used(), LIMIT);
    }

    #[test]
    fn an_empty_pool_is_begun_anew() {
        let mut writer = Writer::default();
        let mut reader = Reader::default();
        let mut released = 0;
        for len in [70_000, 1, 64, 3000] {
            assert!(writer.is_empty(released));
            let at = writer.place(len, || released).unwrap().unwrap();
            assert!(!writer.is_empty(released) && writer.used() >= len);
            released = reader.take(at, len).unwrap();
            writer.begin_anew();
            assert_eq!(writer.used(), 0);
        }
    }

    #[test]
    fn a_shortened_message_leaves_its_rest() {
        let mut writer = Writer::default();
        let mut reader = Reader::default();
        let at = writer.place(5000, || 0).unwrap().unwrap();
        writer.shorten(5000, 100);
        let next = writer.place(64, || 0).unwrap().unwrap();
        assert_eq!(next, at + 128);
        reader.take(at, 100).unwrap();
        assert_eq!(reader.take(next, 64).unwrap(), writer.position);
    }

    #[test]
    fn an_impossible_release_is_damage() {
        let mut writer = Writer::default();
        writer.place(1 << 20, || 0).unwrap().unwrap();
        assert!(writer.place(1, || 5 << 20).is_err());
    }
}
