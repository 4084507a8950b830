//! Bookkeeping of a direction's pool, the memory for messages longer than an entry.
//!
//! Positions count bytes since the VI's connection. The offset in the pool is the position modulo [`POOL`]. The
//! writer places messages in order, and no message crosses the pool's end. The reader releases the messages in the
//! same order. So the whole state consists of two numbers: the writer's position, and the position up to which the
//! reader has released bytes. The writer starts over at the pool's beginning as early as possible, because the
//! memory there is probably still in the cache.

use crate::Corrupt;

/// Size of a pool in bytes of address space. Pages are allocated at the first write.
pub const POOL: u64 = 2 << 20;
/// Offset in the pool beyond which the writer of a small message loads the reader's position, to find out if it may
/// start over. The value is low, so that the pools of many connections fit into a processor's cache together.
const REWIND_SMALL: u64 = 8 << 10;
/// Like [`REWIND_SMALL`], for longer messages. The value is higher, because each load of the reader's position moves a
/// cache line between processors.
const REWIND: u64 = 128 << 10;
/// Maximum length of a small message.
const SMALL: u32 = 3 << 10;
/// Offset beyond which the writer starts over if the first `SOFT / 2` bytes of the pool are free.
const SOFT: u64 = 1 << 20;
const ALIGN: u64 = 64;

/// The writer's state of a pool.
///
/// ```
/// use sovia_ring::pool::{Reader, Writer};
///
/// let (mut writer, mut reader) = (Writer::default(), Reader::default());
/// let released = 0;
/// let first = writer.place(5000, || released)?.expect("the pool is empty");
/// let second = writer.place(100, || released)?.expect("there is room");
/// assert!(second >= first + 5000);
///
/// // The reader has consumed both messages, and publishes the position. The writer may then reuse the memory.
/// reader.take(first, 5000)?;
/// let released = reader.take(second, 100)?;
/// assert!(writer.is_empty(released));
/// # Ok::<(), sovia_ring::Corrupt>(())
/// ```
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Writer {
    position: u64,
    released: u64,
    /// Number of bytes, from the pool's beginning, that messages may use.
    limit: u32,
    /// Number of bytes, from the pool's beginning, that messages have used.
    used: u32,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer { position: 0, released: 0, limit: POOL as u32, used: 0 }
    }
}

#[inline]
fn lap(position: u64) -> u64 {
    position / POOL
}

#[inline]
fn round_up(len: u32) -> u64 {
    (u64::from(len)).next_multiple_of(ALIGN)
}

impl Writer {
    /// Reserves `len` bytes and returns their offset in the pool; `None` while there is no room. `released` loads the
    /// reader's published position, and is called at most once.
    ///
    /// # Errors
    /// [`Corrupt`] if the reader's position is ahead of the writer's.
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
        // A writer that starts over in an empty pool counts the skipped bytes as released. So the reader may have
        // published an earlier position than `self.released`.
        let now = now.max(self.released);
        self.released = now;
        if lap(now) == lap(self.position) {
            let empty = now == self.position && offset != 0;
            let beginning_free = offset >= SOFT && now % POOL >= SOFT / 2;
            if empty || beginning_free || offset + size > end {
                // Start over at the pool's beginning. The free part reaches up to the reader's position, or up to
                // the limit if the pool is empty.
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

    /// Returns the number of bytes, from the pool's beginning, that messages may use.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Sets the number of bytes, from the pool's beginning, that messages may use. `limit` must be at least the
    /// length of the longest message, because a longer message could never be sent.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit.min(POOL as u32);
    }

    /// Returns the number of bytes, from the pool's beginning, that messages have used since [`Writer::begin_anew`].
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Returns true if the reader, which has published `released`, has consumed all messages.
    pub fn is_empty(&self, released: u64) -> bool {
        released.max(self.released) == self.position
    }

    /// Starts over at the beginning of an empty pool.
    pub fn begin_anew(&mut self) {
        if !self.position.is_multiple_of(POOL) {
            self.position = (lap(self.position) + 1) * POOL;
        }
        self.released = self.position;
        self.used = 0;
    }

    /// Undoes all reservations made since `before` was copied. None of their messages may have been sent.
    pub fn take_back(&mut self, before: Writer) {
        (self.position, self.released) = (before.position, before.released);
    }

    /// Returns the pool offset of the next message, unless the writer starts over.
    pub fn offset(&self) -> usize {
        (self.position % POOL) as usize
    }

    /// Shortens the message placed last from `from` to `to` bytes.
    pub fn shorten(&mut self, from: u32, to: u32) {
        self.position -= round_up(from) - round_up(to.min(from));
    }

    #[inline]
    fn advance(&mut self, size: u64) -> u32 {
        let offset = (self.position % POOL) as u32;
        self.position += size;
        self.used = self.used.max(offset + size as u32);
        offset
    }
}

/// The reader's state of a pool. Computes positions from the offsets in ring entries.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Reader {
    position: u64,
}

impl Reader {
    /// Returns the position that [`Reader::take`] returned last.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Checks a message's range and takes the message. Returns the position up to which the pool is free once the
    /// program has consumed the message.
    ///
    /// # Errors
    /// [`Corrupt`] if the range is not within the pool.
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
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashSet, VecDeque};

    proptest! {
        /// Places and releases messages in random order, and checks that unreleased messages never overlap.
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
            // An empty pool always has room for the largest message.
            while let Some((o, l)) = live.pop_front() {
                released = reader.take(o, l).unwrap();
            }
            prop_assert!(writer.place(1 << 20, || released).unwrap().is_some());
        }
    }

    /// State of a writer, a reader and the messages between them. Positions are relative to a common lap.
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

        /// Returns an equivalent state with the lowest possible laps.
        fn normal(mut self) -> Ends {
            let Ends { writer: (position, released), reader, published, .. } = &mut self;
            let laps = lap((*released).min(*published).min(*reader)) * POOL;
            for place in [position, released, reader, published] {
                *place -= laps;
            }
            self
        }

        /// Returns the state after a message of `len` bytes has been placed, if there is room.
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

        /// Returns the state after the reader has consumed and released the oldest message.
        fn consumed(&self) -> Option<Ends> {
            let mut next = self.clone();
            let (at, len) = next.live.pop_front()?;
            let mut reader = Reader { position: self.reader };
            next.published = reader.take(at, len).expect("the writer is honest");
            next.reader = next.published;
            Some(next)
        }
    }

    /// Visits every state that messages of a few lengths can reach. The number of states is finite, because
    /// positions are stored relative to the lowest lap.
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
    fn an_impossible_release_is_corrupt() {
        let mut writer = Writer::default();
        writer.place(1 << 20, || 0).unwrap().unwrap();
        assert!(writer.place(1, || 5 << 20).is_err());
    }
}
