//! The other processes that this one shares a segment with.
//!
//! The table is each process's own; a forked child inherits a copy, with the mappings and the
//! descriptors behind it.

mod doors;
mod left;
pub(crate) mod lent;
mod places;
mod waiters;

pub(crate) use doors::{
    door, door_for, doors, epoll_of_door, leave_door, renew as renew_doors, ring_own,
};
pub(crate) use left::{collect, leave_all, pause};
pub use via_shm::Segment;
pub(crate) use via_shm::layout::{DOORBELLS, VIS};
pub(crate) use via_shm::request::{Pending, Progress};
pub use via_shm::segment::SideIndex;
pub(crate) use via_shm::waiter::Waiter;

use crate::config;
use crate::conn::Guard;
use crate::message::{Link, Process};
use crate::peers::{self, Life};
use crate::per_engine::per_engine;
use core::net::SocketAddr;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use sovia_sync::hazard::{self, Hazard, Waits};
use sovia_sync::section::{self, Inside};
use sovia_sync::{Local, RobustBox, RobustLock, rank};
use sovia_sys::datagram::Datagram;
use sovia_sys::{Fd, call};
use std::sync::{Arc, OnceLock};
use via_shm::layout::WAITERS;
use via_shm::request::DISCRIMINATOR;

/// Processes that one can be paired with at a time.
const PAIRS: usize = 1024;

per_engine! {
    static TABLE: [AtomicPtr<Pair>; PAIRS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; PAIRS];
    /// One above the highest index in use.
    static TOP: AtomicU32 = AtomicU32::new(0);
    /// Guards additions and removals.
    static CHANGE: RobustLock<Local, { rank::PAIRS }> = RobustLock::new();
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

/// A NIC's waiter in each segment.
const NIC_WAITER: u32 = 0;

/// In the count of attached connections: no further one is attached.
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
    /// Whether the peer is a NIC in software, which reflects the VIs to the other ends of their connections.
    is_nic: bool,
    /// The peer's doorbells.
    doors: OnceLock<[Fd; DOORBELLS]>,
    /// The names that offers were sent from: to one of them the peer's doorbells come.
    pub(crate) greetings: RobustBox<Vec<(Link, Datagram)>, { rank::OFFERS }>,
    /// The segment's file, until the peer has it.
    pub(crate) file: RobustBox<Option<Fd>, { rank::FILE }>,
    /// For each VI the connection on it ([`Occupant`]); or that one has been asked for.
    conns: Box<[AtomicU64]>,
    /// Connections attached in this process, and whether it has been taken out of the table ([`OUT`]).
    refs: AtomicU32,
    /// Our waiters in use, by what this process knows itself.
    waiters: AtomicU32,
    /// A process has written nonsense into the segment: its waiters may have missed news.
    pub(crate) suspect: AtomicBool,
    /// The peer has left a retreat waiting for as long as one waits, and answered none since.
    pub(crate) silent: AtomicBool,
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
    each(|_, pair| {
        pair.waiters.store(0, Ordering::Release);
        // The parent's requests are its own.
        (0..VIS).for_each(|vi| pair.free(vi));
    });
}

/// A pair of the table that stays mapped for as long as this lives. No signal handler of the program runs
/// meanwhile, so none leaves it behind.
#[derive(Debug)]
pub struct Using {
    pair: NonNull<Pair>,
    _hazard: Hazard,
    _inside: Inside,
}

impl Deref for Using {
    type Target = Pair;

    #[inline]
    fn deref(&self) -> &Pair {
        // SAFETY: the pair was in the table after the hazard had been published, so it is not dropped
        // before the hazard is (`left`).
        unsafe { self.pair.as_ref() }
    }
}

/// The pair with that index.
#[inline]
pub fn get(index: u32) -> Option<Using> {
    let slot = TABLE.get(index as usize)?;
    let inside = section::inside();
    loop {
        let pair = NonNull::new(slot.load(Ordering::Acquire))?;
        let hazard = hazard::publish(pair.addr().get());
        if slot.load(Ordering::Acquire) == pair.as_ptr() {
            return Some(Using { pair, _hazard: hazard, _inside: inside });
        }
    }
}

/// The pair of a connection that this process has on a VI. No hazard is needed: a pair is in the table for
/// as long as a connection is on one of its VIs, and under the connection's lock that lasts.
#[inline]
pub(crate) fn of<'g>(guard: &'g Guard<'_>) -> Option<&'g Pair> {
    let slot = TABLE.get(guard.conn.pair.load(Ordering::Relaxed) as usize)?;
    // SAFETY: null, or from Arc::into_raw. The table's count of it goes only after the last of its
    // connections has been counted out (`Pair::vacate`, `Pair::leave`), each of which comes after the last
    // use of the connection's guard.
    unsafe { slot.load(Ordering::Acquire).as_ref() }
}

/// Has the pair of a connection stay mapped while a thread waits for the connection without its lock.
#[inline]
pub(crate) fn keep(guard: &Guard<'_>, waits: &Waits) {
    if let Some(pair) = of(guard) {
        waits.keep(core::ptr::from_ref(pair).addr());
    }
}

/// All pairs with their indices.
pub(crate) fn each(mut f: impl FnMut(u32, &Pair)) {
    for index in 0..TOP.load(Ordering::Acquire) {
        if let Some(pair) = get(index) {
            f(index, &pair);
        }
    }
}

/// Adds a pair; its index. Its caller has collected what the dead have left ([`collect`]).
pub(crate) fn add(
    segment: Segment,
    file_id: (u64, u64),
    side: SideIndex,
    peer: Process,
    server: Option<SocketAddr>,
) -> Option<u32> {
    insert(Pair::new(segment, file_id, side, peer, server))
}

/// Adds a pair with a NIC, whose segment this process has made. As [`add`].
pub(crate) fn add_nic(segment: Segment, file_id: (u64, u64), nic: Process) -> Option<u32> {
    insert(Pair { is_nic: true, ..Pair::new(segment, file_id, 0, nic, None) })
}

fn insert(pair: Pair) -> Option<u32> {
    let pair = Arc::new(pair);
    CHANGE.lock();
    let free = TABLE.iter().position(|p| p.load(Ordering::Acquire).is_null());
    if let Some(index) = free {
        TABLE[index].store(Arc::into_raw(pair).cast_mut(), Ordering::Release);
        TOP.fetch_max(index as u32 + 1, Ordering::AcqRel);
    }
    CHANGE.unlock();
    free.map(|index| index as u32)
}

/// The pair with that index, kept mapped for as long as the result lives.
pub(crate) fn share(index: u32) -> Option<Arc<Pair>> {
    CHANGE.lock();
    let raw =
        TABLE.get(index as usize).map_or(core::ptr::null_mut(), |p| p.load(Ordering::Acquire));
    let shared = (!raw.is_null()).then(|| {
        // SAFETY: from Arc::into_raw; the table's own count cannot go while the lock is held.
        unsafe {
            Arc::increment_strong_count(raw.cast_const());
            Arc::from_raw(raw.cast_const())
        }
    });
    CHANGE.unlock();
    shared
}

/// Whether a pair is still in the table.
pub(crate) fn is_current(pair: &Arc<Pair>) -> bool {
    let raw = Arc::as_ptr(pair).cast_mut();
    TABLE[..TOP.load(Ordering::Acquire) as usize].iter().any(|p| p.load(Ordering::Acquire) == raw)
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

/// Requests a connection of a process that this one has segments with as the connector, in the first
/// that has room: in one that both ends have, or in one that is on offer. Two processes have as many
/// segments as their connections need. A pair that a parent made is not enough: the peer knows the parent.
pub(crate) fn request_of(
    process: Process,
    is_complete: bool,
    discriminator: &[u8; DISCRIMINATOR],
) -> Option<Requested> {
    let asked = |pair: &Pair| {
        pair.peer == process && pair.side == 0 && pair.is_own() && pair.has_doors() == is_complete
    };
    request_where(asked, discriminator)
}

/// Requests a connection of the process that has accepted connections at that address, the latest if
/// there were several. As [`request_of`].
pub(crate) fn request_at(
    server: SocketAddr,
    is_complete: bool,
    discriminator: &[u8; DISCRIMINATOR],
) -> Option<Requested> {
    let may_be = |pair: &Pair| pair.server == Some(server) && (pair.is_own() || pair.has_doors());
    let mut latest = None;
    each(|_, pair| {
        if may_be(pair) && (latest == Some(pair.peer) || pair.peer_seems_there()) {
            latest = Some(pair.peer);
        }
    });
    let process = latest?;
    let asked =
        |pair: &Pair| pair.peer == process && pair.has_doors() == is_complete && may_be(pair);
    request_where(asked, discriminator)
}

/// Requests a VI of a NIC, in the first segment that this process has made for it and that has one.
pub(crate) fn request_of_nic(
    nic: Process,
    discriminator: &[u8; DISCRIMINATOR],
) -> Option<Requested> {
    request_where(|pair| pair.is_nic && pair.peer == nic && pair.is_own(), discriminator)
}

/// Whether a NIC serves this process still.
pub(crate) fn is_served_by(nic: Process) -> bool {
    let mut serves = false;
    each(|_, pair| {
        serves |= pair.is_nic && pair.peer == nic && pair.is_own() && pair.peer_seems_there();
    });
    serves
}

/// A request that has been made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requested {
    /// The pair's index.
    pub(crate) pair: u32,
    pub(crate) vi: u32,
}

fn request_where(
    asked: impl Fn(&Pair) -> bool,
    discriminator: &[u8; DISCRIMINATOR],
) -> Option<Requested> {
    let mut made = None;
    each(|index, pair| {
        if made.is_none() && asked(pair) {
            made = pair.request(discriminator).map(|vi| Requested { pair: index, vi });
        }
    });
    made
}

/// The pair of this process with that one, as the acceptor, whose segment is that file.
pub(crate) fn offered(process: Process, file_id: (u64, u64)) -> Option<Using> {
    let mut found = None;
    each(|index, pair| {
        if pair.peer == process && pair.side == 1 && pair.file_id == file_id && pair.is_own() {
            found = Some(index);
        }
    });
    get(found?)
}

/// Tells waiters of the peer that a connection has news for it; rings those asleep.
#[inline]
pub(crate) fn notify(guard: &Guard<'_>, waiters: u32) {
    if let Some(pair) = of(guard) {
        let vi = guard.conn.vi.load(Ordering::Relaxed);
        pair.mark(pair.side ^ 1, vi, waiters, |door| pair.ring(door));
    }
}

/// Tells waiters of this process (and its family) that a connection has news.
pub(crate) fn notify_own(guard: &Guard<'_>, waiters: u32) {
    if let Some(pair) = of(guard) {
        let vi = guard.conn.vi.load(Ordering::Relaxed);
        pair.mark(pair.side, vi, waiters, |index| {
            if let Some(fd) = door(index as usize) {
                let _ = call::write(fd, &1u64.to_ne_bytes());
            }
        });
    }
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
            is_nic: false,
            doors: OnceLock::new(),
            greetings: RobustBox::new(Vec::new()),
            file: RobustBox::new(None),
            // Not by value: a meeting takes place on the program's stack.
            conns: (0..VIS).map(|_| AtomicU64::new(0)).collect(),
            refs: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            suspect: AtomicBool::new(false),
            silent: AtomicBool::new(false),
        }
    }

    /// Whether the peer is a NIC in software.
    pub(crate) fn is_nic(&self) -> bool {
        self.is_nic
    }

    /// Notifies a NIC that a VI has news for which no bell was rung. Other peers are not notified.
    pub(crate) fn tell_nic(&self, vi: u32) {
        if self.is_nic {
            self.mark(self.side ^ 1, vi, 1 << NIC_WAITER, |door| self.ring(door));
        }
    }

    #[inline]
    fn mark(&self, side: SideIndex, vi: u32, mut waiters: u32, mut ring: impl FnMut(u32)) {
        while waiters != 0 {
            let index = waiters.trailing_zeros();
            waiters &= waiters - 1;
            if let Some(door) = self.segment.waiter(side, index).notify(vi) {
                ring(door);
            }
        }
    }

    /// Whether the peer lives, and has not left, as far as this process knows. A request to one that has just died
    /// stays without an answer.
    fn peer_seems_there(&self) -> bool {
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
            && call::task_exists(self.peer.pid)
    }

    /// This process leaves for good: it gives back what it has in the segment, tells the peer, and has no
    /// descriptor of it any more.
    fn leave_for_good(&self) {
        let side = self.segment.side(self.side);
        let waiters = self.waiters.swap(0, Ordering::AcqRel);
        (0..WAITERS).filter(|index| waiters >> index & 1 != 0).for_each(|index| {
            side.takers[index as usize].store(0, Ordering::Release);
        });
        side.taken.fetch_and(!waiters, Ordering::AcqRel);
        if self.is_own() {
            side.gone.store(1, Ordering::Release);
        }
        self.greetings.with(Vec::clear);
        self.file.with(|file| *file = None);
        for door in self.doors.get().into_iter().flatten() {
            sovia_sys::fd::sever(door.raw());
        }
    }

    /// Rings one of the peer's doorbells.
    pub(crate) fn ring(&self, index: u32) {
        if let Some(doors) = self.doors.get() {
            crate::stats::rang();
            let _ = call::write(doors[index as usize % DOORBELLS].raw(), &1u64.to_ne_bytes());
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
