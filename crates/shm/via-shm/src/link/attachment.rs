//! One end of a VI of a link, from its taking until it is dropped.

use super::{ENGINE, End, Link, key};
use crate::layout::{AREA, DISCRIMINATOR, Direction, VIS, first_entry};
use crate::pool::POOL;
use crate::ready_list::{Bell, tell};
use crate::request::Used;
use crate::ring::SLOTS;
use crate::segment::SideIndex;
use crate::words;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, fence};
use sovia_sys::call;
use std::sync::{Arc, Weak};
use via::error::Cause;

/// Why an end closes its side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Close {
    /// The program disconnected the VI, or dropped it.
    Disconnected = 1,
    /// An error broke the connection.
    Broken = 2,
    /// A message met no posted receive.
    NoReceive = 3,
    /// A receive of its own went wrong (which a sender is told at reliable reception).
    BadReceive = 4,
}

/// Why the writer of `direction` has closed it, if it has, as its reader sees it.
#[inline]
pub(crate) fn closed(direction: &Direction) -> Option<Cause> {
    // SYNC: pairs with `Attachment::close`: every message sent before it is seen.
    match direction.path.load(words::P_CLOSE) {
        0 => None,
        why => Some(cause(why)),
    }
}

#[cold]
fn cause(why: u64) -> Cause {
    const DISCONNECTED: u64 = Close::Disconnected as u64;
    const BROKEN: u64 = Close::Broken as u64;
    const NO_RECEIVE: u64 = Close::NoReceive as u64;
    const BAD_RECEIVE: u64 = Close::BadReceive as u64;
    match why {
        DISCONNECTED => Cause::PeerDisconnected,
        BROKEN => Cause::PeerBroke,
        NO_RECEIVE => Cause::ReceiveQueueEmpty,
        BAD_RECEIVE => Cause::RemoteDescriptor,
        _ => Cause::Corrupt("unknown reason for the end"),
    }
}

/// One end of a VI of a link, taken until dropped.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) link: Arc<Link>,
    pub(crate) vi: u32,
    pub(crate) side: SideIndex,
}

impl Attachment {
    /// Takes a free VI of the link, with no receives posted at either end, and requests a
    /// connection for it. `None` when all are in use.
    pub(crate) fn request(link: &Arc<Link>) -> Option<Attachment> {
        /// What a VI's earlier life may leave in memory, in each range (bytes).
        const KEEP: usize = 128 << 10;
        let side = link.requester();
        let segment = &link.segment;
        let vi = segment.request_connection_on(
            side,
            &[0; DISCRIMINATOR],
            |vi| link.hold(vi, side),
            |vi| link.release(vi, side),
        )?;
        if !segment.is_first_life(vi) {
            segment.trim(vi, KEEP);
        }
        for from in 0..2 {
            segment.direction(vi, from).credit.post(first_entry(from) + SLOTS);
        }
        Some(Attachment { link: link.clone(), vi, side })
    }

    /// Takes the other end of a VI that the peer has requested. `None` if it has not, or has
    /// given up.
    pub(crate) fn accept(link: &Arc<Link>, vi: u32) -> Option<Attachment> {
        let side = link.acceptor();
        let request = link.segment.requested(side, vi % VIS)?;
        if request.vi != vi || !link.hold(vi, side) {
            return None;
        }
        if !link.segment.accept(side, request) {
            link.release(vi, side);
            return None;
        }
        Some(Attachment { link: link.clone(), vi, side })
    }

    /// Has `end` notified of the peer's death, at once if the peer has died already.
    pub(crate) fn watch(&self, end: Weak<dyn End>) {
        self.link.ends().insert(key(self.vi, self.side), end.clone());
        if self.link.is_dead()
            && let Some(end) = end.upgrade()
        {
            end.peer_died(&self.link);
        }
    }

    /// Whether this process is the end: a forked child has a copy of the value, not the VI.
    fn is_ours(&self) -> bool {
        call::getpid() == self.link.owner
    }

    /// The direction in which this end sends.
    pub(crate) fn out(&self) -> &Direction {
        self.link.segment.direction(self.vi, self.side)
    }

    /// A place in the upper layer's area of the direction in which `from` sends; `at` must be less
    /// than the area is long.
    pub(crate) fn area(&self, from: SideIndex, at: u64) -> NonNull<u8> {
        assert!((at as usize) < AREA);
        // SAFETY: the area lies behind the pool, in the same mapping.
        unsafe { self.link.segment.pool(self.vi, from).add(POOL as usize + at as usize) }
    }

    /// Wakes the peer if it waits for room in its sending direction.
    pub(crate) fn tell_room(&self) {
        tell(&self.back().room, |ready_lists| self.notify(ready_lists));
    }

    /// The direction in which this end receives.
    pub(crate) fn back(&self) -> &Direction {
        self.link.segment.direction(self.vi, self.side ^ 1)
    }

    /// The bell that a thread of this end sleeps on: for messages, or for room.
    pub(crate) fn bell(&self, receiving: bool) -> &Bell {
        if receiving { &self.back().bell } else { &self.out().room }
    }

    /// Tells the peer that this end is closed; what was sent before it, it still receives.
    pub(crate) fn close(&self, why: Close) {
        if !self.is_ours() {
            return;
        }
        let word = &self.out().path.0[words::P_CLOSE];
        // The first reason stands.
        let _ = word.compare_exchange(0, why as u64, Ordering::SeqCst, Ordering::Relaxed);
        tell(&self.out().bell, |ready_lists| self.notify(ready_lists));
        tell(&self.back().room, |ready_lists| self.notify(ready_lists));
        self.knock();
    }

    /// Marks this VI for ready lists of the peer, after the news have been published.
    #[cold]
    pub(crate) fn notify(&self, ready_lists: u32) {
        let mut rest = ready_lists;
        while rest != 0 {
            let index = rest.trailing_zeros();
            rest &= rest - 1;
            if self.link.segment.ready_list(self.side ^ 1, index).notify(self.vi).is_some() {
                // Only an engine ever sleeps.
                self.link.ring();
            }
        }
    }

    /// Has the peer's engine look at this VI, after the news have been published.
    pub(crate) fn knock(&self) {
        fence(Ordering::SeqCst);
        self.notify(1 << ENGINE);
    }

    /// As [`Attachment::knock`], for a caller that has waited long: a knock may have been overwritten.
    pub(crate) fn insist(&self) {
        self.link.insist(self.vi, self.side);
    }

    /// Has our own engine look at this VI.
    pub(crate) fn knock_here(&self) {
        self.link.segment.ready_list(self.side, ENGINE).notify(self.vi);
    }

    /// Says that this end does not reach into the peer's memory. The caller must keep it from sending.
    pub(crate) fn not_reaching(&self) {
        self.link.not_reaching(self.vi, self.side);
    }

    /// Once this end is closed: waits until the peer does not reach into our memory by it.
    pub(crate) fn await_reach(&self) {
        if self.is_ours() {
            self.link.await_reach(self.vi, self.side);
        }
    }

    /// Wakes this end's own sleepers.
    pub(crate) fn wake_local(&self) {
        for receiving in [true, false] {
            self.bell(receiving).wake();
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if !self.is_ours() {
            return;
        }
        self.link.ends().remove(&key(self.vi, self.side));
        let segment = &self.link.segment;
        let requested = self.vi as usize & 1 == self.side;
        if !(requested && segment.withdraw(self.side, self.vi)) {
            self.close(Close::Disconnected);
            segment.leave(self.side, self.vi, Used::Little, 0);
        }
        self.link.release(self.vi, self.side);
    }
}
