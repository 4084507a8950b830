//! Pairs: each is a shared segment with one other process, and this process's data about that process.
//!
//! Each process has its own table of pairs. A forked child inherits a copy, with the mappings and descriptors that
//! the pairs use.

pub(crate) mod bells;
mod doors;
mod left;
pub(crate) mod lent;
mod news;
mod places;
mod ready_lists;
mod request;
mod table;

pub(crate) use doors::{
    door, door_for, doors, epoll_of_door, leave_door, renew as renew_doors, ring_own,
};
pub(crate) use left::{collect, leave_all, leave_unanswered, make_room, pause};
pub(crate) use news::{notify, notify_own};
pub(crate) use places::Pinned;
pub(crate) use request::{
    Requested, is_served_by, offered, request_at, request_of, request_of_nic,
};
pub use table::{Using, get};
pub(crate) use table::{each, is_current, keep, of, share};
pub use via_shm::Segment;
pub(crate) use via_shm::layout::{DOORBELLS, VIS};
pub(crate) use via_shm::ready_list::ReadyList;
pub(crate) use via_shm::request::{Pending, Progress, Used};
pub use via_shm::segment::SideIndex;

use crate::config;
use crate::message::{Link, Process};
use crate::peers::{self, Life};
use crate::per_engine::per_engine;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use sovia_sync::{RobustBox, rank};
use sovia_sys::datagram::Datagram;
use sovia_sys::{Fd, call};
use std::sync::{Arc, OnceLock};
use table::{CHANGE, insert};
use via_shm::layout::READY_LISTS;

per_engine! {
    static ME: AtomicU64 = AtomicU64::new(0);
    /// Number of pairs that have become complete.
    static COMPLETED: AtomicU32 = AtomicU32::new(0);
}

/// Returns the number of pairs that have become complete so far. In a complete pair both ends have the segment and
/// each other's doorbells.
pub(crate) fn completed() -> u32 {
    COMPLETED.load(Ordering::Acquire)
}

/// Number of bytes that a VI's last connection may leave in memory, in each range of the segment.
pub(crate) const KEPT: usize = 4 << 10;

/// Maximum number of pairs with peers by rule of one user, so that other users find room in the table.
const OF_ONE_USER: usize = table::PAIRS / 2;

/// Bit of `refs`: the pair has been taken out of the table, so no connection may attach or request a VI.
const OUT: u32 = 1 << 31;

/// A shared segment with one other process, and this process's data about that process.
#[derive(Debug)]
pub struct Pair {
    /// The shared memory.
    pub segment: Segment,
    /// Identity of the segment's file.
    file_id: (u64, u64),
    /// This process's side of the segment.
    pub side: SideIndex,
    pub(crate) peer: Process,
    /// Process that made the pair: this one, or an ancestor.
    maker: Process,
    /// Address at which the peer has accepted connections of this process.
    server: Option<SocketAddr>,
    /// Peer's user, if the peer is a peer by rule. Such a peer may write anything into the segment, and may keep its
    /// descriptors for ever.
    pub(crate) other_user: Option<u32>,
    /// Set if the agent introduced the two processes. Then one of them may be unable to query the kernel for the
    /// other's sockets.
    is_far: bool,
    /// Set if the peer is a NIC in software, which reflects the VIs to the other ends of their connections.
    is_nic: bool,
    /// Sockets by which a peer by rule notifies this process ([`bells`]).
    bells: Option<bells::Bells>,
    /// The peer's doorbells; for a peer by rule, the peer's ends of notification sockets.
    doors: OnceLock<[Fd; DOORBELLS]>,
    /// Names from which offers were sent. The peer's doorbells come to one of them.
    greetings: RobustBox<Vec<(Link, Arc<Datagram>)>, { rank::OFFERS }>,
    /// File of the segment, until the peer has it.
    pub(crate) file: RobustBox<Option<Fd>, { rank::FILE }>,
    /// For each VI: the connection on it (`places::Occupant`), or `places::RESERVED` if a connection has requested
    /// it.
    conns: Box<[AtomicU64]>,
    /// Upper bound of the number of requested VIs in `conns`.
    reserved: AtomicU32,
    /// Number of connections of this process that are attached or have requested a VI, and the bit [`OUT`]. A
    /// connection with a request knows the pair by its index in the table. So no other pair gets this index while a
    /// connection is counted.
    refs: AtomicU32,
    /// Bits of the ready lists that this process uses.
    ready_lists: AtomicU32,
    /// Set after the segment was found corrupt: its ready lists may have missed events.
    pub(crate) suspect: AtomicBool,
    /// Set while the peer takes requests. Cleared when the peer leaves a request that granted its VI unanswered.
    pub(crate) answers: AtomicBool,
    /// Set once the peer has let a fallback time out, until the peer answers another fallback.
    pub(crate) silent: AtomicBool,
}

/// Identity of a peer by rule: the peer shares memory only because the rules trust its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OtherUser {
    pub(crate) uid: u32,
    /// Set if the agent introduced the two processes.
    pub(crate) is_far: bool,
}

/// Returns this process's identity. Draws a random nonce at the first call.
pub(crate) fn me() -> Process {
    let pid = call::getpid();
    let mut nonce = ME.load(Ordering::Acquire);
    if nonce == 0 {
        let mut bytes = [0; 8];
        let _ = call::getrandom(&mut bytes);
        nonce = u64::from_ne_bytes(bytes) | 1;
        if let Err(first) = ME.compare_exchange(0, nonce, Ordering::AcqRel, Ordering::Acquire) {
            nonce = first;
        }
    }
    Process { pid, nonce }
}

/// Gives this process a new identity. From now on [`Pair::is_own`] returns false for every existing pair.
pub(crate) fn begin_anew() {
    ME.store(0, Ordering::Release);
}

/// Gives a forked child its own identity. The child keeps the doorbells, which the peers of older pairs use. Such a
/// doorbell may also wake a relative, which finds no event and sleeps again.
pub(crate) fn forked() {
    begin_anew();
    doors::forked();
    lent::forked();
    each(|_, pair| {
        if pair.ready_lists.load(Ordering::Acquire) != 0 {
            pair.ready_lists.store(0, Ordering::Release);
        }
        pair.forget_requests();
    });
}

/// Adds a pair and returns its index. The caller has made room ([`make_room`]).
pub(crate) fn add(
    segment: Segment,
    file_id: (u64, u64),
    side: SideIndex,
    peer: Process,
    other_user: Option<OtherUser>,
    server: Option<SocketAddr>,
) -> Option<u32> {
    let new = Pair::new(segment, file_id, side, peer, server);
    let Some(OtherUser { uid, is_far }) = other_user else { return insert(new) };
    let mut of_user = 0;
    each(|_, pair| of_user += usize::from(pair.other_user == Some(uid)));
    if of_user >= OF_ONE_USER {
        return None;
    }
    let bells = Some(bells::Bells::new()?);
    let index = insert(Pair { other_user: Some(uid), is_far, bells, ..new })?;
    bells::listen_to(index);
    Some(index)
}

/// Adds a pair with a NIC, like [`add`]. This process has made the segment.
pub(crate) fn add_nic(segment: Segment, file_id: (u64, u64), nic: Process) -> Option<u32> {
    insert(Pair { is_nic: true, ..Pair::new(segment, file_id, 0, nic, None) })
}

/// Fork prepare: no thread changes the table until [`release`].
pub(crate) fn hold() {
    CHANGE.lock();
    doors::hold();
    left::hold();
}

/// After fork, in parent and child.
pub(crate) fn release() {
    left::release();
    doors::release();
    CHANGE.unlock();
}

impl Pair {
    fn new(
        segment: Segment,
        file_id: (u64, u64),
        side: SideIndex,
        peer: Process,
        server: Option<SocketAddr>,
    ) -> Pair {
        Pair {
            segment,
            file_id,
            side,
            peer,
            maker: me(),
            server,
            other_user: None,
            is_far: false,
            is_nic: false,
            bells: None,
            doors: OnceLock::new(),
            greetings: RobustBox::new(Vec::new()),
            file: RobustBox::new(None),
            // On the heap: a rendezvous runs on the program's stack.
            conns: (0..VIS).map(|_| AtomicU64::new(0)).collect(),
            reserved: AtomicU32::new(0),
            refs: AtomicU32::new(0),
            ready_lists: AtomicU32::new(0),
            suspect: AtomicBool::new(false),
            answers: AtomicBool::new(false),
            silent: AtomicBool::new(false),
        }
    }

    /// Returns true if the agent introduced the two processes.
    pub(crate) fn is_far(&self) -> bool {
        self.is_far
    }

    /// Returns true if the peer is a NIC in software.
    pub(crate) fn is_nic(&self) -> bool {
        self.is_nic
    }

    /// Returns true if the peer lives and has not left the pair, as far as this process knows. If the peer has just
    /// died, a request to it stays unanswered.
    pub(crate) fn peer_seems_there(&self) -> bool {
        if !self.has_doors() {
            // No descriptor reports the peer's death yet.
            return self.peer_is_there();
        }
        self.segment.side(self.side ^ 1).gone.load(Ordering::Relaxed) == 0
            && peers::life(self.peer) == Life::Alive
    }

    /// Returns true if the peer lives and has not left the pair. Asks the kernel.
    pub(crate) fn peer_is_there(&self) -> bool {
        self.segment.side(self.side ^ 1).gone.load(Ordering::Relaxed) == 0
            && match self.other_user {
                None => call::process_exists(self.peer.pid),
                // The peer's process id may have no meaning in this PID namespace.
                Some(_) if self.has_doors() || self.side != 0 => {
                    !matches!(peers::life_now(self.peer), Some(Life::AllDied(_)))
                }
                // Nothing reports the death of a peer that has not answered. The pair goes with the last connection
                // that waits for an answer.
                Some(_) => true,
            }
    }

    /// Returns true while this process offers a pair that it has made, and the peer has not answered.
    pub(crate) fn is_on_offer(&self) -> bool {
        self.side == 0 && self.is_own() && !self.is_nic && !self.has_doors()
    }

    /// Returns true if a connection of this process is on a VI of this pair, or has requested one.
    pub(crate) fn has_requests(&self) -> bool {
        self.conns.iter().any(|conn| conn.load(Ordering::Relaxed) != 0)
    }

    /// Calls `f` with the names from which offers were sent.
    pub(crate) fn with_offers<R>(&self, f: impl FnOnce(&mut Vec<(Link, Arc<Datagram>)>) -> R) -> R {
        self.greetings.with(f)
    }

    /// Leaves the pair for good. Gives back this process's ready lists, marks this side as gone, and severs all
    /// descriptors of the pair.
    fn leave_for_good(&self) {
        let side = self.segment.side(self.side);
        let ready_lists = self.ready_lists.swap(0, Ordering::AcqRel);
        (0..READY_LISTS).filter(|index| ready_lists >> index & 1 != 0).for_each(|index| {
            side.takers[index as usize].store(0, Ordering::Release);
        });
        side.taken.fetch_and(!ready_lists, Ordering::AcqRel);
        if self.is_own() {
            side.gone.store(1, Ordering::Release);
        }
        self.with_offers(Vec::clear);
        self.file.with(|file| *file = None);
        if let Some(bells) = &self.bells {
            bells.sever();
        }
        for door in self.doors.get().into_iter().flatten() {
            match self.other_user {
                None => drop(sovia_sys::fd::sever(door.raw())),
                Some(_) => bells::sever_end(door),
            }
        }
    }

    /// Keeps the peer's doorbells. Returns false if the pair has doorbells already, or if `fds` are not all of them.
    pub(crate) fn keep_doors(&self, fds: Vec<Fd>) -> bool {
        let Ok(doors) = <[Fd; DOORBELLS]>::try_from(fds) else { return false };
        if !doors.iter().all(Fd::is_high) {
            // The program needs the lower descriptor numbers.
            return false;
        }
        let kept = self.doors.set(doors).is_ok();
        if kept {
            COMPLETED.fetch_add(1, Ordering::AcqRel);
        }
        kept
    }

    /// Returns the ends of notification sockets for a peer by rule, until the peer has them.
    pub(crate) fn ends_for_other_user(&self) -> Option<[i32; bells::HANDED]> {
        self.bells.as_ref()?.to_hand_over()
    }

    /// Closes this process's copies of the ends that a peer by rule has received.
    pub(crate) fn is_equipped(&self) {
        if let Some(bells) = &self.bells {
            bells.handed_over();
        }
    }

    pub(crate) fn has_doors(&self) -> bool {
        self.doors.get().is_some()
    }

    /// Returns true if this process made the pair, and not an ancestor.
    pub(crate) fn is_own(&self) -> bool {
        self.maker == me()
    }

    /// Returns true if spinning may save time. Spinning is useless with one processor, and if peer and this thread
    /// run on the same processor.
    #[inline]
    pub(crate) fn worth_spinning(&self) -> bool {
        if config::cpus() < 2 {
            return false;
        }
        let cpu = call::current_cpu() + 1;
        let mine = &self.segment.side(self.side).cpu;
        if mine.load(Ordering::Relaxed) != cpu {
            mine.store(cpu, Ordering::Relaxed);
        }
        self.segment.side(self.side ^ 1).cpu.load(Ordering::Relaxed) != cpu
    }
}
