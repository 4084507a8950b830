//! One end of a link's VI, which this process holds.

use super::{ENGINE, End, Link, key};
use crate::words;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, fence};
use sovia_ring::layout::{DISCRIMINATOR, Direction, OVERFLOW_BUFFER, VIS};
use sovia_ring::pool::POOL;
use sovia_ring::ready_list::{WakeWord, notify};
use sovia_ring::request::Used;
use sovia_ring::ring::{SLOTS, Slot};
use sovia_ring::segment::SideIndex;
use sovia_sys::call;
use std::sync::{Arc, Weak};
use via::error::Cause;

/// Reason why an end closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Close {
    /// The program disconnected the VI, or dropped it.
    Disconnected = 1,
    /// An error broke the connection.
    Broken = 2,
    /// A message arrived for which no receive was posted.
    NoReceive = 3,
    /// A receive failed. The sender gets this reason at reliable reception only.
    BadReceive = 4,
}

/// Returns the reason for which the writer of `direction` has closed the connection; `None` if the writer has not
/// closed it.
#[inline]
pub(crate) fn closed(direction: &Direction) -> Option<Cause> {
    // SYNC: pairs with `Attachment::close`, so all messages that the writer sent before the close are visible.
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

/// Returns the number of the first entry in the direction in which `from` sends. A VI's two rings lie one after the
/// other, and meet in the middle of a page. With these numbers, the first 16 entries of both rings lie in that page.
/// So an idle VI needs only this page for its rings.
pub(crate) const fn first_entry(from: SideIndex) -> u32 {
    const HALF_PAGE: usize = 2048;
    if from == 0 { SLOTS - (HALF_PAGE / size_of::<Slot>()) as u32 } else { 0 }
}

/// One end of a link's VI. This process holds the end until the attachment is dropped.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) link: Arc<Link>,
    pub(crate) vi: u32,
    pub(crate) side: SideIndex,
}

impl Attachment {
    /// Takes a free VI of the link and requests a connection for it. The new VI has no posted receives. Returns
    /// `None` if all VIs are in use.
    pub(crate) fn request(link: &Arc<Link>) -> Option<Attachment> {
        /// Number of bytes that each pool and overflow buffer keeps allocated from the VI's earlier generation.
        const KEEP: usize = 128 << 10;
        let side = link.requester();
        let segment = &link.segment;
        let vi = segment.request_connection_on(
            side,
            &[0; DISCRIMINATOR],
            |vi| link.hold(vi, side),
            |vi| link.release(vi, side),
        )?;
        if !segment.is_first_generation(vi) {
            segment.trim(vi, KEEP);
        }
        for from in 0..2 {
            segment.direction(vi, from).credit.post(first_entry(from) + SLOTS);
        }
        Some(Attachment { link: link.clone(), vi, side })
    }

    /// Takes the other end of a VI that the peer has requested. Returns `None` if the peer has not requested this
    /// VI or has withdrawn its request.
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

    /// Registers `end`, which the engine calls when the peer has notified this VI or has died. If the peer has
    /// already died, calls [`End::peer_died`] at once.
    pub(crate) fn watch(&self, end: Weak<dyn End>) {
        self.link.ends().insert(key(self.vi, self.side), end.clone());
        if self.link.is_dead()
            && let Some(end) = end.upgrade()
        {
            end.peer_died(&self.link);
        }
    }

    /// Returns true if this process owns the end. A forked child has a copy of this attachment, but does not own
    /// the end.
    fn is_ours(&self) -> bool {
        call::getpid() == self.link.owner
    }

    /// Returns the direction in which this end sends.
    pub(crate) fn out(&self) -> &Direction {
        self.link.segment.direction(self.vi, self.side)
    }

    /// Returns the address of byte `at` of the overflow buffer of the direction in which `from` sends. `at` must be
    /// less than [`OVERFLOW_BUFFER`].
    pub(crate) fn overflow_buffer(&self, from: SideIndex, at: u64) -> NonNull<u8> {
        assert!((at as usize) < OVERFLOW_BUFFER);
        // SAFETY: the overflow buffer lies behind the pool in the same mapping, and `at` is within its
        // `OVERFLOW_BUFFER` bytes.
        unsafe { self.link.segment.pool(self.vi, from).add(POOL as usize + at as usize) }
    }

    /// Wakes the peer if it waits for room in its sending direction.
    pub(crate) fn notify_writer(&self) {
        notify(&self.back().room, |ready_lists| self.notify(ready_lists));
    }

    /// Returns the direction in which this end receives.
    pub(crate) fn back(&self) -> &Direction {
        self.link.segment.direction(self.vi, self.side ^ 1)
    }

    /// Returns the [`WakeWord`] on whose futex word a thread of this end sleeps: while it waits for messages
    /// (`receiving`), or while it waits for room.
    pub(crate) fn wake_word(&self, receiving: bool) -> &WakeWord {
        if receiving { &self.back().wake_word } else { &self.out().room }
    }

    /// Closes this end and notifies the peer. The peer still receives the messages that this end sent before the
    /// close.
    pub(crate) fn close(&self, why: Close) {
        if !self.is_ours() {
            return;
        }
        let word = &self.out().path.0[words::P_CLOSE];
        // Keep the first reason.
        let _ = word.compare_exchange(0, why as u64, Ordering::SeqCst, Ordering::Relaxed);
        notify(&self.out().wake_word, |ready_lists| self.notify(ready_lists));
        notify(&self.back().room, |ready_lists| self.notify(ready_lists));
        self.knock();
    }

    /// Sets this VI's bit in the peer's ready lists. Call it after publishing the event.
    #[cold]
    pub(crate) fn notify(&self, ready_lists: u32) {
        let mut rest = ready_lists;
        while rest != 0 {
            let index = rest.trailing_zeros();
            rest &= rest - 1;
            if self.link.segment.ready_list(self.side ^ 1, index).notify(self.vi).is_some() {
                // `notify` returns a doorbell only for the engine's ready list. The owners of other ready lists
                // sleep on a futex word, which `notify` has woken.
                self.link.ring();
            }
        }
    }

    /// Makes the peer's engine look at this VI. Call it after publishing the event.
    pub(crate) fn knock(&self) {
        fence(Ordering::SeqCst);
        self.notify(1 << ENGINE);
    }

    /// Like [`Attachment::knock`], but wakes the engine even if a process has overwritten the words that an earlier
    /// knock stored. For a caller that has waited long.
    pub(crate) fn insist(&self) {
        self.link.insist(self.vi, self.side);
    }

    /// Makes this process's engine look at this VI.
    pub(crate) fn knock_here(&self) {
        self.link.segment.ready_list(self.side, ENGINE).notify(self.vi);
    }

    /// Clears the word which says that this end accesses the peer's memory directly, in case the word is wrong. The
    /// caller must prevent sends of this end meanwhile.
    pub(crate) fn not_reaching(&self) {
        self.link.not_reaching(self.vi, self.side);
    }

    /// Waits until the peer no longer accesses this process's memory directly by this VI. Call it after closing this
    /// end.
    pub(crate) fn await_reach(&self) {
        if self.is_ours() {
            self.link.await_reach(self.vi, self.side);
        }
    }

    /// Wakes this end's own sleeping threads.
    pub(crate) fn wake_local(&self) {
        for receiving in [true, false] {
            self.wake_word(receiving).wake();
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

#[cfg(test)]
mod tests {
    use super::*;
    use sovia_ring::segment::Segment;

    #[test]
    fn first_entries_of_a_vi_lie_in_one_page() {
        let (segment, _fd) = Segment::create().unwrap();
        for vi in 0..VIS {
            let pages = [0, 1].map(|from| {
                let slot =
                    |n: u32| &segment.slots(vi, from)[((first_entry(from) + n) % SLOTS) as usize];
                [0, 15].map(|n| core::ptr::from_ref(slot(n)).addr() / 4096)
            });
            let [page, ..] = pages[0];
            assert_eq!(pages, [[page; 2]; 2], "VI {vi}");
        }
    }
}
