//! Which connection of this process is on which VI of a segment.
//!
//! Each process has such a table of its own for each segment, a forked one a copy of its parent's. So one that
//! takes a connection off its VI for all its relatives can clear its own entry only; the others find theirs to
//! be void when they next look.

use super::{KEPT, OUT, Pair, Pending, Progress, Used, get};
use crate::conn::Phase;
use crate::family;
use crate::message::LINK_LEN;
use crate::table::Ref;
use core::sync::atomic::Ordering;
use via_shm::layout::VIS;
use via_shm::request::DISCRIMINATOR;

// Both processes fill the table of requests with connections as messages name them.
const _: () = assert!(LINK_LEN == DISCRIMINATOR);

/// In the place of a connection: one has been requested.
const RESERVED: u64 = u32::MAX as u64;

/// In the place of a connection: it is leaving the VI, at the hand of this process.
const LEAVING: u64 = 1 << 63;

/// A connection on a VI, as a word of the table: its slot's number plus one, and the slot's generation.
#[derive(Debug, Clone, Copy)]
struct Occupant(u64);

impl Occupant {
    fn of(at: Ref) -> Occupant {
        Occupant(u64::from(at.generation & 0xff_ffff) << 32 | u64::from(at.index + 1))
    }

    /// The one that a word means, if it is one that this process is not just taking off the VI.
    fn from(word: u64) -> Option<Occupant> {
        (word & LEAVING == 0 && !matches!(word, 0 | RESERVED)).then_some(Occupant(word))
    }

    fn index(self) -> u32 {
        self.0 as u32 - 1
    }

    /// Whether the connection is on no VI any more, for good. One that is about to be attached is a candidate.
    fn has_left(self) -> bool {
        family::conn(self.index()).is_none_or(|conn| {
            !conn.is_generation((self.0 >> 32) as u32)
                || matches!(conn.phase(), Phase::Plain | Phase::Free)
        })
    }
}

/// A pair that keeps its number in the table for as long as this lives.
#[derive(Debug)]
pub(crate) struct Pinned(u32);

impl Pinned {
    /// The number.
    pub(crate) fn index(&self) -> u32 {
        self.0
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(pair) = get(self.0) {
            pair.count_out();
        }
    }
}

impl Pair {
    /// Has the pair keep its number, which is `index`. `None` if it has been taken out of the table.
    pub(crate) fn pin(&self, index: u32) -> Option<Pinned> {
        self.count_in().then_some(Pinned(index))
    }

    /// Notes which connection is on a VI. False if there is one already: then another process has
    /// written to the table of requests; or if the pair has been taken out of the table.
    pub(crate) fn occupy(&self, vi: u32, at: Ref) -> bool {
        self.reclaim(vi);
        if !self.count_in() {
            return false;
        }
        let now = Occupant::of(at).0;
        // A reservation that ends here has been counted.
        let is_reserved = self.end_reservation(vi, now);
        let free = is_reserved || self.exchange(vi, 0, now);
        if is_reserved || !free {
            self.count_out();
        }
        free
    }

    /// Counts a connection that is on a VI or has requested one. The pair keeps its number in the table for as long as any is
    /// counted. Returns false if the pair has been taken out.
    fn count_in(&self) -> bool {
        let more = |refs: u32| (refs & OUT == 0).then_some(refs + 1);
        self.refs.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    fn count_out(&self) {
        self.refs.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether no connection of this process is on a VI.
    fn is_free(&self, vi: u32) -> bool {
        self.reclaim(vi);
        matches!(self.conns[vi as usize].load(Ordering::Acquire), 0 | RESERVED)
    }

    /// Frees a VI whose connection a relative has taken back to TCP: that relative has its own table, and
    /// knows nothing of this one.
    pub(crate) fn reclaim(&self, vi: u32) {
        let Some(place) = self.conns.get(vi as usize) else { return };
        let word = place.load(Ordering::Acquire);
        if Occupant::from(word).is_some_and(Occupant::has_left) && self.exchange(vi, word, 0) {
            self.count_out();
        }
    }

    /// Frees all of them.
    pub(super) fn reclaim_all(&self) {
        (0..VIS).for_each(|vi| self.reclaim(vi));
    }

    /// The connection on a VI is about to leave it: what it leaves is this process's to clear away. Under its
    /// lock, while it is there.
    pub(crate) fn leaving(&self, vi: u32) {
        self.conns[vi as usize].fetch_or(LEAVING, Ordering::AcqRel);
    }

    /// Requests a connection of the peer, on a VI that none of ours is on or will be.
    pub(crate) fn request(&self, discriminator: &[u8; DISCRIMINATOR]) -> Option<u32> {
        self.segment.request_connection_on(
            self.side,
            discriminator,
            |vi| self.reserve(vi),
            |vi| self.free(vi),
        )
    }

    /// Gives back memory of VIs that no connection has used for a while. Whether one is in use whose memory may
    /// come to stay.
    pub(crate) fn give_back(&self) -> bool {
        self.is_own()
            && self.segment.give_back(self.side, KEPT, |vi| self.reserve(vi), |vi| self.free(vi))
    }

    /// Takes a VI that none of this process's connections is on or will be.
    fn reserve(&self, vi: u32) -> bool {
        if !self.count_in() {
            return false;
        }
        // Counted before it is there, and until it is gone: a fork in between finds no fewer counted.
        self.reserved.fetch_add(1, Ordering::AcqRel);
        let reserved = self.exchange(vi, 0, RESERVED);
        if !reserved {
            self.reserved.fetch_sub(1, Ordering::AcqRel);
            self.count_out();
        }
        reserved
    }

    /// Puts `now` in the place of a reservation. False if there is none.
    fn end_reservation(&self, vi: u32, now: u64) -> bool {
        let ended = self.exchange(vi, RESERVED, now);
        if ended {
            self.reserved.fetch_sub(1, Ordering::AcqRel);
        }
        ended
    }

    fn exchange(&self, vi: u32, before: u64, now: u64) -> bool {
        let place = &self.conns[vi as usize];
        place.compare_exchange(before, now, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes a request back. False if it has been answered meanwhile.
    pub(crate) fn withdraw(&self, vi: u32) -> bool {
        let withdrawn = self.segment.withdraw(self.side, vi);
        if withdrawn {
            self.free(vi);
            self.tell_nic(vi);
        }
        withdrawn
    }

    /// Takes a request back for a VI that a connection of ours is on. False if it has been answered meanwhile.
    pub(crate) fn revoke(&self, vi: u32) -> bool {
        self.segment.revoke(self.side, vi)
    }

    /// How a request of ours stands.
    pub(crate) fn progress(&self, vi: u32) -> Progress {
        self.segment.progress(vi)
    }

    /// Takes a request back, or leaves the VI if the peer has accepted it meanwhile.
    pub(crate) fn abandon(&self, vi: u32) {
        if !self.withdraw(vi) {
            self.decline(vi);
            self.free(vi);
            self.tell_nic(vi);
        }
    }

    /// The unanswered requests of the peer, with what each is for.
    pub(crate) fn each_request(&self, each: impl FnMut(Pending, &[u8; LINK_LEN])) {
        self.segment.pending(self.side, each);
    }

    /// Accepts a request of the peer. False if it has been taken back, or is for a VI on which a connection is:
    /// then the table has been overwritten.
    pub(crate) fn accept(&self, request: Pending) -> bool {
        self.is_free(request.vi) && self.segment.accept(self.side, request)
    }

    /// Leaves a VI that no connection of ours has come onto.
    pub(crate) fn decline(&self, vi: u32) {
        self.segment.leave(self.side, vi, Used::Little, 0);
    }

    /// Nothing comes of a request of ours.
    pub(crate) fn free(&self, vi: u32) {
        if self.end_reservation(vi, 0) {
            self.count_out();
        }
    }

    /// In a forked child: the requests are its parent's. Writes to no page that it need not: each would be copied.
    pub(super) fn forget_requests(&self) {
        if self.reserved.load(Ordering::Acquire) != 0 {
            (0..VIS).for_each(|vi| _ = self.exchange(vi, RESERVED, 0));
            self.reserved.store(0, Ordering::Release);
            // Counted anew: a thread of the parent may have been between the count and the place.
            let occupied = self.conns.iter().filter(|conn| conn.load(Ordering::Relaxed) != 0);
            self.refs.store(occupied.count() as u32, Ordering::Release);
        }
    }

    /// The connection on a VI has gone, from this end's every process.
    /// `used`: what it has used beyond [`KEPT`].
    pub(crate) fn leave(&self, vi: u32, used: Used) {
        // In this order: the peer may ask for the number's next connection at once.
        self.conns[vi as usize].store(0, Ordering::Release);
        self.segment.leave(self.side, vi, used, KEPT);
        self.tell_nic(vi);
        self.count_out();
    }

    /// The connection on a VI has gone from this process.
    pub(crate) fn vacate(&self, vi: u32) {
        self.conns[vi as usize].store(0, Ordering::Release);
        self.count_out();
    }

    /// The connection of this process on a VI.
    pub(crate) fn conn_on(&self, vi: u32) -> Option<u32> {
        Occupant::from(self.conns.get(vi as usize)?.load(Ordering::Acquire)).map(Occupant::index)
    }

    /// The connections of this process on this pair's VIs.
    pub(crate) fn each_conn(&self, mut each: impl FnMut(u32)) {
        for vi in 0..VIS {
            if let Some(index) = self.conn_on(vi) {
                each(index);
            }
        }
    }
}
