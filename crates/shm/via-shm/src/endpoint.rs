//! One end of a connected VI.
//!
//! An endpoint is plain data without a pointer to anything but the segment, so that it can live in
//! memory which forked processes share; the layer that shares it sees to it that one at a time uses each
//! half. A send executes in the caller: when it returns, the message is in the segment and will
//! be received whatever becomes of the sender. Receives are posted for the whole ring at the
//! beginning, and again as entries are consumed; their memory is lent by the ring and the pool.

use crate::Damaged;
use crate::layout::{AREA, Direction};
use crate::pool::{self, POOL};
use crate::quiet::Quiet;
pub use crate::range::{Area, Bulk, Range};
use crate::remains::Remains;
use crate::ring::{self, Entry, INLINE, SLOTS, Slot};
use crate::segment::{Segment, SideIndex};
use crate::waiter::{Bell, Listeners};
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, compiler_fence};
use sovia_signal::access::{self, BadAddress};
use sovia_sys::{cache, mapping};

/// Bytes that one message may have.
pub const MESSAGE_MAX: usize = 64 << 10;
/// Messages between one that is sent and the one whose place [`Sender::claim_ahead`] fetches.
const AHEAD: u32 = 3;
/// Consumed entries are posted again in batches of this many.
pub const CREDIT_BATCH: u32 = 16;

/// Why a message could not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsent {
    /// The segment holds nonsense.
    Damaged(Damaged),
    /// The bytes are not all there. Nothing has been published.
    BadAddress,
}

impl From<Damaged> for Unsent {
    fn from(damaged: Damaged) -> Unsent {
        Unsent::Damaged(damaged)
    }
}

/// The sending half.
#[derive(Debug)]
#[repr(C)]
pub struct Sender {
    direction: NonNull<Direction>,
    slots: NonNull<[Slot; SLOTS as usize]>,
    pool: NonNull<u8>,
    remains: Remains,
    /// Number of the next entry.
    next: u32,
    /// Receives that the peer is known to have posted.
    credit: u32,
    place: pool::Writer,
    lent: Lent,
    quiet: Quiet,
}

/// A place in the pool that a message is being written to.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Lent {
    /// Its length; 0 for none.
    len: u32,
    at: u32,
    /// The pool before.
    before: pool::Writer,
}

/// The receiving half.
#[derive(Debug)]
#[repr(C)]
pub struct Receiver {
    direction: NonNull<Direction>,
    slots: NonNull<[Slot; SLOTS as usize]>,
    pool: NonNull<u8>,
    remains: Remains,
    /// Number of the next entry.
    next: u32,
    /// Receives that have been published to the peer.
    posted: u32,
    /// Pool position that has been published to the peer.
    released: u64,
    place: pool::Reader,
    /// The pooled message that [`Receiver::advance`] took last, and the place before.
    taking: u32,
    before: pool::Reader,
}

/// Both halves.
#[derive(Debug)]
#[repr(C)]
pub struct Endpoint {
    /// The sending half.
    pub tx: Sender,
    /// The receiving half.
    pub rx: Receiver,
}

impl Endpoint {
    /// One end of `vi`, fresh.
    ///
    /// # Safety
    /// The segment must stay mapped at its address, in every process that uses the endpoint, for
    /// as long as one does. At most one thread at a time may use each half.
    pub unsafe fn new(segment: &Segment, vi: u32, side: SideIndex) -> Endpoint {
        let half = |from: SideIndex| {
            (
                NonNull::from(segment.direction(vi, from)),
                NonNull::from(segment.slots(vi, from)),
                NonNull::new(segment.pool(vi, from)).unwrap_or(NonNull::dangling()),
                Remains(NonNull::from(segment.remains(vi, from))),
            )
        };
        let (direction, slots, pool, remains) = half(side);
        let (place, lent, quiet) = Default::default();
        let (next, credit) = (0, SLOTS);
        let tx = Sender { direction, slots, pool, remains, next, credit, place, lent, quiet };
        let (direction, slots, pool, remains) = half(side ^ 1);
        let place = Default::default();
        let (next, taking, before) = (0, u32::MAX, place);
        let rx = Receiver {
            direction,
            slots,
            pool,
            remains,
            next,
            posted: SLOTS,
            released: 0,
            place,
            taking,
            before,
        };
        Endpoint { tx, rx }
    }
}

impl Sender {
    /// The direction's control block.
    #[inline]
    pub fn direction(&self) -> &Direction {
        // SAFETY: `Endpoint::new`'s contract keeps the segment mapped; the block is all atomics.
        unsafe { self.direction.as_ref() }
    }

    #[inline]
    fn slot(&self, n: u32) -> &Slot {
        // SAFETY: as for `direction`.
        unsafe { &self.slots.as_ref()[(n % SLOTS) as usize] }
    }

    /// The upper layer's area of this direction.
    pub fn area(&self) -> Area {
        Range(NonNull::new(self.pool.as_ptr().wrapping_add(POOL as usize)).unwrap_or(self.pool))
    }

    /// The pool and the area of this direction as one piece.
    pub fn bulk(&self) -> Bulk {
        Range(self.pool)
    }

    /// What the reader of this direction has left unread.
    pub fn remains(&self) -> Remains {
        self.remains
    }

    /// The message of that number, as this end has sent it. Only while the reader has consumed none.
    ///
    /// # Errors
    /// [`Damaged`] if another writer has been at its entry.
    pub fn message(&self, n: u32) -> Result<Entry, Damaged> {
        let overwritten = Damaged("own entry overwritten");
        let entry = self.slot(n).read(n).ok_or(overwritten)?;
        let limit = if entry.pool_offset.is_some() { MESSAGE_MAX } else { INLINE };
        if entry.len as usize > limit { Err(overwritten) } else { Ok(entry) }
    }

    /// Copies bytes of that message out, from byte `from` on, if they are in its entry.
    pub fn copy_message(&self, n: u32, from: usize, out: &mut [u8]) {
        self.slot(n).copy_out(from, out);
    }

    /// The immediate data of a recent entry of ours, if its slot still holds it.
    pub fn immediate(&self, n: u32) -> Option<u32> {
        self.slot(n).read(n).map(|entry| entry.immediate)
    }

    /// Has the lines fetched that a message will be written to after `AHEAD` others, if all of them
    /// have `len` bytes and need the pool. For a stream of such messages: what lies there has been
    /// read long ago, as the reader lets only so many be on their way.
    #[inline]
    pub fn claim_ahead(&self, len: usize) {
        let slot = self.slot(self.next.wrapping_add(AHEAD));
        cache::will_write(core::ptr::from_ref(slot).cast());
        let size = len.next_multiple_of(cache::LINE);
        let place = self.pool.as_ptr().wrapping_add(self.place.offset() + AHEAD as usize * size);
        for line in (0..size).step_by(cache::LINE) {
            cache::will_write(place.wrapping_add(line));
        }
    }

    /// Entries sent so far.
    pub fn sent(&self) -> u32 {
        self.next
    }

    /// Sends one message; false if the peer has no receive posted for it, or no pool left.
    /// The peer is not woken: see [`Sender::news`].
    ///
    /// # Errors
    /// [`Unsent`] if the peer's credit is one that it cannot have given, or `bytes` cannot be read: it
    /// may be the program's.
    #[inline]
    pub fn send(&mut self, immediate: u32, bytes: &[u8]) -> Result<bool, Unsent> {
        debug_assert!(bytes.len() <= MESSAGE_MAX);
        if self.credit.wrapping_sub(self.next) == 0 && !self.refresh_credit()? {
            return Ok(false);
        }
        let slot = self.slot(self.next);
        let len = bytes.len() as u32;
        let pool_offset = if bytes.len() <= INLINE {
            slot.copy_in_checked(bytes).map_err(|BadAddress| Unsent::BadAddress)?;
            None
        } else {
            let before = self.place;
            let Some(at) = self.place(len)? else { return Ok(false) };
            // SAFETY: `place` returned a range of `len` bytes within the pool, which the reader
            // has released; the source lies outside the segment.
            let copied = unsafe {
                access::copy(self.pool.as_ptr().add(at as usize), bytes.as_ptr(), bytes.len())
            };
            if copied.is_err() {
                self.place.take_back(before);
                return Err(Unsent::BadAddress);
            }
            Some(at)
        };
        self.slot(self.next).publish(self.next, Entry { immediate, len, pool_offset });
        self.next = self.next.wrapping_add(1);
        Ok(true)
    }

    /// A place in the pool; none while one is lent: places are used in their order.
    #[inline]
    fn place(&mut self, len: u32) -> Result<Option<u32>, Damaged> {
        if self.lent.len != 0 {
            return Ok(None);
        }
        let direction = self.direction;
        // SAFETY: as in `direction()`; taken apart because `place` borrows `self.place`.
        let released = || unsafe { direction.as_ref() }.credit.released();
        self.place.place(len, released)
    }

    /// Lends a place in the pool to write a message of up to `len` bytes (not 0) into;
    /// [`Sender::commit`] sends it. Until that, or [`Sender::take_back`], no other message that
    /// needs the pool can be sent: [`Sender::send`] returns false. `None` if there is no room, or a
    /// place is lent already.
    ///
    /// # Errors
    /// [`Damaged`] if the peer's release is one that it cannot have given.
    pub fn lend(&mut self, len: u32) -> Result<Option<NonNull<u8>>, Damaged> {
        debug_assert!(len > 0 && len as usize <= MESSAGE_MAX);
        let before = self.place;
        let Some(at) = self.place(len)? else { return Ok(None) };
        self.lent = Lent { len, at, before };
        Ok(NonNull::new(self.pool.as_ptr().wrapping_add(at as usize)))
    }

    /// Whether a place is lent.
    pub fn has_lent(&self) -> bool {
        self.lent.len != 0
    }

    /// Takes the lent place back; nothing is sent.
    pub fn take_back(&mut self) {
        if self.has_lent() {
            self.place.take_back(self.lent.before);
            self.lent = Lent::default();
        }
    }

    /// Sends the first `len` bytes (not 0) of the lent place as one message; false if the peer has no
    /// receive posted for it: then the place stays lent. The peer is not woken: see [`Sender::news`].
    ///
    /// # Errors
    /// [`Damaged`] if the peer's credit is one that it cannot have given.
    pub fn commit(&mut self, immediate: u32, len: u32) -> Result<bool, Damaged> {
        debug_assert!(len > 0 && len <= self.lent.len);
        if self.credit.wrapping_sub(self.next) == 0 && !self.refresh_credit()? {
            return Ok(false);
        }
        let lent = core::mem::take(&mut self.lent);
        self.place.shorten(lent.len, len);
        let entry = Entry { immediate, len, pool_offset: Some(lent.at) };
        self.slot(self.next).publish(self.next, entry);
        self.next = self.next.wrapping_add(1);
        Ok(true)
    }

    /// Bytes of the pool from its beginning that messages may use.
    pub fn pool_limit(&self) -> u32 {
        self.place.limit()
    }

    /// Bytes of the pool from its beginning that messages have used.
    pub fn pool_used(&self) -> usize {
        self.place.used() as usize
    }

    /// From now on so many; [`MESSAGE_MAX`] at least.
    pub fn set_pool_limit(&mut self, limit: u32) {
        self.place.set_limit(limit.max(MESSAGE_MAX as u32));
    }

    /// Gives the pool's memory beyond its first `keep` bytes (whole pages) back to the kernel, if no message
    /// is in the pool and as much has been used. Whether it has.
    pub fn trim_pool(&mut self, keep: usize) -> bool {
        let used = self.place.used() as usize;
        if used <= keep
            || self.has_lent()
            || !self.place.is_empty(self.direction().credit.released())
        {
            return false;
        }
        self.place.begin_anew();
        // SAFETY: within the pool, which is mapped by the contract of `Endpoint::new`; no message is there.
        unsafe { mapping::discard(self.pool.as_ptr().add(keep), POOL as usize - keep) };
        true
    }

    /// Gives the memory of the upper layer's area beyond its first `keep` bytes (whole pages) back to the
    /// kernel. What was there reads as zero.
    pub fn trim_area(&self, keep: usize) {
        // SAFETY: within the area, which is mapped by the contract of `Endpoint::new`; a reader there
        // finds bytes.
        unsafe { mapping::discard(self.pool.as_ptr().add(POOL as usize + keep), AREA - keep) };
    }

    #[cold]
    fn refresh_credit(&mut self) -> Result<bool, Damaged> {
        let posted = self.direction().credit.posted();
        if posted.wrapping_sub(self.next) > SLOTS {
            return Err(Damaged("posted receives out of range"));
        }
        self.credit = posted;
        Ok(posted != self.next)
    }

    /// Makes the half whole after its user died between two steps of [`Sender::send`].
    pub fn repair(&mut self) {
        while self.slot(self.next).holds(self.next) {
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Whether the entries that lie in the ring are still those that this end has put there.
    ///
    /// # Errors
    /// [`Damaged`] if another writer has written there: an entry may be lost to the reader.
    pub fn audit(&self) -> Result<(), Damaged> {
        let untouched = |i| {
            let n = self.next.wrapping_add(i);
            self.slot(n).awaits(n)
        };
        if (0..SLOTS).all(untouched) { Ok(()) } else { Err(Damaged("own entry overwritten")) }
    }

    /// Tells the reader that there is news: wakes sleepers, marks waiters; `ring` is called with
    /// the waiters to notify (a bitmap, never 0).
    #[inline]
    pub fn news(&self, ring: impl FnOnce(u32)) {
        let bell = &self.direction().bell;
        tell_found(bell, self.quiet.look(bell), ring);
    }
}

/// A message that has been expected.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'s> {
    slot: &'s Slot,
    number: u32,
}

impl Expected<'_> {
    /// Whether it is there; one load. Also when it has been taken since, until another one is in its place.
    #[inline]
    pub fn has_come(&self) -> bool {
        self.slot.holds(self.number)
    }
}

impl Receiver {
    /// The direction's control block.
    #[inline]
    pub fn direction(&self) -> &Direction {
        // SAFETY: `Endpoint::new`'s contract keeps the segment mapped; the block is all atomics.
        unsafe { self.direction.as_ref() }
    }

    #[inline]
    fn slot(&self, n: u32) -> &Slot {
        // SAFETY: as for `direction`.
        unsafe { &self.slots.as_ref()[(n % SLOTS) as usize] }
    }

    /// The upper layer's area of this direction.
    pub fn area(&self) -> Area {
        Range(NonNull::new(self.pool.as_ptr().wrapping_add(POOL as usize)).unwrap_or(self.pool))
    }

    /// What this end has left unread.
    pub fn remains(&self) -> Remains {
        self.remains
    }

    /// The pool and the area of this direction as one piece.
    pub fn bulk(&self) -> Bulk {
        Range(self.pool)
    }

    /// Where the next message will lie; to have it fetched, no more.
    #[inline]
    pub fn next_at(&self) -> usize {
        core::ptr::from_ref(self.slot(self.next)).addr()
    }

    /// The next message, which another thread than the halves' owner may look for.
    #[inline]
    pub fn expected(&self) -> Expected<'_> {
        Expected { slot: self.slot(self.next), number: self.next }
    }

    /// Whether a message is there; one load, and the line it loads is the message's own.
    #[inline]
    pub fn has_message(&self) -> bool {
        self.slot(self.next).holds(self.next)
    }

    /// Whether no message is there, nor what a peer cannot have sent; one load, likewise.
    #[inline(always)]
    pub fn awaits_message(&self) -> bool {
        self.slot(self.next).awaits(self.next)
    }

    /// Entries taken so far.
    pub fn received(&self) -> u32 {
        self.next
    }

    /// Pool position that [`Receiver::advance`] returned last.
    pub fn taken(&self) -> u64 {
        self.place.position()
    }

    /// Bytes of the messages in the queue whose immediate data `counts`.
    pub fn queued(&self, counts: impl Fn(u32) -> bool) -> usize {
        (0..SLOTS)
            .map_while(|i| {
                let n = self.next.wrapping_add(i);
                self.slot(n).read(n)
            })
            .filter(|entry| counts(entry.immediate))
            .map(|entry| entry.len as usize)
            .sum()
    }

    /// The message at the head of the queue.
    ///
    /// # Errors
    /// [`Damaged`] if its header makes no sense.
    #[inline]
    pub fn head(&self) -> Result<Option<Entry>, Damaged> {
        // One load: a second look at a line that is just being written would wait for it.
        let entry = match self.slot(self.next).read_or(self.next) {
            Ok(entry) => entry,
            Err(tag) if ring::is_before(self.next, tag) => return Ok(None),
            Err(_) => return Err(Damaged("foreign entry")),
        };
        match entry.pool_offset {
            None if entry.len as usize > INLINE => Err(Damaged("inline message too long")),
            Some(at) if at as u64 + u64::from(entry.len) > POOL => {
                Err(Damaged("message outside the pool"))
            }
            _ => Ok(Some(entry)),
        }
    }

    /// Whether the peer finds in the segment what this end has published.
    ///
    /// # Errors
    /// [`Damaged`] if another writer has written there, or the head of the queue makes no sense.
    pub fn audit(&self) -> Result<(), Damaged> {
        let credit = &self.direction().credit;
        if credit.posted() != self.posted || credit.released() != self.released {
            return Err(Damaged("own credit overwritten"));
        }
        self.head().map(drop)
    }

    /// Puts the place in the pool back if its user died while it took a message.
    pub fn put_back(&mut self) {
        if self.taking == self.next {
            self.place = self.before;
            self.taking = u32::MAX;
        }
    }

    /// Makes the half whole after its user died between two steps of a receive.
    pub fn repair(&self) {
        let credit = &self.direction().credit;
        credit.post(self.posted);
        credit.release(self.released);
    }

    /// Copies bytes of the head message out, from byte `from` on.
    ///
    /// # Errors
    /// [`BadAddress`] if `out` cannot be written: it may be the program's.
    #[inline]
    pub fn copy_head(&self, entry: &Entry, from: usize, out: &mut [u8]) -> Result<(), BadAddress> {
        match entry.pool_offset {
            None => self.slot(self.next).copy_out_checked(from, out),
            Some(at) => self.copy_pooled(at, entry.len, from, out),
        }
    }

    /// Copies bytes of a pooled message out; nothing for a range outside it.
    ///
    /// # Errors
    /// As for [`Receiver::copy_head`].
    #[inline]
    pub fn copy_pooled(
        &self,
        at: u32,
        len: u32,
        from: usize,
        out: &mut [u8],
    ) -> Result<(), BadAddress> {
        let end = from.saturating_add(out.len());
        if end > len as usize || at as usize + end > POOL as usize {
            return Ok(());
        }
        // SAFETY: the range was just checked to lie in the pool. The peer may scribble on it
        // meanwhile: the bytes are its own message, and nothing is decided by them here.
        unsafe {
            access::copy(out.as_mut_ptr(), self.pool.as_ptr().add(at as usize + from), out.len())
        }
    }

    /// Where a pooled message's bytes lie, from byte `from` on; `None` for a range outside the pool.
    /// They stay until [`Receiver::release`] is called with the message's position, or a later one.
    pub fn pooled(&self, at: u32, len: u32, from: u32) -> Option<NonNull<u8>> {
        let fits = from <= len && u64::from(at) + u64::from(len) <= POOL;
        let place = self.pool.as_ptr().wrapping_add(at as usize + from as usize);
        fits.then_some(place).and_then(NonNull::new)
    }

    /// Takes the head message off the queue and posts its receive again. A pooled message's
    /// bytes stay until [`Receiver::release`] is called with the position returned.
    ///
    /// # Errors
    /// [`Damaged`] if its place makes no sense.
    #[inline]
    pub fn advance(&mut self, entry: &Entry) -> Result<Option<u64>, Damaged> {
        let position = match entry.pool_offset {
            None => None,
            Some(at) => {
                // In this order in memory: a process that dies in between has its place put back.
                self.before = self.place;
                compiler_fence(Ordering::SeqCst);
                self.taking = self.next;
                compiler_fence(Ordering::SeqCst);
                Some(self.place.take(at, entry.len)?)
            }
        };
        compiler_fence(Ordering::SeqCst);
        self.next = self.next.wrapping_add(1);
        let posted = self.next.wrapping_add(SLOTS);
        if posted.wrapping_sub(self.posted) >= CREDIT_BATCH {
            self.posted = posted;
            self.direction().credit.post(posted);
        }
        Ok(position)
    }

    /// Gives pool bytes back up to a position that [`Receiver::advance`] returned.
    #[inline]
    pub fn release(&mut self, position: u64) {
        self.released = position;
        self.direction().credit.release(position);
    }

    /// Tells the writer that there is room again, or that something about the path changed.
    #[inline]
    pub fn room(&self, ring: impl FnOnce(u32)) {
        tell(&self.direction().room, ring);
    }
}

/// Wakes the threads that sleep on `bell`, after news have been published; `ring` is called with the waiters
/// that listen (a bitmap, never 0).
#[inline]
pub fn tell(bell: &Bell, ring: impl FnOnce(u32)) {
    tell_found(bell, bell.look(), ring);
}

/// The same, once those that listen have been looked for.
#[inline(always)]
pub(crate) fn tell_found(bell: &Bell, found: Option<Listeners>, ring: impl FnOnce(u32)) {
    if let Some(listeners) = found {
        if listeners.sleepers {
            bell.wake();
        }
        if listeners.waiters != 0 {
            ring(listeners.waiters);
        }
    }
}

#[cfg(test)]
mod wrap_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair() -> (Segment, Endpoint, Endpoint) {
        let (segment, _fd) = Segment::create().unwrap();
        segment.recycle(4, false);
        // SAFETY: the segment is returned with the endpoints and outlives them in each test.
        let (a, b) = unsafe { (Endpoint::new(&segment, 4, 0), Endpoint::new(&segment, 4, 1)) };
        (segment, a, b)
    }

    #[test]
    fn messages_of_every_size_arrive_whole_and_in_order() {
        let (_segment, mut a, mut b) = pair();
        for round in 0..500usize {
            let sizes = [0, 1, 7, 8, 47, 48, 111, 112, 113, 4096, MESSAGE_MAX];
            for (i, &size) in sizes.iter().enumerate() {
                let bytes: Vec<u8> = (0..size).map(|k| (k + i + round) as u8).collect();
                assert!(a.tx.send(i as u32, &bytes).unwrap());
            }
            for (i, &size) in sizes.iter().enumerate() {
                let entry = b.rx.head().unwrap().unwrap();
                assert_eq!((entry.immediate, entry.len as usize), (i as u32, size));
                let mut out = vec![0; size];
                b.rx.copy_head(&entry, 0, &mut out).unwrap();
                assert!(out.iter().enumerate().all(|(k, &v)| v == (k + i + round) as u8));
                if let Some(position) = b.rx.advance(&entry).unwrap() {
                    b.rx.release(position);
                }
            }
            assert_eq!(b.rx.head().unwrap(), None);
        }
    }

    #[test]
    fn without_a_posted_receive_nothing_is_sent() {
        let (_segment, mut a, mut b) = pair();
        for _ in 0..SLOTS {
            assert!(a.tx.send(0, b"x").unwrap());
        }
        assert!(!a.tx.send(0, b"x").unwrap());
        for _ in 0..CREDIT_BATCH {
            let entry = b.rx.head().unwrap().unwrap();
            b.rx.advance(&entry).unwrap();
        }
        assert!(a.tx.send(0, b"x").unwrap());
    }

    /// What the two ends do in a history of lent and borrowed places.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Send(usize),
        Lend(u32),
        Commit(u32),
        TakeBack,
        Receive,
        Borrow,
        GiveBack,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0usize..40_000).prop_map(Step::Send),
            (1u32..60_000).prop_map(Step::Lend),
            (1u32..60_000).prop_map(Step::Commit),
            Just(Step::TakeBack),
            Just(Step::Receive),
            Just(Step::Receive),
            Just(Step::Borrow),
            Just(Step::GiveBack),
        ]
    }

    proptest! {
        /// In whatever order places are lent and borrowed: every message arrives as it was written,
        /// and a borrowed one stays as it is until it is given back.
        #[test]
        fn lent_and_borrowed_places_are_left_alone(
            steps in proptest::collection::vec(step(), 1..600)
        ) {
            let (_segment, mut a, mut b) = pair();
            let (mut written, mut read) = (0u32, 0u32);
            let mut lent: Option<(NonNull<u8>, u32)> = None;
            // The place, its length and number; what is to be released with it.
            let mut borrowed: Option<(NonNull<u8>, usize, u32)> = None;
            let mut owed = 0;
            for step in steps {
                match step {
                    Step::Send(len) => {
                        let sent = a.tx.send(written, &vec![written as u8; len]).unwrap();
                        prop_assert!(!sent || lent.is_none() || len <= INLINE);
                        written += u32::from(sent);
                    }
                    Step::Lend(len) => {
                        if let Some(place) = a.tx.lend(len).unwrap() {
                            prop_assert!(lent.is_none());
                            lent = Some((place, len));
                        }
                    }
                    Step::Commit(len) => {
                        let Some((place, room)) = lent else { continue };
                        let len = len.min(room);
                        // SAFETY: a lent place has as many bytes, and no other code uses it.
                        unsafe { place.write_bytes(written as u8, len as usize) };
                        if a.tx.commit(written, len).unwrap() {
                            written += 1;
                            lent = None;
                        }
                    }
                    Step::TakeBack => {
                        a.tx.take_back();
                        lent = None;
                    }
                    Step::Receive | Step::Borrow => {
                        let Some(entry) = b.rx.head().unwrap() else { continue };
                        prop_assert_eq!(entry.immediate, read);
                        let mut out = vec![0; entry.len as usize];
                        b.rx.copy_head(&entry, 0, &mut out).unwrap();
                        prop_assert!(out.iter().all(|&byte| byte == read as u8));
                        if let Some(position) = b.rx.advance(&entry).unwrap() {
                            owed = position;
                            let place = b.rx.pooled(entry.pool_offset.unwrap(), entry.len, 0);
                            if matches!(step, Step::Borrow) && borrowed.is_none() {
                                borrowed = Some((place.unwrap(), out.len(), read));
                            }
                        }
                        read += 1;
                    }
                    Step::GiveBack => borrowed = None,
                }
                match borrowed {
                    Some((place, len, number)) => {
                        // SAFETY: a borrowed place has as many bytes.
                        let seen = unsafe { core::slice::from_raw_parts(place.as_ptr(), len) };
                        prop_assert!(seen.iter().all(|&byte| byte == number as u8));
                    }
                    None => b.rx.release(owed),
                }
            }
        }
    }

    #[test]
    fn a_lying_peer_is_found_out() {
        let (segment, mut a, b) = pair();
        segment.direction(4, 0).credit.post(1000);
        for _ in 0..SLOTS {
            a.tx.send(0, b"x").unwrap();
        }
        assert!(a.tx.send(0, b"x").is_err());
        let slot = &segment.slots(4, 0)[0];
        slot.publish(0, Entry { immediate: 0, len: 5000, pool_offset: None });
        assert!(b.rx.head().is_err());
        slot.publish(0, Entry { immediate: 0, len: 1 << 20, pool_offset: Some(3 << 20) });
        assert!(b.rx.head().is_err());
    }
}
