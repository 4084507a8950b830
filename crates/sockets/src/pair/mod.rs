//! The other processes that this one shares a segment with.
//!
//! The table is each process's own; a forked child inherits a copy, with the mappings and the
//! descriptors behind it.

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
    /// Pairs that have been complete.
    static COMPLETED: AtomicU32 = AtomicU32::new(0);
}

/// How many pairs have been complete so far: both ends have the segment and each other's doorbells.
pub(crate) fn completed() -> u32 {
    COMPLETED.load(Ordering::Acquire)
}

/// What a VI's last connection may leave in memory, in each range of the segment (bytes).
pub(crate) const KEPT: usize = 4 << 10;

/// Pairs with strangers of one user: there is to be room for others.
const OF_ONE_USER: usize = table::PAIRS / 2;

/// In the count of connections: no further one is attached, or may ask.
const OUT: u32 = 1 << 31;

/// A process that we share a segment with.
#[derive(Debug)]
pub struct Pair {
    /// The segment.
    pub segment: Segment,
    /// Which file the segment is.
    file_id: (u64, u64),
    /// Which side of it we are.
    pub side: SideIndex,
    pub(crate) peer: Process,
    /// The process that made it: this one, or an ancestor.
    maker: Process,
    /// Where the peer has accepted connections of ours.
    server: Option<SocketAddr>,
    /// The peer's user, if this process shares memory with the peer because the rules trust that user, and for no other
    /// reason: the peer may write anything into the segment, and hold what it was given for ever.
    pub(crate) other_user: Option<u32>,
    /// Whether the two met by the agent: neither may be able to ask the kernel about the other's sockets.
    is_far: bool,
    /// Whether the peer is a NIC in software, which reflects the VIs to the other ends of their connections.
    is_nic: bool,
    /// By what the peer rings, if it is a stranger ([`bells`]).
    bells: Option<bells::Bells>,
    /// The peer's doorbells; of a stranger, ends of its bells.
    doors: OnceLock<[Fd; DOORBELLS]>,
    /// The names that offers were sent from: to one of them the peer's doorbells come.
    greetings: RobustBox<Vec<(Link, Arc<Datagram>)>, { rank::OFFERS }>,
    /// The segment's file, until the peer has it.
    pub(crate) file: RobustBox<Option<Fd>, { rank::FILE }>,
    /// For each VI the connection on it ([`Occupant`]); or that one has been asked for.
    conns: Box<[AtomicU64]>,
    /// How many have been asked for: no fewer than there are.
    reserved: AtomicU32,
    /// Connections of this process that are attached or have asked for a VI, and whether the pair has been taken out of the
    /// table ([`OUT`]). A connection that has asked knows the pair by its number in the table, which is not given to another
    /// pair before.
    refs: AtomicU32,
    /// Our ready lists in use, by what this process knows itself.
    ready_lists: AtomicU32,
    /// A process has written nonsense into the segment: its ready lists may have missed news.
    pub(crate) suspect: AtomicBool,
    /// The peer has taken a request, and has left none unanswered since that granted its VI.
    pub(crate) answers: AtomicBool,
    /// The peer has left a retreat waiting for as long as one waits, and answered none since.
    pub(crate) silent: AtomicBool,
}

/// A peer with which memory is shared because the rules trust its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OtherUser {
    pub(crate) uid: u32,
    /// Whether the two meet by the agent.
    pub(crate) is_far: bool,
}

/// This process.
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

/// From here on this process has another name: no pair that it had is its own any more.
pub(crate) fn begin_anew() {
    ME.store(0, Ordering::Release);
}

/// In a forked child: it is another process now. It keeps the doorbells: pairs from before the fork
/// ring those, and a ring that wakes a relative as well only makes it look.
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

/// Adds a pair; its index. Its caller has made room for it ([`make_room`]).
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

/// Adds a pair with a NIC, whose segment this process has made. As [`add`].
pub(crate) fn add_nic(segment: Segment, file_id: (u64, u64), nic: Process) -> Option<u32> {
    insert(Pair { is_nic: true, ..Pair::new(segment, file_id, 0, nic, None) })
}

/// Fork prepare: no thread changes the table until [`release`].
pub(crate) fn hold() {
    CHANGE.lock();
    doors::hold();
    left::hold();
}

/// After fork, in both.
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
            // Not by value: a meeting takes place on the program's stack.
            conns: (0..VIS).map(|_| AtomicU64::new(0)).collect(),
            reserved: AtomicU32::new(0),
            refs: AtomicU32::new(0),
            ready_lists: AtomicU32::new(0),
            suspect: AtomicBool::new(false),
            answers: AtomicBool::new(false),
            silent: AtomicBool::new(false),
        }
    }

    /// Whether the two met by the agent.
    pub(crate) fn is_far(&self) -> bool {
        self.is_far
    }

    /// Whether the peer is a NIC in software.
    pub(crate) fn is_nic(&self) -> bool {
        self.is_nic
    }

    /// Whether the peer lives, and has not left, as far as this process knows. A request to one that has just died
    /// stays without an answer.
    pub(crate) fn peer_seems_there(&self) -> bool {
        if !self.has_doors() {
            // Nothing reports its death yet.
            return self.peer_is_there();
        }
        self.segment.side(self.side ^ 1).gone.load(Ordering::Relaxed) == 0
            && peers::life(self.peer) == Life::Alive
    }

    /// Whether the peer lives, and has not left.
    pub(crate) fn peer_is_there(&self) -> bool {
        self.segment.side(self.side ^ 1).gone.load(Ordering::Relaxed) == 0
            && match self.other_user {
                None => call::process_exists(self.peer.pid),
                // Its number may mean nothing here.
                Some(_) if self.has_doors() || self.side != 0 => {
                    !matches!(peers::life_now(self.peer), Some(Life::AllDied(_)))
                }
                // Nothing reports the death of a peer that has not answered. The pair goes with the last connection that waits.
                Some(_) => true,
            }
    }

    /// Returns true while this process offers the pair, which it has made, and the peer has not answered.
    pub(crate) fn is_on_offer(&self) -> bool {
        self.side == 0 && self.is_own() && !self.is_nic && !self.has_doors()
    }

    /// Whether a connection of this process has requested a VI, or is on one.
    pub(crate) fn has_requests(&self) -> bool {
        self.conns.iter().any(|conn| conn.load(Ordering::Relaxed) != 0)
    }

    /// Gives `f` the names that offers were sent from.
    pub(crate) fn with_offers<R>(&self, f: impl FnOnce(&mut Vec<(Link, Arc<Datagram>)>) -> R) -> R {
        self.greetings.with(f)
    }

    /// This process leaves for good: it gives back what it has in the segment, tells the peer, and has no
    /// descriptor of it any more.
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

    /// Keeps the peer's doorbells. False if there were some already, or these are not all.
    pub(crate) fn keep_doors(&self, fds: Vec<Fd>) -> bool {
        let Ok(doors) = <[Fd; DOORBELLS]>::try_from(fds) else { return false };
        if !doors.iter().all(Fd::is_high) {
            // The program needs the numbers below for itself.
            return false;
        }
        let kept = self.doors.set(doors).is_ok();
        if kept {
            COMPLETED.fetch_add(1, Ordering::AcqRel);
        }
        kept
    }

    /// What a stranger is handed beside a handle on this process: ends of its bells, while it may not have them.
    pub(crate) fn ends_for_other_user(&self) -> Option<[i32; bells::HANDED]> {
        self.bells.as_ref()?.to_hand_over()
    }

    /// The peer has what it was handed.
    pub(crate) fn is_equipped(&self) {
        if let Some(bells) = &self.bells {
            bells.handed_over();
        }
    }

    pub(crate) fn has_doors(&self) -> bool {
        self.doors.get().is_some()
    }

    /// Whether this process has made the pair, rather than an ancestor.
    pub(crate) fn is_own(&self) -> bool {
        self.maker == me()
    }

    /// Whether it is worth spinning for this peer: not on one processor, and not against each
    /// other.
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
