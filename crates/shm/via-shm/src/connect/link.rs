//! What a pair of processes shares: one segment for many VIs; and one end of one of them.

use crate::connect::reach::Reach;
use crate::endpoint::tell;
use crate::layout::{Direction, VIS, WAITERS, first_entry};
use crate::pool::POOL;
use crate::ring::SLOTS;
use crate::segment::{Segment, SideIndex};
use crate::vi::words;
use crate::waiter::Bell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use sovia_sys::poll::ppoll;
use sovia_sys::{Fd, call, seqpacket::Packets};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use via::error::Cause;

/// Says which process: random, chosen anew by each one.
pub(crate) type Token = [u8; 16];

/// The waiter of each side by which its engine is woken; see [`crate::engine`].
pub(crate) const ENGINE: u32 = 0;

/// One end of a VI, as the engine knows it.
pub(crate) trait End: Send + Sync + core::fmt::Debug {
    /// The peer has left something to do, or may have.
    fn attend(&self);

    /// The peer's process is no more. For the end to ignore if it has left the link.
    fn peer_died(&self, link: &Link);
}

/// By twice a VI's number, and its side.
type Ends = HashMap<u32, Weak<dyn End>>;

fn key(vi: u32, side: SideIndex) -> u32 {
    vi * 2 + (side & 1) as u32
}

/// How a link's other process is reached.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) token: Token,
    /// Which side this process is; `None`: both, a link between its own threads.
    pub(crate) side: Option<SideIndex>,
    /// Ends when the peer's process ends or executes another program; none in a link to itself.
    pub(crate) socket: Option<Arc<Packets>>,
    /// Wakes the peer's engine.
    pub(crate) doorbell: Fd,
    /// Where in the peer's memory its token lies.
    pub(crate) token_at: u64,
}

/// A shared segment and the means to notice the other process's death.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) segment: Segment,
    /// Names the segment among those of the pair.
    pub(crate) id: u64,
    pub(crate) peer: Token,
    /// Which side this process is; `None`: both, a link between its own threads.
    side: Option<SideIndex>,
    /// Ends when the peer's process ends or executes another program.
    pub(crate) socket: Option<Arc<Packets>>,
    /// Ends when the peer's process ends, even if a forked child of it holds the socket.
    pub(crate) process: Option<Arc<Fd>>,
    doorbell: Fd,
    /// The way into the peer's memory.
    pub(crate) reach: Reach,
    /// This process's id; its forked children must not use the link.
    owner: i32,
    /// The peer is known to have the link.
    shared: AtomicBool,
    /// A bit for each waiter of our sides that is taken. The peer has no part in that.
    waiters: [AtomicU32; 2],
    /// A bit for each VI of which this process has an end, for each side.
    held: [[AtomicU64; VIS as usize / 64]; 2],
    /// The segment is damaged.
    spoilt: AtomicBool,
    dead: AtomicBool,
    ends: Mutex<Ends>,
}

impl Link {
    /// A link by the name of `id`.
    pub(crate) fn new(segment: Segment, id: u64, peer: Peer) -> Link {
        let Peer { token, side, socket, doorbell, token_at } = peer;
        let process = socket.as_ref().and_then(|s| s.peer_process().ok()).map(Arc::new);
        let pid = socket.as_ref().map_or(Ok(call::getpid()), |s| s.peer().map(|peer| peer.0));
        Link {
            segment,
            id,
            peer: token,
            side,
            reach: Reach::new(pid.unwrap_or(0), process.clone(), token, token_at),
            process,
            doorbell,
            socket,
            owner: call::getpid(),
            shared: AtomicBool::new(false),
            waiters: [const { AtomicU32::new(0) }; 2],
            held: [const { [const { AtomicU64::new(0) }; VIS as usize / 64] }; 2],
            spoilt: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            ends: Mutex::default(),
        }
    }

    /// The sides that this process is.
    pub(crate) fn sides(&self) -> impl Iterator<Item = SideIndex> + use<> {
        let side = self.side;
        (0..2).filter(move |&s| side.is_none_or(|side| side == s))
    }

    /// Attends to every VI that the peer has left something to do for.
    pub(crate) fn attend(&self) {
        for side in self.sides() {
            let mut vis = Vec::new();
            self.segment.waiter(side, ENGINE).drain(|vi| vis.push(vi));
            for vi in vis {
                // Not under the lock: an end that is attended to may leave.
                let end = self.ends().get(&key(vi, side)).cloned();
                match end.map(|end| end.upgrade()) {
                    Some(Some(end)) => end.attend(),
                    // It is just being dropped.
                    Some(None) => {}
                    None => self.not_reaching(vi, side),
                }
            }
        }
    }

    /// A waiter of one of our sides that is not in use yet. `None` if there is none.
    pub(crate) fn take_waiter(&self, side: SideIndex) -> Option<u32> {
        let taken = &self.waiters[side & 1];
        let index = (ENGINE + 1..WAITERS)
            .find(|index| taken.fetch_or(1 << index, Ordering::SeqCst) & (1 << index) == 0)?;
        self.segment.waiter(side, index).reset(0);
        Some(index)
    }

    /// Gives a waiter back.
    pub(crate) fn give_waiter(&self, side: SideIndex, index: u32) {
        self.waiters[side & 1].fetch_and(!(1 << index), Ordering::SeqCst);
    }

    /// Takes an end of a VI, unless this process has it already: the segment may say that it is free
    /// when a process has written nonsense into it.
    fn hold(&self, vi: u32, side: SideIndex) -> bool {
        let word = &self.held[side & 1][(vi % VIS / 64) as usize];
        word.fetch_or(1 << (vi % 64), Ordering::SeqCst) & 1 << (vi % 64) == 0
    }

    fn release(&self, vi: u32, side: SideIndex) {
        let word = &self.held[side & 1][(vi % VIS / 64) as usize];
        word.fetch_and(!(1 << (vi % 64)), Ordering::SeqCst);
    }

    /// The peer's registered memory is what it was at the count returned, until the count changes.
    pub(crate) fn regions_of(&self, side: SideIndex) -> u32 {
        self.segment.side(side).regions.load(Ordering::SeqCst)
    }

    /// Makes void what the peer knows of our memory, and waits until it reaches into it no more.
    /// The region in question is out of the table already.
    pub(crate) fn revoke_regions(&self) {
        for side in self.sides() {
            self.segment.side(side).regions.fetch_add(1, Ordering::SeqCst);
        }
        let ends: Vec<_> = self.ends().keys().copied().collect();
        for end in ends {
            self.await_reach(end / 2, end as usize % 2);
        }
    }

    /// Whether the peer, by its end of a VI of which we are `side`, reaches into our memory.
    fn reaching(&self, vi: u32, side: SideIndex) -> &AtomicU64 {
        &self.segment.direction(vi, side ^ 1).writer.0[words::W_REACHING]
    }

    /// Waits until the peer does not reach into our memory. The caller has told the peer before that it
    /// must not begin to any more.
    ///
    /// A reach takes some microseconds, unless the peer is stopped in the middle of it: then it is
    /// waited for, because it will go on. Only the peer itself can tell that from a word that was
    /// overwritten; so its engine is asked, which puts the word right.
    fn await_reach(&self, vi: u32, side: SideIndex) {
        const YIELDS: u32 = 200;
        const PAUSE: u64 = 5_000_000;
        // SYNC: pairs with the fence in `Rdma::reach`: either the peer sees what it was told, or this thread
        // sees that the peer reaches.
        fence(Ordering::SeqCst);
        let word = self.reaching(vi, side);
        let mut yields = 0;
        while word.load(Ordering::Acquire) != 0 && !self.is_dead() {
            if yields < YIELDS {
                yields += 1;
                call::sched_yield();
                continue;
            }
            self.insist(vi, side);
            let _ = ppoll(&mut [], Some(PAUSE), None);
        }
    }

    /// Wakes the peer's engine for a VI, whatever the segment says of its sleep.
    fn insist(&self, vi: u32, side: SideIndex) {
        self.segment.waiter(side ^ 1, ENGINE).notify(vi);
        self.ring();
    }

    /// Our end `side` of a VI does not reach into the peer's memory, whatever the segment says.
    /// The caller must keep it from doing so.
    pub(crate) fn not_reaching(&self, vi: u32, side: SideIndex) {
        let word = self.reaching(vi, side ^ 1);
        if word.load(Ordering::Relaxed) != 0 {
            word.store(0, Ordering::Release);
        }
    }

    /// The side on which this process requests connections.
    pub(crate) fn requester(&self) -> SideIndex {
        self.side.unwrap_or(0)
    }

    /// The side on which this process accepts connections.
    pub(crate) fn acceptor(&self) -> SideIndex {
        self.side.unwrap_or(1)
    }

    /// Whether the peer is known to have the link, so that VIs of it may be requested.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::SeqCst)
    }

    /// The peer has the link.
    pub(crate) fn set_shared(&self) {
        self.shared.store(true, Ordering::SeqCst);
    }

    /// Whether the link is good for further connections.
    pub(crate) fn is_sound(&self) -> bool {
        !self.spoilt.load(Ordering::SeqCst) && self.segment.check().is_ok()
    }

    /// Whether the link is of no use any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_dead() || !self.is_sound() && self.ends().is_empty()
    }

    /// Marks the segment as damaged.
    pub(crate) fn set_spoilt(&self) {
        self.spoilt.store(true, Ordering::SeqCst);
    }

    /// Wakes the peer's engine.
    fn ring(&self) {
        // Full, it is rung already; an error means that there is no engine to wake.
        let _ = call::write(self.doorbell.raw(), &1u64.to_ne_bytes());
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The peer's process is no more: every VI of the link learns it.
    pub(crate) fn died(&self) {
        self.dead.store(true, Ordering::SeqCst);
        // Not under the lock: an end that is told may leave.
        let ends: Vec<_> = self.ends().values().cloned().collect();
        for end in ends.iter().filter_map(Weak::upgrade) {
            end.peer_died(self);
        }
    }
}

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
        _ => Cause::Damaged("unknown reason for the end"),
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
            &[0; crate::request::DISCRIMINATOR],
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
        let request = link.segment.requested(side, vi % crate::layout::VIS)?;
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
        let area = self.link.segment.pool(self.vi, from).wrapping_add(POOL as usize);
        debug_assert!((at as usize) < crate::layout::AREA);
        NonNull::new(area.wrapping_add(at as usize)).unwrap_or(NonNull::dangling())
    }

    /// Wakes the peer if it waits for room in its sending direction.
    pub(crate) fn tell_room(&self) {
        tell(&self.back().room, |waiters| self.notify(waiters));
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
        tell(&self.out().bell, |waiters| self.notify(waiters));
        tell(&self.back().room, |waiters| self.notify(waiters));
        self.knock();
    }

    /// Marks this VI for waiters of the peer, after the news have been published.
    #[cold]
    pub(crate) fn notify(&self, waiters: u32) {
        let mut rest = waiters;
        while rest != 0 {
            let index = rest.trailing_zeros();
            rest &= rest - 1;
            if self.link.segment.waiter(self.side ^ 1, index).notify(self.vi).is_some() {
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
        self.link.segment.waiter(self.side, ENGINE).notify(self.vi);
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
            segment.leave(self.side, self.vi, false, 0);
        }
        self.link.release(self.vi, self.side);
    }
}

#[cfg(test)]
impl Peer {
    /// This process itself, for tests of a link alone.
    pub(crate) fn myself() -> Peer {
        let doorbell = call::eventfd(libc::EFD_NONBLOCK).map(Fd::adopt);
        let doorbell = doorbell.unwrap_or_else(|e| panic!("no eventfd: {e}"));
        Peer { token: [0; 16], side: None, socket: None, doorbell, token_at: 0 }
    }
}
