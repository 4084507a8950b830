//! Pairs: each is a shared segment with one other process, and this process's data about that process.
//!
//! Each process has its own table of pairs. A forked child inherits a copy, with the mappings and descriptors that
//! the pairs use.

mod doorbells;
mod in_flight;
mod left;
pub(crate) mod lent;
pub(crate) mod notification_sockets;
mod occupants;
mod passed;
mod ready_events;
mod ready_lists;
mod request;
mod table;

pub(crate) use doorbells::{
    close_epoll_of_doorbell, doorbell, doorbell_for, doorbells, epoll_of_doorbell, made_doorbells,
    renew as renew_doorbells, ring_own, take_doorbell, wake,
};
pub(crate) use left::{collect, leave_all, leave_unanswered, make_room, pause};
pub(crate) use occupants::Pinned;
pub(crate) use passed::take;
pub(crate) use ready_events::{notify, notify_own};
pub(crate) use request::{
    Requested, is_served_by, offered, request_at, request_of, request_of_nic,
};
pub use sovia_ring::Segment;
pub(crate) use sovia_ring::layout::{DOORBELLS, VIS};
pub(crate) use sovia_ring::ready_list::ReadyList;
pub(crate) use sovia_ring::request::{Pending, Progress, Used};
pub use sovia_ring::segment::SideIndex;
pub use table::{Using, get};
pub(crate) use table::{each, is_current, keep, of, share};

use crate::config;
use crate::message::{Link, Process};
use crate::peers::{self, DeadPeers, PeerState};
use crate::per_engine::per_engine;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use in_flight::InFlight;
use sovia_ring::layout::READY_LISTS;
use sovia_sync::{RobustBox, rank};
use sovia_sys::datagram::Datagram;
use sovia_sys::{Fd, call};
use std::sync::{Arc, OnceLock};
use table::{CHANGE, insert};

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

/// Maximum number of pairs with peers by rule of one user, so that peers of other users find room in the table.
const OF_ONE_USER: usize = table::PAIRS / 2;

/// Bit of `refs` that is set once the pair has been taken out of the table. Then no connection may attach to the
/// pair or request a VI.
const OUT: u32 = 1 << 31;

/// A shared segment with one other process, and this process's data about that process.
#[derive(Debug)]
pub struct Pair {
    /// The shared memory.
    pub segment: Segment,
    /// The segment's file, for the peer and for programs that this process executes or starts.
    pub(crate) file: Fd,
    /// Device and inode of the file.
    file_id: (u64, u64),
    /// This process's side of the segment.
    pub side: SideIndex,
    pub(crate) peer: Process,
    /// Process that made the pair: this process or an ancestor.
    maker: Process,
    /// Address at which the peer has accepted connections of this process.
    server: Option<SocketAddr>,
    /// User id of the peer, if the peer is a peer by rule. Such a peer may write anything into the segment, and may
    /// keep its descriptors for ever.
    pub(crate) other_user: Option<u32>,
    /// Set if the agent introduced the two processes. Then one process may be unable to query the kernel for the
    /// other process's sockets.
    is_by_agent: bool,
    /// Set if the peer is a NIC in software, which reflects the VIs to the other ends of their connections.
    is_nic: bool,
    /// Messages that this process has had in flight at the NIC.
    pub(crate) in_flight: InFlight,
    /// Sockets by which a peer by rule notifies this process ([`notification_sockets`]).
    notification_sockets: Option<notification_sockets::NotificationSockets>,
    /// The peer's doorbells; for a peer by rule, the peer's ends of notification sockets.
    doorbells: OnceLock<[Fd; DOORBELLS]>,
    /// Rendezvous names from which this pair was offered. The peer's doorbells come to one of these names.
    greetings: RobustBox<Vec<(Link, Arc<Datagram>)>, { rank::OFFERS }>,
    /// The connection on each VI.
    conns: occupants::Occupants,
    /// Number of entries in `conns` that are `occupants::RESERVED`, or a larger number.
    reserved: AtomicU32,
    /// Number of connections of this process that are attached or have requested a VI, and the bit [`OUT`]. A
    /// connection with a request knows the pair only by the pair's index in the table. So the pair keeps this index
    /// while a connection is counted.
    refs: AtomicU32,
    /// Bitmap of the ready lists that this process uses (low half), and the number of forks before this process.
    ready_lists: AtomicU64,
    /// Set after the segment was found corrupt: its ready lists may have missed events.
    pub(crate) suspect: AtomicBool,
    /// Set once the peer has answered a request. Cleared when the peer leaves a request unanswered that granted the
    /// VI as well.
    pub(crate) answers: AtomicBool,
    /// Set once the peer has let a fallback time out, until the peer answers another fallback.
    pub(crate) silent: AtomicBool,
}

/// Identity of a peer by rule: the peer shares memory only because the rules trust its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OtherUser {
    pub(crate) uid: u32,
    /// Set if the agent introduced the two processes.
    pub(crate) is_by_agent: bool,
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

/// Gives a forked child its own identity. The child keeps its parent's doorbells, because the peers of inherited
/// pairs ring them. Such a doorbell may also wake a relative, which finds no event and sleeps again.
pub(crate) fn forked() {
    begin_anew();
    doorbells::forked();
    lent::forked();
    ready_lists::forked();
    each(|_, pair| pair.forget_requests());
}

/// Adds a pair and returns its index. The caller must call [`make_room`] first.
pub(crate) fn add(
    segment: Segment,
    file: Fd,
    side: SideIndex,
    peer: Process,
    other_user: Option<OtherUser>,
    server: Option<SocketAddr>,
) -> Option<u32> {
    let new = Pair::new(segment, file, side, peer, server)?;
    let Some(OtherUser { uid, is_by_agent }) = other_user else { return insert(new) };
    let mut of_user = 0;
    each(|_, pair| of_user += usize::from(pair.other_user == Some(uid)));
    if of_user >= OF_ONE_USER {
        return None;
    }
    let notification_sockets = Some(notification_sockets::NotificationSockets::new()?);
    let index = insert(Pair { other_user: Some(uid), is_by_agent, notification_sockets, ..new })?;
    notification_sockets::watch_new(index);
    Some(index)
}

/// Adds a pair with a NIC, like [`add`]. This process has made the segment.
pub(crate) fn add_nic(segment: Segment, file: Fd, nic: Process) -> Option<u32> {
    insert(Pair { is_nic: true, ..Pair::new(segment, file, 0, nic, None)? })
}

/// Called before fork: keeps other threads from changing the table until [`release`].
pub(crate) fn hold() {
    CHANGE.lock();
    doorbells::hold();
    left::hold();
}

/// Called after fork, in parent and child: releases what [`hold`] locked.
pub(crate) fn release() {
    left::release();
    doorbells::release();
    CHANGE.unlock();
}

impl Pair {
    /// Returns `None` if `file` is no open descriptor.
    fn new(
        segment: Segment,
        file: Fd,
        side: SideIndex,
        peer: Process,
        server: Option<SocketAddr>,
    ) -> Option<Pair> {
        let file_id = call::file_id(file.raw()).ok()?;
        Some(Pair {
            segment,
            file,
            file_id,
            side,
            peer,
            maker: me(),
            server,
            other_user: None,
            is_by_agent: false,
            is_nic: false,
            in_flight: InFlight::default(),
            notification_sockets: None,
            doorbells: OnceLock::new(),
            greetings: RobustBox::new(Vec::new()),
            conns: occupants::Occupants::new(),
            reserved: AtomicU32::new(0),
            refs: AtomicU32::new(0),
            ready_lists: AtomicU64::new(0),
            suspect: AtomicBool::new(false),
            answers: AtomicBool::new(false),
            silent: AtomicBool::new(false),
        })
    }

    /// Returns true if the agent introduced the two processes.
    pub(crate) fn is_by_agent(&self) -> bool {
        self.is_by_agent
    }

    /// Returns true if the peer is a NIC in software.
    pub(crate) fn is_nic(&self) -> bool {
        self.is_nic
    }

    /// Returns true if the peer lives and has not left the pair, as far as this process knows. If the peer has just
    /// died, the result may be wrong. Then a request to the peer stays unanswered.
    pub(crate) fn peer_seems_there(&self) -> bool {
        if !self.has_doorbells() {
            // Ask the kernel, because no descriptor reports the peer's death yet.
            return self.peer_is_there();
        }
        self.segment.side(self.side ^ 1).gone.load(Ordering::Relaxed) == 0
            && peers::state(self.peer) == PeerState::Alive
    }

    /// Returns true if the peer lives and has not left the pair. Asks the kernel.
    pub(crate) fn peer_is_there(&self) -> bool {
        self.segment.side(self.side ^ 1).gone.load(Ordering::Relaxed) == 0
            && match self.other_user {
                None => call::process_exists(self.peer.pid),
                // Do not use the peer's process id, which may have no meaning in this PID namespace. Descriptors
                // report the peer's death.
                Some(_) if self.has_doorbells() || self.side != 0 => {
                    !matches!(peers::check(self.peer), Some(PeerState::AllDied(_)))
                }
                // No descriptor reports the death of a peer by rule that has not answered. So the peer counts as
                // alive, until the last connection that waits for an answer leaves the pair.
                Some(_) => true,
            }
    }

    /// Returns true if the peer has not left the pair, and is not among the `dead`. Asks the kernel if no descriptor
    /// reports the peer's death yet.
    fn peer_is_among_the_living(&self, dead: &DeadPeers) -> bool {
        let has_died = |&(process, state): &(Process, PeerState)| {
            process == self.peer
                && (self.other_user.is_none() || matches!(state, PeerState::AllDied(_)))
        };
        match self.has_doorbells() {
            true => {
                self.segment.side(self.side ^ 1).gone.load(Ordering::Relaxed) == 0
                    && !dead.iter().any(has_died)
            }
            false => self.peer_is_there(),
        }
    }

    /// Returns true if this process offers a pair that it has made, and the peer has not answered yet.
    pub(crate) fn is_on_offer(&self) -> bool {
        self.side == 0 && self.is_own() && !self.is_nic && !self.has_doorbells()
    }

    /// Returns true if a connection of this process is on a VI of this pair, or has requested such a VI.
    pub(crate) fn has_requests(&self) -> bool {
        self.conns.count() != 0
    }

    /// Calls `f` with the names from which this pair was offered.
    pub(crate) fn with_offers<R>(&self, f: impl FnOnce(&mut Vec<(Link, Arc<Datagram>)>) -> R) -> R {
        self.greetings.with(f)
    }

    /// Leaves the pair for good. Frees this process's ready lists and marks this side as gone. Replaces the sockets
    /// and doorbells behind all descriptors of the pair.
    fn leave_for_good(&self) {
        let side = self.segment.side(self.side);
        let ready_lists = self.change_ready_lists(|_| 0);
        (0..READY_LISTS).filter(|index| ready_lists >> index & 1 != 0).for_each(|index| {
            side.takers[index as usize].store(0, Ordering::Release);
        });
        side.taken.fetch_and(!ready_lists, Ordering::AcqRel);
        if self.is_own() {
            side.gone.store(1, Ordering::Release);
        }
        self.with_offers(Vec::clear);
        sovia_sys::fd::sever(self.file.raw());
        if let Some(notification_sockets) = &self.notification_sockets {
            notification_sockets.sever();
        }
        for doorbell in self.doorbells.get().into_iter().flatten() {
            match self.other_user {
                None => drop(sovia_sys::fd::sever(doorbell.raw())),
                Some(_) => notification_sockets::sever_end(doorbell),
            }
        }
    }

    /// Stores the peer's doorbells. Returns false if the pair has doorbells already, or if `fds` has the wrong
    /// number of descriptors or a low descriptor number.
    pub(crate) fn keep_doorbells(&self, fds: Vec<Fd>) -> bool {
        let Ok(doorbells) = <[Fd; DOORBELLS]>::try_from(fds) else { return false };
        if !doorbells.iter().all(Fd::is_high) {
            // The program needs the low descriptor numbers.
            return false;
        }
        let kept = self.doorbells.set(doorbells).is_ok();
        if kept {
            COMPLETED.fetch_add(1, Ordering::AcqRel);
        }
        kept
    }

    /// Returns the ends of notification sockets for a peer by rule, until the peer has them.
    pub(crate) fn ends_for_other_user(&self) -> Option<[i32; notification_sockets::HANDED]> {
        self.notification_sockets.as_ref()?.to_hand_over()
    }

    /// Closes this process's copies of the sockets that a peer by rule has received.
    pub(crate) fn is_equipped(&self) {
        if let Some(notification_sockets) = &self.notification_sockets {
            notification_sockets.handed_over();
        }
    }

    pub(crate) fn has_doorbells(&self) -> bool {
        self.doorbells.get().is_some()
    }

    /// Returns true if this process made the pair. Returns false if an ancestor made the pair before a fork.
    pub(crate) fn is_own(&self) -> bool {
        self.maker == me()
    }

    /// Returns true if a thread that waits for the peer may save time by spinning. Spinning is useless with one
    /// processor, and if the peer and the calling thread run on the same processor.
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
