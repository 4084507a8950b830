//! Occupancy of VIs: which connection of this process is on which VI of a segment.
//!
//! Each process has its own table for each segment. A forked child has a copy of its parent's tables. A process can
//! move a connection off its VI for all relatives, but can clear only the entry in its own table. A relative clears
//! the entry in its table when it next looks at the entry ([`Pair::reclaim`]).

use super::{KEPT, OUT, Pair, Pending, Progress, Used, get};
use crate::conn::Phase;
use crate::family;
use crate::message::LINK_LEN;
use crate::table::Ref;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use once_cell::race::OnceBox;
use sovia_ring::layout::VIS;
use sovia_ring::request::DISCRIMINATOR;

// The discriminator of each request in the segment's table is an encoded link.
const _: () = assert!(LINK_LEN == DISCRIMINATOR);

/// Value of an entry if a connection has requested the entry's VI.
const RESERVED: u64 = u32::MAX as u64;

/// Bit that is set in an entry while this process moves the entry's connection off the VI.
const LEAVING: u64 = 1 << 63;

/// An entry for a connection on a VI: the index of the connection's slot plus one, and the slot's generation.
#[derive(Debug, Clone, Copy)]
struct Occupant(u64);

impl Occupant {
    fn of(at: Ref) -> Occupant {
        Occupant(u64::from(at.generation & 0xff_ffff) << 32 | u64::from(at.index + 1))
    }

    /// Returns the connection in an entry, unless this process is moving the connection off the VI.
    fn from(word: u64) -> Option<Occupant> {
        (word & LEAVING == 0 && !matches!(word, 0 | RESERVED)).then_some(Occupant(word))
    }

    fn index(self) -> u32 {
        self.0 as u32 - 1
    }

    /// Returns true if the connection has left its VI for good. A connection that is about to attach has the phase
    /// `Eligible`, and has not left.
    fn has_left(self) -> bool {
        family::conn(self.index()).is_none_or(|conn| {
            !conn.is_generation((self.0 >> 32) as u32)
                || matches!(conn.phase(), Phase::Plain | Phase::Free)
        })
    }
}

/// Number of VIs whose entries lie in one block of memory. A pair with few connections has one block.
const BLOCK: u32 = 64;

type Block = [AtomicU64; BLOCK as usize];

/// For each VI of a pair: the connection on the VI ([`Occupant`]), [`RESERVED`] if a connection has requested the VI,
/// or 0.
#[derive(Debug)]
pub(super) struct Occupants {
    blocks: [OnceBox<Block>; (VIS / BLOCK) as usize],
    /// One above the highest VI that has had an entry.
    top: AtomicU32,
}

impl Occupants {
    pub(super) const fn new() -> Occupants {
        Occupants { blocks: [const { OnceBox::new() }; _], top: AtomicU32::new(0) }
    }

    /// Returns the VIs up to the highest that has had an entry.
    fn used(&self) -> Range<u32> {
        0..self.top.load(Ordering::Acquire)
    }

    /// Returns the number of entries.
    pub(super) fn count(&self) -> usize {
        self.used().filter(|&vi| self.get(vi) != 0).count()
    }

    fn get(&self, vi: u32) -> u64 {
        self.entry(vi).map_or(0, |entry| entry.load(Ordering::Acquire))
    }

    /// Returns the memory of a VI's entry; `None` if the VI has had no entry or does not exist.
    fn entry(&self, vi: u32) -> Option<&AtomicU64> {
        Some(&self.blocks.get((vi / BLOCK) as usize)?.get()?[(vi % BLOCK) as usize])
    }

    /// Replaces the entry `before` by `now`. Returns false if the VI has another entry.
    fn exchange(&self, vi: u32, before: u64, now: u64) -> bool {
        let Some(block) = self.blocks.get((vi / BLOCK) as usize) else { return false };
        let block = if now == 0 {
            block.get()
        } else {
            self.top.fetch_max(vi + 1, Ordering::Release);
            Some(block.get_or_init(|| Box::new([const { AtomicU64::new(0) }; _])))
        };
        let entry = block.map(|block| &block[(vi % BLOCK) as usize]);
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        entry.map_or(before == now, |entry| {
            entry.compare_exchange(before, now, success, failure).is_ok()
        })
    }

    /// Removes the entry of a VI.
    fn clear(&self, vi: u32) {
        if let Some(entry) = self.entry(vi) {
            entry.store(0, Ordering::Release);
        }
    }
}

/// Keeps a pair at its index in the table while this object lives.
#[derive(Debug)]
pub(crate) struct Pinned(u32);

impl Pinned {
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
    /// Keeps the pair at its present index in the table until the result is dropped. `index` is this index. Returns
    /// `None` if the pair has been taken out of the table.
    pub(crate) fn pin(&self, index: u32) -> Option<Pinned> {
        self.count_in().then_some(Pinned(index))
    }

    /// Records that a connection is on a VI. Returns false if the pair has been taken out of the table. Also
    /// returns false if another connection is on the VI. Then another process has overwritten the table of
    /// requests.
    pub(crate) fn occupy(&self, vi: u32, at: Ref) -> bool {
        self.reclaim(vi);
        if !self.count_in() {
            return false;
        }
        let now = Occupant::of(at).0;
        // If the VI was reserved, the reservation has already counted this connection in `refs`.
        let is_reserved = self.end_reservation(vi, now);
        let free = is_reserved || self.conns.exchange(vi, 0, now);
        if is_reserved || !free {
            self.count_out();
        }
        free
    }

    /// Counts a connection that is on a VI or has requested a VI. The pair keeps its index in the table while any
    /// connection is counted. Returns false if the pair has been taken out of the table.
    fn count_in(&self) -> bool {
        let more = |refs: u32| (refs & OUT == 0).then_some(refs + 1);
        self.refs.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    fn count_out(&self) {
        self.refs.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns true if no connection of this process is on a VI.
    fn is_free(&self, vi: u32) -> bool {
        self.reclaim(vi);
        matches!(self.conns.get(vi), 0 | RESERVED)
    }

    /// Clears the entry of a VI whose connection a relative has moved back to TCP. The relative cleared only the
    /// entry in its own table.
    pub(crate) fn reclaim(&self, vi: u32) {
        let word = self.conns.get(vi);
        if Occupant::from(word).is_some_and(Occupant::has_left) && self.conns.exchange(vi, word, 0)
        {
            self.count_out();
        }
    }

    /// Clears the entry of every VI whose connection a relative has moved back to TCP.
    pub(super) fn reclaim_all(&self) {
        self.conns.used().for_each(|vi| self.reclaim(vi));
    }

    /// Marks a VI whose connection is about to leave the VI, so that [`Pair::reclaim`] leaves the entry to the
    /// calling thread. Called under the connection's lock, while the connection is still on the VI.
    pub(crate) fn leaving(&self, vi: u32) {
        if let Some(entry) = self.conns.entry(vi) {
            entry.fetch_or(LEAVING, Ordering::AcqRel);
        }
    }

    /// Requests a connection from the peer, on a VI that no connection of this process is on or has requested.
    /// Returns the index of the VI.
    pub(crate) fn request(&self, discriminator: &[u8; DISCRIMINATOR]) -> Option<u32> {
        self.segment.request_connection_on(
            self.side,
            discriminator,
            |vi| self.reserve(vi),
            |vi| self.free(vi),
        )
    }

    /// Returns to the kernel the memory of VIs that no connection has used for a while. Returns true if another
    /// call is needed later, because a VI with such memory is still in use.
    pub(crate) fn give_back(&self) -> bool {
        self.is_own()
            && self.segment.give_back(self.side, KEPT, |vi| self.reserve(vi), |vi| self.free(vi))
    }

    /// Reserves a VI that no connection of this process is on or has requested.
    fn reserve(&self, vi: u32) -> bool {
        if !self.count_in() {
            return false;
        }
        // Count the reservation in `reserved` before the entry is written, and until the entry is cleared. Then a
        // child forked in between never finds too low a count.
        self.reserved.fetch_add(1, Ordering::AcqRel);
        let reserved = self.conns.exchange(vi, 0, RESERVED);
        if !reserved {
            self.reserved.fetch_sub(1, Ordering::AcqRel);
            self.count_out();
        }
        reserved
    }

    /// Replaces the reservation of a VI by the entry `now`. Returns false if the VI has no reservation.
    fn end_reservation(&self, vi: u32, now: u64) -> bool {
        let ended = self.conns.exchange(vi, RESERVED, now);
        if ended {
            self.reserved.fetch_sub(1, Ordering::AcqRel);
        }
        ended
    }

    /// Withdraws the request for a VI. Returns false if the peer has answered the request.
    pub(crate) fn withdraw(&self, vi: u32) -> bool {
        let withdrawn = self.segment.withdraw(self.side, vi);
        if withdrawn {
            self.free(vi);
            self.notify_nic(vi);
        }
        withdrawn
    }

    /// Withdraws the request for a VI that a connection of this process is already on. Returns false if the peer has
    /// answered the request.
    pub(crate) fn revoke(&self, vi: u32) -> bool {
        self.segment.revoke(self.side, vi)
    }

    /// Returns the state of this process's request for a VI.
    pub(crate) fn progress(&self, vi: u32) -> Progress {
        self.segment.progress(vi)
    }

    /// Withdraws the request for a VI. If the peer has accepted the request meanwhile, leaves the VI and returns true.
    pub(crate) fn abandon(&self, vi: u32) -> bool {
        let is_accepted = !self.withdraw(vi);
        if is_accepted {
            self.decline(vi);
            self.free(vi);
            self.notify_nic(vi);
        }
        is_accepted
    }

    /// Calls `each` with every unanswered request of the peer, and with the encoded link that the request is for.
    pub(crate) fn each_request(&self, each: impl FnMut(Pending, &[u8; LINK_LEN])) {
        self.segment.pending(self.side, each);
    }

    /// Accepts a request of the peer. Returns false if the peer has withdrawn the request. Also returns false if a
    /// connection is on the VI. Then another process has overwritten the table of requests.
    pub(crate) fn accept(&self, request: Pending) -> bool {
        self.is_free(request.vi) && self.segment.accept(self.side, request)
    }

    /// Leaves a VI that no connection of this process has used.
    pub(crate) fn decline(&self, vi: u32) {
        self.segment.leave(self.side, vi, Used::Little, 0);
    }

    /// Ends the reservation of a VI whose request led to no connection.
    pub(crate) fn free(&self, vi: u32) {
        if self.end_reservation(vi, 0) {
            self.count_out();
        }
    }

    /// Clears the reservations in a forked child, because the requests are its parent's. Writes only if there are
    /// reservations, because the kernel copies each page that is written after a fork.
    pub(super) fn forget_requests(&self) {
        if self.reserved.load(Ordering::Acquire) != 0 {
            self.conns.used().for_each(|vi| _ = self.conns.exchange(vi, RESERVED, 0));
            self.reserved.store(0, Ordering::Release);
            // Compute `refs` anew. At the fork, a thread of the parent may have counted a connection without having
            // written its entry.
            self.refs.store(self.conns.count() as u32, Ordering::Release);
        }
    }

    /// Leaves a VI whose connection has ended in every process that held this end of the connection. `used` says
    /// how much memory beyond [`KEPT`] the connection has used.
    pub(crate) fn leave(&self, vi: u32, used: Used) {
        // Clear the entry first, because the peer may request a connection on this VI as soon as the segment shows
        // the VI as free.
        self.conns.clear(vi);
        self.segment.leave(self.side, vi, used, KEPT);
        self.notify_nic(vi);
        self.count_out();
    }

    /// Clears this process's entry of a VI whose connection this process no longer has. Relatives may still have
    /// the connection.
    pub(crate) fn vacate(&self, vi: u32) {
        self.conns.clear(vi);
        self.count_out();
    }

    /// Returns the index of this process's connection on a VI.
    pub(crate) fn conn_on(&self, vi: u32) -> Option<u32> {
        Occupant::from(self.conns.get(vi)).map(Occupant::index)
    }

    /// Calls `each` with every VI that a connection of this process is on, and with the connection's index.
    pub(crate) fn each_conn(&self, mut each: impl FnMut(u32, u32)) {
        for vi in self.conns.used() {
            if let Some(index) = self.conn_on(vi) {
                each(vi, index);
            }
        }
    }
}
