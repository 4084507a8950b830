//! What a pair of processes shares: one segment for many VIs; and one end of one of them.

mod attachment;
mod reach;

pub(crate) use attachment::{Attachment, Close, closed};
pub(crate) use reach::{LAST, Missed};

use crate::layout::{READY_LISTS, VIS};
use crate::segment::{Segment, SideIndex};
use crate::words;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use reach::Reach;
use sovia_sys::poll::ppoll;
use sovia_sys::{Fd, call, seqpacket::Packets};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Says which process: random, chosen anew by each one.
pub(crate) type Token = [u8; 16];

/// The ready list of each side by which its engine is woken; see [`crate::engine`].
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
    /// A bit for each ready list of our sides that is taken. The peer has no part in that.
    ready_lists: [AtomicU32; 2],
    /// A bit for each VI of which this process has an end, for each side.
    held: [[AtomicU64; VIS as usize / 64]; 2],
    /// The segment is corrupt.
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
            ready_lists: [const { AtomicU32::new(0) }; 2],
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
            self.segment.ready_list(side, ENGINE).drain(|vi| vis.push(vi));
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

    /// A ready list of one of our sides that is not in use yet. `None` if there is none.
    pub(crate) fn take_ready_list(&self, side: SideIndex) -> Option<u32> {
        let taken = &self.ready_lists[side & 1];
        let index = (ENGINE + 1..READY_LISTS)
            .find(|index| taken.fetch_or(1 << index, Ordering::SeqCst) & (1 << index) == 0)?;
        self.segment.ready_list(side, index).reset(0);
        Some(index)
    }

    /// Gives a ready list back.
    pub(crate) fn give_ready_list(&self, side: SideIndex, index: u32) {
        self.ready_lists[side & 1].fetch_and(!(1 << index), Ordering::SeqCst);
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
        self.segment.ready_list(side ^ 1, ENGINE).notify(vi);
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

    /// Marks the segment as corrupt.
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

#[cfg(test)]
impl Peer {
    /// This process itself, for tests of a link alone.
    pub(crate) fn myself() -> Peer {
        let doorbell = call::eventfd(libc::EFD_NONBLOCK).map(Fd::adopt);
        let doorbell = doorbell.unwrap_or_else(|e| panic!("no eventfd: {e}"));
        Peer { token: [0; 16], side: None, socket: None, doorbell, token_at: 0 }
    }
}
