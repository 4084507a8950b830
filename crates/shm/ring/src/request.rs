//! Connects a VI within a segment that two processes already share.
//!
//! In VIA's model one end requests a connection under a discriminator. The other end finds the request by the
//! discriminator, and accepts it with a VI of its own. Here both ends use the same VI number, which the requester takes
//! from its half of the numbers. The request lies in a table that both sides map, so neither side needs a system call.

use crate::layout::VIS;
pub use crate::layout::{DISCRIMINATOR, Request};
use crate::segment::{Segment, SideIndex};
use crate::sync::{At, Ordering, fence, point};

const PHASE: u32 = 0xff;
const FREE: u32 = 0;
const REQUESTED: u32 = 1;
const ACCEPTED: u32 = 2;
const CLAIMED: u32 = 3;
const CLOSED_REQUESTER: u32 = 1 << 8;
const CLOSED_ACCEPTOR: u32 = 1 << 9;
/// Set if memory of the VI stays allocated for the next connection that uses the VI's number.
/// [`Segment::give_back`] returns this memory to the kernel while the number is free. A new generation keeps the
/// flag.
const USED: u32 = 1 << 10;
/// Set if an end has used much memory and has left.
const MUCH: u32 = 1 << 11;
/// One generation; the upper half of a state counts generations. If a request is withdrawn and its VI is requested
/// again, the generation changes. So a thread that has read the old state notices the change.
const GENERATION: u32 = 1 << 16;
const GENERATIONS: u32 = !(GENERATION - 1);

/// State of a request, for its requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The other end has not answered yet.
    Pending,
    /// The other end has accepted the request.
    Accepted,
    /// The request was withdrawn, closed or overwritten.
    Gone,
}

/// A request of the other side, with the request's state when it was read. [`Segment::accept`] fails if the state
/// has changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// Number of the VI that the request is for.
    pub vi: u32,
    state: u32,
}

/// Amount of its direction's memory that an end has used when it leaves the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Used {
    /// Too little memory to be worth returning to the kernel.
    Little,
    /// An amount that may stay allocated for a while. The next connection that uses the VI's number probably needs
    /// as much. New pages cost more than the copying of the bytes.
    ForNow,
    /// An amount that the end which leaves last returns to the kernel at once.
    Much,
}

/// VIs with lower numbers than this may keep memory while they are free. A request takes the lowest free number, so
/// these VIs are used most.
const STAYS: u32 = 128;

/// Number of VIs in a group. Each side has one word with a bit for each group. So a side that has no request of the
/// other side reads only this word.
const GROUP: u32 = VIS / u64::BITS;

fn group_bit(vi: u32) -> u64 {
    1 << (vi / GROUP)
}

fn owner(vi: u32) -> SideIndex {
    (vi & 1) as usize
}

/// Returns true if the VI is free: no end has used it yet, or both ends have left.
fn is_free(state: u32) -> bool {
    let left = ACCEPTED | CLOSED_REQUESTER | CLOSED_ACCEPTOR;
    state & PHASE == FREE || state & !(GENERATIONS | USED) == left
}

impl Segment {
    /// Takes a free VI from this side's half of the numbers, and requests a connection under `discriminator`.
    /// Returns `None` if all these VIs are in use.
    pub fn request_connection(
        &self,
        side: SideIndex,
        discriminator: &[u8; DISCRIMINATOR],
    ) -> Option<u32> {
        self.request_connection_on(side, discriminator, |_| true, |_| {})
    }

    /// Like [`Segment::request_connection`], but takes only a VI for which `reserve` returns true. The caller keeps
    /// its own record of VIs in use, because the peer may have corrupted the table. If the table says that a
    /// reserved VI is in use, calls `free` for this VI and tries another one.
    pub fn request_connection_on(
        &self,
        side: SideIndex,
        discriminator: &[u8; DISCRIMINATOR],
        reserve: impl Fn(u32) -> bool,
        free: impl Fn(u32),
    ) -> Option<u32> {
        let vi = (0..VIS).find(|&vi| {
            if owner(vi) != side || !reserve(vi) {
                return false;
            }
            let claimed = self.claim(vi);
            if !claimed {
                free(vi);
            }
            claimed
        })?;
        let entry = self.request(vi);
        for (word, bytes) in entry.words.iter().zip(discriminator.chunks_exact(8)) {
            let mut buf = [0; 8];
            buf.copy_from_slice(bytes);
            word.store(u64::from_le_bytes(buf), Ordering::Relaxed);
        }
        let kept = entry.state.load(Ordering::Relaxed) & (GENERATIONS | USED);
        self.recycle(vi, kept & GENERATIONS == GENERATION);
        entry.state.store(kept | REQUESTED, Ordering::Release);
        self.side(side).pending.fetch_or(group_bit(vi), Ordering::SeqCst);
        Some(vi)
    }

    /// Updates the bit of a VI's group after a request of `side` for this VI has ended. The bit stays set if the
    /// group has another request of this side.
    fn end_request(&self, side: SideIndex, vi: u32) {
        let pending = &self.side(side).pending;
        let first = vi / GROUP * GROUP;
        let has_request = || {
            (first..first + GROUP).any(|vi| {
                owner(vi) == side
                    && self.request(vi).state.load(Ordering::Acquire) & PHASE == REQUESTED
            })
        };
        if has_request() {
            return;
        }
        // SYNC: a requester stores its request's state, then sets the bit. Either the second look finds the state, or the
        // requester sets the bit after it was cleared here.
        pending.fetch_and(!group_bit(vi), Ordering::SeqCst);
        if has_request() {
            pending.fetch_or(group_bit(vi), Ordering::SeqCst);
        }
    }

    /// Claims `vi` and returns true. Returns false if an end still uses `vi`. The claimed state keeps a forked
    /// relative of this process from claiming the same VI.
    fn claim(&self, vi: u32) -> bool {
        let state = &self.request(vi).state;
        let seen = state.load(Ordering::Relaxed);
        let free = is_free(seen);
        let generation = match (seen & GENERATIONS).wrapping_add(GENERATION) {
            // The count of generations wraps around to 2, because generation 1 means that the VI's memory is still
            // unused.
            0 => 2 * GENERATION,
            generation => generation,
        };
        point(At::Taking);
        free && state
            .compare_exchange(
                seen,
                generation | seen & USED | CLAIMED,
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Returns true if a VI that this side has claimed is in its first generation.
    pub fn is_first_generation(&self, vi: u32) -> bool {
        self.request(vi).state.load(Ordering::Relaxed) & GENERATIONS == GENERATION
    }

    /// Returns the state of this side's request for `vi`.
    pub fn progress(&self, vi: u32) -> Progress {
        match self.request(vi).state.load(Ordering::Acquire) & PHASE {
            REQUESTED => Progress::Pending,
            ACCEPTED => Progress::Accepted,
            _ => Progress::Gone,
        }
    }

    /// Withdraws a request. Returns false if the other end has accepted it.
    pub fn withdraw(&self, side: SideIndex, vi: u32) -> bool {
        self.take_back(side, vi, FREE)
    }

    /// Withdraws a request whose requester already uses the VI. The state is then as if the other end had accepted and
    /// left, so the VI becomes free when the requester leaves. Returns false if the other end has answered.
    pub fn revoke(&self, side: SideIndex, vi: u32) -> bool {
        self.take_back(side, vi, ACCEPTED | CLOSED_ACCEPTOR)
    }

    /// Withdraws a request and puts its VI into the state `left`. Returns false if the other end has answered.
    fn take_back(&self, side: SideIndex, vi: u32, left: u32) -> bool {
        let state = &self.request(vi).state;
        let seen = state.load(Ordering::Acquire);
        let left = seen & (GENERATIONS | USED) | left;
        point(At::Taking);
        let is_taken = seen & PHASE == REQUESTED
            && state.compare_exchange(seen, left, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if is_taken {
            self.end_request(side, vi);
        }
        is_taken
    }

    /// Calls `each` with each unanswered request of the other side and its discriminator.
    pub fn pending(&self, side: SideIndex, mut each: impl FnMut(Pending, &[u8; DISCRIMINATOR])) {
        let other = side ^ 1;
        let mut groups = self.side(other).pending.load(Ordering::Acquire);
        while groups != 0 {
            let first = groups.trailing_zeros() * GROUP;
            groups &= groups - 1;
            for vi in first..first + GROUP {
                if let Some((request, discriminator)) = self.pending_on(side, vi) {
                    each(request, &discriminator);
                }
            }
        }
    }

    /// Returns the other side's unanswered request for `vi` and its discriminator, if there is one. For a caller that
    /// knows the VI's number. [`Segment::pending`] may miss a request while another thread ends one of its group.
    pub fn pending_on(&self, side: SideIndex, vi: u32) -> Option<(Pending, [u8; DISCRIMINATOR])> {
        let request = self.requested(side, vi)?;
        let entry = self.request(vi);
        let mut discriminator = [0; DISCRIMINATOR];
        for (bytes, word) in discriminator.chunks_exact_mut(8).zip(&entry.words) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        // The words belong to one request only if the state is still the same after all words were loaded.
        fence(Ordering::Acquire);
        (entry.state.load(Ordering::Relaxed) == request.state).then_some((request, discriminator))
    }

    /// Returns the other side's unanswered request for `vi`, if there is one.
    pub fn requested(&self, side: SideIndex, vi: u32) -> Option<Pending> {
        if owner(vi) != side ^ 1 {
            return None;
        }
        let state = self.request(vi).state.load(Ordering::Acquire);
        (state & PHASE == REQUESTED).then_some(Pending { vi, state })
    }

    /// Accepts a request of the other side. Returns false if the requester has withdrawn this request, even if
    /// there is a new request for the same VI.
    pub fn accept(&self, side: SideIndex, request: Pending) -> bool {
        let Pending { vi, state } = request;
        let accepted = state & (GENERATIONS | USED) | ACCEPTED;
        point(At::Taking);
        let taken = self
            .request(vi)
            .state
            .compare_exchange(state, accepted, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if taken {
            self.end_request(side ^ 1, vi);
        }
        taken
    }

    /// Marks that this end has left the VI for good. The VI is free once both ends have left. `used` says how much
    /// of its direction's memory this end has used. If either end has used much, the end that leaves last returns
    /// memory to the kernel before the VI becomes free. Each pool and each overflow buffer of the VI then keeps its
    /// first `keep` bytes.
    pub fn leave(&self, side: SideIndex, vi: u32, used: Used, keep: usize) {
        let (closed, theirs) = if owner(vi) == side {
            (CLOSED_REQUESTER, CLOSED_ACCEPTOR)
        } else {
            (CLOSED_ACCEPTOR, CLOSED_REQUESTER)
        };
        let mine = closed
            | match used {
                Used::Little => 0,
                Used::ForNow if vi < STAYS => USED,
                Used::ForNow | Used::Much => MUCH,
            };
        point(At::GivingBack);
        let state = &self.request(vi).state;
        let mut seen = state.load(Ordering::Acquire);
        // A correct peer changes the state at most once during this loop. The limit ends the loop even if a faulty
        // peer changes the state again and again.
        for _ in 0..16 {
            if seen & theirs != 0 {
                if (seen | mine) & MUCH != 0 {
                    self.trim(vi, keep);
                    // The other end has left, so only this end changes the state.
                    state.fetch_and(!(USED | MUCH), Ordering::AcqRel);
                    state.fetch_or(closed, Ordering::AcqRel);
                    return;
                }
                break;
            }
            match state.compare_exchange(seen, seen | mine, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
        state.fetch_or(mine, Ordering::AcqRel);
    }

    /// Returns to the kernel the memory that free VIs of this side have kept. Each pool and each overflow buffer
    /// keeps its first `keep` bytes. `reserve` and `free` are used as in [`Segment::request_connection_on`], but
    /// `free` is called for each reserved VI. Returns true if a VI of this side that may keep memory is in use.
    pub fn give_back(
        &self,
        side: SideIndex,
        keep: usize,
        reserve: impl Fn(u32) -> bool,
        free: impl Fn(u32),
    ) -> bool {
        let mut in_use = false;
        for vi in (0..STAYS).filter(|&vi| owner(vi) == side) {
            let state = &self.request(vi).state;
            let seen = state.load(Ordering::Acquire);
            if !is_free(seen) {
                in_use = true;
            } else if seen & USED != 0 && reserve(vi) {
                if self.claim(vi) {
                    self.trim(vi, keep);
                    let generation = state.load(Ordering::Relaxed) & GENERATIONS;
                    state.store(generation | FREE, Ordering::Release);
                }
                free(vi);
            }
        }
        in_use
    }

    /// Returns true if the other end has left the VI.
    pub fn peer_left(&self, side: SideIndex, vi: u32) -> bool {
        let theirs = if owner(vi) == side { CLOSED_ACCEPTOR } else { CLOSED_REQUESTER };
        self.request(vi).state.load(Ordering::Acquire) & theirs != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vi_lives_from_request_to_the_last_leave() {
        let (segment, _fd) = Segment::create().unwrap();
        let discriminator = [7; DISCRIMINATOR];
        let vi = segment.request_connection(0, &discriminator).unwrap();
        assert_eq!(segment.progress(vi), Progress::Pending);
        let mut found = Vec::new();
        segment.pending(1, |request, d| found.push((request, *d)));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0.vi, found[0].1), (vi, discriminator));
        assert!(segment.accept(1, found[0].0));
        assert!(!segment.withdraw(0, vi));
        assert_eq!(segment.progress(vi), Progress::Accepted);
        segment.pending(1, |_, _| panic!("answered"));
        segment.leave(0, vi, Used::Little, 0);
        assert_ne!(segment.request_connection(0, &discriminator), Some(vi));
        segment.leave(1, vi, Used::Little, 0);
        assert_eq!(segment.request_connection(0, &discriminator), Some(vi));
    }

    #[test]
    fn the_last_to_leave_gives_memory_back() {
        let (segment, _fd) = Segment::create().unwrap();
        let discriminator = [7; DISCRIMINATOR];
        for (first, second) in [
            (Used::Much, Used::Little),
            (Used::Little, Used::Much),
            (Used::ForNow, Used::Much),
            (Used::Much, Used::ForNow),
        ] {
            let vi = segment.request_connection(0, &discriminator).unwrap();
            let mut seen = Vec::new();
            segment.pending(1, |request, _| seen.push(request));
            assert!(segment.accept(1, seen[0]));
            // SAFETY: the byte is within the pool, and no other code uses the segment.
            let byte = || unsafe { segment.pool(vi, 0).add(1 << 20).as_mut() };
            *byte() = 7;
            segment.leave(0, vi, first, 4096);
            assert_eq!(*byte(), 7, "the other end may read still");
            segment.leave(1, vi, second, 4096);
            assert_eq!(*byte(), 0);
        }
    }

    #[test]
    fn retained_memory_serves_the_next_generation_and_is_given_back_once_the_number_is_free() {
        let (segment, _fd) = Segment::create().unwrap();
        let always = |_| true;
        let live = |used| {
            let vi = segment.request_connection(0, &[7; DISCRIMINATOR]).unwrap();
            let mut seen = Vec::new();
            segment.pending(1, |request, _| seen.push(request));
            assert!(segment.accept(1, seen[0]));
            assert!(segment.give_back(0, 4096, always, |_| {}), "it is in use");
            segment.leave(0, vi, Used::Little, 4096);
            segment.leave(1, vi, used, 4096);
            vi
        };
        let vi = segment.request_connection(0, &[1; DISCRIMINATOR]).unwrap();
        // SAFETY: the byte is within the pool, and no other code uses the segment.
        let byte = || unsafe { segment.pool(vi, 0).add(1 << 19).as_mut() };
        *byte() = 7;
        assert!(segment.withdraw(0, vi));
        for used in [Used::ForNow, Used::Little, Used::ForNow] {
            assert_eq!(live(used), vi);
            assert_eq!(*byte(), 7);
        }
        // A VI whose request was withdrawn keeps its memory, too.
        assert_eq!(segment.request_connection(0, &[1; DISCRIMINATOR]), Some(vi));
        assert!(segment.withdraw(0, vi));
        assert_eq!(*byte(), 7);
        assert!(!segment.give_back(0, 4096, |_| false, |_| {}));
        assert_eq!(*byte(), 7, "the process knows that it is in use");
        assert!(!segment.give_back(0, 4096, always, |_| {}));
        assert_eq!(*byte(), 0);
        *byte() = 7;
        assert_eq!(live(Used::Little), vi);
        assert!(!segment.give_back(0, 4096, always, |_| {}));
        assert_eq!(*byte(), 7, "there is nothing to be given back");
    }

    /// The other end of a request that is just ending clears the group's bit, and may stand still before it sets the bit
    /// again.
    #[test]
    fn request_on_a_known_vi_is_found_while_its_group_is_hidden() {
        let (segment, _fd) = Segment::create().unwrap();
        let vi = segment.request_connection(0, &[7; DISCRIMINATOR]).unwrap();
        segment.side(0).pending.store(0, Ordering::Relaxed);
        segment.pending(1, |_, _| panic!("hidden"));
        let (request, discriminator) = segment.pending_on(1, vi).unwrap();
        assert_eq!((request.vi, discriminator), (vi, [7; DISCRIMINATOR]));
        assert_eq!(segment.pending_on(0, vi), None, "it is this side's own");
        assert!(segment.accept(1, request));
        assert_eq!(segment.pending_on(1, vi), None);
    }

    #[test]
    fn requests_of_one_group_stay_visible_until_each_of_them_has_ended() {
        let (segment, _fd) = Segment::create().unwrap();
        let seen = || {
            let mut seen = Vec::new();
            segment.pending(1, |request, _| seen.push(request));
            assert_eq!(segment.side(0).pending.load(Ordering::SeqCst) != 0, !seen.is_empty());
            seen
        };
        let vis: Vec<u32> = (0..2 * GROUP)
            .map(|i| segment.request_connection(0, &[i as u8; DISCRIMINATOR]).unwrap())
            .collect();
        let mut left: Vec<u32> = vis.clone();
        for (i, &vi) in vis.iter().enumerate() {
            let found = seen();
            assert_eq!(found.iter().map(|request| request.vi).collect::<Vec<_>>(), left);
            match i % 3 {
                0 => assert!(segment.withdraw(0, vi)),
                1 => assert!(segment.revoke(0, vi)),
                _ => assert!(segment.accept(1, found[0])),
            }
            left.remove(0);
        }
        assert_eq!(seen(), []);
    }

    #[test]
    fn a_request_made_anew_is_not_the_one_that_was_read() {
        let (segment, _fd) = Segment::create().unwrap();
        let vi = segment.request_connection(0, &[1; DISCRIMINATOR]).unwrap();
        let mut seen = Vec::new();
        segment.pending(1, |request, _| seen.push(request));
        assert!(segment.withdraw(0, vi));
        assert_eq!(segment.request_connection(0, &[2; DISCRIMINATOR]), Some(vi));
        assert!(!segment.accept(1, seen[0]));
        segment.pending(1, |request, d| {
            assert_eq!(*d, [2; DISCRIMINATOR]);
            assert!(segment.accept(1, request));
        });
        assert_eq!(segment.progress(vi), Progress::Accepted);
    }

    #[test]
    fn a_request_that_is_revoked_is_not_accepted_and_its_number_is_free_once_its_maker_has_left() {
        let (segment, _fd) = Segment::create().unwrap();
        let request = || segment.request_connection(0, &[1; DISCRIMINATOR]).unwrap();
        let find = || {
            let mut seen = Vec::new();
            segment.pending(1, |request, _| seen.push(request));
            seen
        };
        let vi = request();
        let seen = find();
        assert!(segment.revoke(0, vi) && !segment.revoke(0, vi));
        assert!(!segment.accept(1, seen[0]) && find().is_empty());
        assert_ne!(request(), vi);
        segment.leave(0, vi, Used::Little, 0);
        assert_eq!(request(), vi);
        assert!(segment.accept(1, find()[0]));
        assert!(!segment.revoke(0, vi));
        segment.leave(0, vi, Used::Little, 0);
        assert_ne!(request(), vi);
    }

    #[test]
    fn only_the_first_generation_is_the_first() {
        let (segment, _fd) = Segment::create().unwrap();
        for generation in 0..0x1_0010 {
            let vi = segment.request_connection(0, &[0; DISCRIMINATOR]).unwrap();
            assert_eq!((vi, segment.is_first_generation(vi)), (0, generation == 0));
            assert!(segment.withdraw(0, vi));
        }
    }

    #[test]
    fn each_side_numbers_its_own_requests() {
        let (segment, _fd) = Segment::create().unwrap();
        let all: Vec<u32> = core::iter::from_fn(|| segment.request_connection(1, &[0; 96]))
            .take(VIS as usize)
            .collect();
        assert_eq!(all.len(), VIS as usize / 2);
        assert!(all.iter().all(|vi| vi % 2 == 1));
        assert!(segment.withdraw(1, all[3]));
        assert_eq!(segment.request_connection(1, &[0; 96]), Some(all[3]));
    }
}
