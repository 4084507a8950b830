//! A link: the segment that two processes share for many VIs. An attachment is one end of one of these VIs.

mod attachment;
mod reach;

pub(crate) use attachment::{Attachment, Close, closed, first_entry};
pub(crate) use reach::{LAST, Missed};

use crate::words;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use reach::Reach;
use sovia_ring::layout::{READY_LISTS, VIS};
use sovia_ring::segment::{Segment, SideIndex};
use sovia_sys::poll::ppoll;
use sovia_sys::{Fd, call, seqpacket::Packets};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Identifies a process. Each process chooses its token at random.
pub(crate) type Token = [u8; 16];

/// The ready list of each side that wakes the side's engine; see [`crate::engine`].
pub(crate) const ENGINE: u32 = 0;

/// One end of a VI, as the engine uses it.
pub(crate) trait End: Send + Sync + core::fmt::Debug {
    /// Handles the peer's changes, such as messages, free room and RDMAs. The engine calls this function after the
    /// peer has notified this VI.
    fn attend(&self);

    /// Reports that the process of `link`'s peer has ended. An end that has left the link ignores the call.
    fn peer_died(&self, link: &Link);
}

/// The ends of a link's VIs. A key is twice the VI's number, plus the side.
type Ends = HashMap<u32, Weak<dyn End>>;

fn key(vi: u32, side: SideIndex) -> u32 {
    vi * 2 + (side & 1) as u32
}

/// A link's other process: its identity, and the means to notify it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) token: Token,
    /// Side of the segment that this process has; `None` if this process has both sides, in a link between its own
    /// threads.
    pub(crate) side: Option<SideIndex>,
    /// Socket that closes when the peer's process ends or executes another program; `None` in a link to this process.
    pub(crate) socket: Option<Arc<Packets>>,
    /// Eventfd that wakes the peer's engine.
    pub(crate) doorbell: Fd,
    /// Address of the token in the peer's memory.
    pub(crate) token_at: u64,
}

/// A segment shared with another process, and descriptors that report the other process's end.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) segment: Segment,
    /// Identifies the segment among those that the two processes share.
    pub(crate) id: u64,
    pub(crate) peer: Token,
    /// Side of the segment that this process has; `None` if this process has both sides, in a link between its own
    /// threads.
    side: Option<SideIndex>,
    /// Socket that closes when the peer's process ends or executes another program.
    pub(crate) socket: Option<Arc<Packets>>,
    /// Pidfd that reports the end of the peer's process, even if a forked child of the peer still holds the socket.
    pub(crate) process: Option<Arc<Fd>>,
    doorbell: Fd,
    /// Direct access to the peer's memory.
    pub(crate) reach: Reach,
    /// Process id of the process that created the link. A forked child of this process must not use the link.
    owner: i32,
    /// Set once the peer is known to have mapped the segment.
    shared: AtomicBool,
    /// For each side, a bit for each ready list that this process uses. The bits lie outside the segment, so the
    /// peer cannot change them.
    ready_lists: [AtomicU32; 2],
    /// For each side, a bit for each VI. The bit is set while this process holds that side's end of the VI.
    held: [[AtomicU64; VIS as usize / 64]; 2],
    /// Set once the segment is known to be corrupt.
    corrupt: AtomicBool,
    dead: AtomicBool,
    ends: Mutex<Ends>,
}

impl Link {
    /// Creates a link with number `id`.
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
            corrupt: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            ends: Mutex::default(),
        }
    }

    /// Returns the sides that belong to this process.
    pub(crate) fn sides(&self) -> impl Iterator<Item = SideIndex> + use<> {
        let side = self.side;
        (0..2).filter(move |&s| side.is_none_or(|side| side == s))
    }

    /// Calls [`End::attend`] for each VI that the peer has notified.
    pub(crate) fn attend(&self) {
        for side in self.sides() {
            let mut vis = Vec::new();
            self.segment.ready_list(side, ENGINE).drain(|vi| vis.push(vi));
            for vi in vis {
                // Release the lock of `ends` before the call: the drop of an attachment takes this lock.
                let end = self.ends().get(&key(vi, side)).cloned();
                match end.map(|end| end.upgrade()) {
                    Some(Some(end)) => end.attend(),
                    // Another thread is dropping this end.
                    Some(None) => {}
                    None => self.not_reaching(vi, side),
                }
            }
        }
    }

    /// Takes a free ready list of this process's `side`. Returns `None` if there is none.
    pub(crate) fn take_ready_list(&self, side: SideIndex) -> Option<u32> {
        let taken = &self.ready_lists[side & 1];
        let index = (ENGINE + 1..READY_LISTS)
            .find(|index| taken.fetch_or(1 << index, Ordering::SeqCst) & (1 << index) == 0)?;
        self.segment.ready_list(side, index).reset(0);
        Some(index)
    }

    /// Returns a ready list that is no longer in use.
    pub(crate) fn give_ready_list(&self, side: SideIndex, index: u32) {
        self.ready_lists[side & 1].fetch_and(!(1 << index), Ordering::SeqCst);
    }

    /// Marks an end of a VI as held by this process. Returns false if this process already holds the end. The
    /// answer does not depend on the segment, which another process may have corrupted.
    fn hold(&self, vi: u32, side: SideIndex) -> bool {
        let word = &self.held[side & 1][(vi % VIS / 64) as usize];
        word.fetch_or(1 << (vi % 64), Ordering::SeqCst) & 1 << (vi % 64) == 0
    }

    fn release(&self, vi: u32, side: SideIndex) {
        let word = &self.held[side & 1][(vi % VIS / 64) as usize];
        word.fetch_and(!(1 << (vi % 64)), Ordering::SeqCst);
    }

    /// Returns the count of changes of the registered memory of `side`. While the count is unchanged, the
    /// registered memory is unchanged, too.
    pub(crate) fn regions_of(&self, side: SideIndex) -> u32 {
        self.segment.side(side).regions.load(Ordering::SeqCst)
    }

    /// Invalidates what the peer knows of this process's memory, and waits until the peer no longer accesses the memory
    /// directly. The caller has already removed the region from the table.
    pub(crate) fn revoke_regions(&self) {
        for side in self.sides() {
            self.segment.side(side).regions.fetch_add(1, Ordering::SeqCst);
        }
        let ends: Vec<_> = self.ends().keys().copied().collect();
        for end in ends {
            self.await_reach(end / 2, end as usize % 2);
        }
    }

    /// Returns the word that is nonzero while the peer of end `side` of a VI accesses this process's memory directly.
    fn reaching(&self, vi: u32, side: SideIndex) -> &AtomicU64 {
        &self.segment.direction(vi, side ^ 1).writer.0[words::W_REACHING]
    }

    /// Waits until the peer no longer accesses this process's memory directly. Before this call, the caller must
    /// have stored a word that keeps the peer from starting another access.
    ///
    /// An access takes a few microseconds. A peer that is stopped in the middle of an access continues the access
    /// later, so this function waits for the end of the access. But the word may also be wrong, because a process
    /// has overwritten it. Only the peer knows if the word is wrong. So this function wakes the peer's engine,
    /// which corrects the word.
    fn await_reach(&self, vi: u32, side: SideIndex) {
        const YIELDS: u32 = 200;
        const PAUSE: u64 = 5_000_000;
        // SYNC: pairs with the fence in `Rdma::reach`. Either the peer sees the caller's store, or this thread sees
        // `W_REACHING`.
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

    /// Wakes the peer's engine for a VI, even if the segment says that the engine is awake.
    fn insist(&self, vi: u32, side: SideIndex) {
        self.segment.ready_list(side ^ 1, ENGINE).notify(vi);
        self.ring();
    }

    /// Clears the word which says that end `side` of this process accesses the peer's memory directly, in case the
    /// word is wrong. The caller must keep the end from starting such an access.
    pub(crate) fn not_reaching(&self, vi: u32, side: SideIndex) {
        let word = self.reaching(vi, side ^ 1);
        if word.load(Ordering::Relaxed) != 0 {
            word.store(0, Ordering::Release);
        }
    }

    /// Returns the side on which this process requests connections.
    pub(crate) fn requester(&self) -> SideIndex {
        self.side.unwrap_or(0)
    }

    /// Returns the side on which this process accepts connections.
    pub(crate) fn acceptor(&self) -> SideIndex {
        self.side.unwrap_or(1)
    }

    /// Returns true if the peer is known to have mapped the segment. Only then may this process request further VIs
    /// of the link.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::SeqCst)
    }

    /// Records that the peer has mapped the segment.
    pub(crate) fn set_shared(&self) {
        self.shared.store(true, Ordering::SeqCst);
    }

    /// Returns true if the link may be used for further connections.
    pub(crate) fn is_sound(&self) -> bool {
        !self.corrupt.load(Ordering::SeqCst) && self.segment.check().is_ok()
    }

    /// Returns true if the link may be discarded.
    pub(crate) fn is_over(&self) -> bool {
        self.is_dead() || !self.is_sound() && self.ends().is_empty()
    }

    /// Marks the segment as corrupt.
    pub(crate) fn set_corrupt(&self) {
        self.corrupt.store(true, Ordering::SeqCst);
    }

    /// Wakes the peer's engine.
    fn ring(&self) {
        // If the eventfd's counter is full, the write fails, but the engine is already being woken. After any other
        // error there is no engine to wake.
        let _ = call::write(self.doorbell.raw(), &1u64.to_ne_bytes());
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the peer's process as ended, and notifies all VIs of the link.
    pub(crate) fn died(&self) {
        self.dead.store(true, Ordering::SeqCst);
        // Release the lock of `ends` before the calls: the drop of an attachment takes this lock.
        let ends: Vec<_> = self.ends().values().cloned().collect();
        for end in ends.iter().filter_map(Weak::upgrade) {
            end.peer_died(self);
        }
    }
}

#[cfg(test)]
impl Peer {
    /// Returns this process itself as the peer, for tests of a link alone.
    pub(crate) fn myself() -> Peer {
        let doorbell = call::eventfd(libc::EFD_NONBLOCK).map(Fd::adopt);
        let doorbell = doorbell.unwrap_or_else(|e| panic!("no eventfd: {e}"));
        Peer { token: [0; 16], side: None, socket: None, doorbell, token_at: 0 }
    }
}
