//! A connection: what Sovia knows of one kernel TCP socket.
//!
//! It lies in the family's memory ([`crate::family`]), so it holds no pointer but those into a
//! segment that every process with this connection has mapped at the same address. The atomics
//! may be read by any thread; the [`Body`] belongs to the holder of the lock.

mod approach;
mod body;
mod choice;
mod favoured;
pub mod flag;
mod own;

pub(crate) use approach::{Approach, Stage};
pub(crate) use body::{Bell, HasEndpoint, INLINE_MAX, PACKET_MAX};
pub use body::{Body, HELD, Held, Taking};
pub use choice::Protocol;
pub(crate) use choice::{Choice, WINDOW_MAX, translated};
pub use favoured::Favoured;
pub(crate) use own::Place;
pub use own::{Handler, Own, Seen};

use crate::Errno;
use crate::members::{self, MEMBERS};
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use sovia_control::Reason;
use sovia_proto::path::{Rx, Tx};
use sovia_sync::presence::Presence;
use sovia_sync::{Acquired, BiasedLock, Family, rank, section, thread};
use sovia_sys::cache;
use std::sync::OnceLock;

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// Slot not in use.
    Free = 0,
    /// On TCP; may be accelerated.
    Candidate = 1,
    /// Both ends hold a VI for it.
    Attached = 2,
    /// On TCP for good.
    Plain = 3,
}

/// Which end opened the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// By `connect`.
    Connector,
    /// By `accept`.
    Acceptor,
}

/// One connection.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Conn {
    lock: BiasedLock<Family, { rank::CONNECTION }>,
    generation: AtomicU32,
    phase: AtomicU32,
    flags: AtomicU32,
    tx: AtomicU32,
    rx: AtomicU32,
    /// Index of the pair of processes, in the table of each process that has this connection.
    pub pair: AtomicU32,
    /// Number of the VI in the pair's segment.
    pub vi: AtomicU32,
    /// The family's processes that hold the socket, a bit for each ([`crate::family`]).
    pub holders: AtomicU64,
    /// Calls that moved bytes so far, until met.
    pub transfers: AtomicU32,
    /// How far it is on the way to its VI.
    pub(crate) approach: Approach,
    /// Threads inside a kernel receive: the path is not switched under them.
    pub(crate) rx_pins: Presence,
    /// Threads inside a kernel send, likewise.
    pub(crate) tx_pins: Presence,
    /// Bytes received over TCP.
    pub rx_tcp: AtomicU64,
    /// Bytes sent over TCP.
    pub tx_tcp: AtomicU64,
    /// SO_RCVTIMEO in nanoseconds; 0 for none (kept up to date once attached).
    pub receive_timeout: AtomicU64,
    /// SO_SNDTIMEO likewise.
    pub send_timeout: AtomicU64,
    /// The kernel's number of the socket.
    pub cookie: AtomicU64,
    /// Which side of the segment we are.
    pub side: AtomicU32,
    /// Where its next message will lie.
    next_at: AtomicUsize,
    /// How often threads have slept until it had a message or room, or thereabouts.
    sleeps: AtomicU32,
    /// Threads that wait outside the lock, for each place in the family. Not set to zero for the slot's next
    /// connection: each thread takes itself out.
    waiting: [AtomicU16; MEMBERS],
    /// Rung for threads that wait for messages, where a thread of Sovia's handles them.
    pub(crate) news: Bell,
    /// What the program has chosen for this connection.
    pub(crate) choice: Choice,
    /// The thread that hands the connection to a relay; 0 if none does.
    pub(crate) relaying: AtomicU32,
    /// Why this end takes it back to TCP: a [`Reason`] plus one; 0 if it does not.
    pub(crate) leaves_for: AtomicU32,
    /// Entries of epoll sets that are the kernel's since it has left its VI: the numbers of some, 0 for none. A
    /// relative's copy of such an entry is no more to be given to the kernel.
    gone_over: [AtomicU64; 8],
    /// Memory that it uses of its segment beyond what is for nothing, in KiB ([`crate::backlog`]).
    backlog: AtomicU32,
    /// Places in the pools that the program writes to or reads in ([`crate::loan`]).
    pub loans: AtomicU32,
    /// The error that the next call, or SO_ERROR, is to return once ([`flag::ERROR`]).
    error: AtomicU32,
    /// Why it is on TCP for good: a [`sovia_control::Reason`] plus one; 0 if it is not.
    pub stay: AtomicU32,
    body: UnsafeCell<Body>,
}

// SAFETY: everything is atomic but the body, which only the holder of the lock touches
// (`Conn::lock` hands out the only path to it).
unsafe impl Sync for Conn {}

impl Conn {
    /// Makes a taken slot a new connection on TCP.
    pub fn open(&self, role: Role) -> u32 {
        let generation = self.generation.load(Ordering::Relaxed);
        self.flags
            .store(if role == Role::Connector { flag::CONNECTOR } else { 0 }, Ordering::Relaxed);
        self.tx.store(Tx::Tcp as u32, Ordering::Relaxed);
        self.rx.store(Rx::Tcp as u32, Ordering::Relaxed);
        self.holders.store(members::my_bit(), Ordering::Relaxed);
        self.use_memory(0);
        self.rx_pins.clear();
        self.tx_pins.clear();
        for word in [
            &self.transfers,
            &self.sleeps,
            &self.stay,
            &self.loans,
            &self.error,
            &self.relaying,
            &self.leaves_for,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        self.lock.begin_anew();
        self.approach.forget();
        self.news.clear();
        self.choice.forget();
        let counters = [&self.rx_tcp, &self.tx_tcp, &self.receive_timeout, &self.send_timeout];
        for counter in counters.into_iter().chain(&self.gone_over) {
            counter.store(0, Ordering::Relaxed);
        }
        self.phase.store(Phase::Candidate as u32, Ordering::Release);
        generation
    }

    /// Makes this slot, all zero, what another one has become for calls that are still under way on it: a
    /// connection on TCP for good, whose slot is not used again.
    pub(crate) fn retire(&self, other: &Conn) {
        let copy = |to: &AtomicU32, from: &AtomicU32| {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        };
        copy(&self.generation, &other.generation);
        copy(&self.flags, &other.flags);
        copy(&self.stay, &other.stay);
        self.rx_pins.copy_from(&other.rx_pins);
        self.tx_pins.copy_from(&other.tx_pins);
        self.set_tx(Tx::Back);
        self.set_rx(Rx::Back);
        for (to, from) in self.waiting.iter().zip(&other.waiting) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.set_phase(Phase::Plain);
    }

    /// Ends the slot's present life; references with the old generation are void from here.
    pub fn end(&self) {
        sovia_sys::stall::point(sovia_sys::stall::At::GivingBack);
        self.use_memory(0);
        self.phase.store(Phase::Free as u32, Ordering::Release);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The life that the slot lives.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether the slot still lives the life with that generation.
    #[inline]
    pub fn is_generation(&self, generation: u32) -> bool {
        self.generation.load(Ordering::Acquire) & 0xff_ffff == generation & 0xff_ffff
    }

    /// Like [`Conn::is_generation`], by the lowest 12 bits.
    pub(crate) fn is_generation_low(&self, generation: u32) -> bool {
        self.generation.load(Ordering::Acquire) & 0xfff == generation & 0xfff
    }

    /// How far it has come.
    #[inline]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Free,
            1 => Phase::Candidate,
            2 => Phase::Attached,
            _ => Phase::Plain,
        }
    }

    /// Whether a thread of Sovia's takes messages off the ring. A thread that takes the connection back to TCP
    /// takes them itself.
    #[inline]
    pub fn is_handled(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (flag::HANDLED | flag::RETREATING) == flag::HANDLED
    }

    /// Whether it runs on a VI.
    #[inline]
    pub fn is_attached(&self) -> bool {
        self.phase() == Phase::Attached
    }

    /// Whether it is attached, and is being taken back to TCP or has come there in both directions.
    #[inline]
    pub(crate) fn is_going_back(&self) -> bool {
        let is_back = || self.rx() == Rx::Back && self.tx() == Tx::Back;
        self.phase() == Phase::Attached && (self.has(flag::RETREATING) || is_back())
    }

    /// Notes that the entry of that number is the kernel's. In the ninth of a connection's sets it is not noted.
    pub(crate) fn note_gone_over(&self, entry: u64) {
        let is_noted = |place: &AtomicU64| {
            place.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let _ = self.gone_over.iter().any(is_noted);
    }

    /// Whether the entry of that number is the kernel's.
    pub(crate) fn has_gone_over(&self, entry: u64) -> bool {
        self.gone_over.iter().any(|place| place.load(Ordering::Acquire) == entry)
    }

    /// Moves on to another phase.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u32, Ordering::Release);
    }

    /// Stays on TCP for good, unless it has been given a VI meanwhile.
    pub(crate) fn stay_plain(&self) -> bool {
        // It may be about to be given one, under the lock.
        let _locked = self.lock();
        let (from, to) = (Phase::Candidate as u32, Phase::Plain as u32);
        self.phase.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Notes why it stays on TCP; the first reason is the one.
    pub(crate) fn stays(&self, reason: Reason) {
        let _ =
            self.stay.compare_exchange(0, reason as u32 + 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Counts its stay on TCP, once.
    pub(crate) fn count_stay(&self, reason: Reason) {
        self.stays(reason);
        if self.is_first_count() {
            crate::stats::reason(reason);
        }
    }

    /// Whether it was opened by `connect`.
    pub(crate) fn is_connector(&self) -> bool {
        self.has(flag::CONNECTOR)
    }

    /// Whether what became of it has not been counted yet: it is from here on.
    pub(crate) fn is_first_count(&self) -> bool {
        let first = self.set(flag::COUNTED) & flag::COUNTED == 0;
        if first {
            crate::stats::decided();
        }
        first
    }

    /// Which end opened it.
    pub fn role(&self) -> Role {
        if self.has(flag::CONNECTOR) { Role::Connector } else { Role::Acceptor }
    }

    /// The sender's path.
    #[inline]
    pub fn tx(&self) -> Tx {
        Tx::from_u32(self.tx.load(Ordering::Acquire))
    }

    /// Moves the sender's path on; under the lock once attached.
    pub fn set_tx(&self, tx: Tx) {
        self.tx.store(tx as u32, Ordering::Release);
    }

    /// The receiver's path.
    #[inline]
    pub fn rx(&self) -> Rx {
        Rx::from_u32(self.rx.load(Ordering::Acquire))
    }

    /// Moves the receiver's path on; under the lock once attached.
    pub fn set_rx(&self, rx: Rx) {
        self.rx.store(rx as u32, Ordering::Release);
    }

    /// Whether any of those flags is set.
    #[inline]
    pub fn has(&self, flags: u32) -> bool {
        self.flags.load(Ordering::Relaxed) & flags != 0
    }

    /// All flags.
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Sets flags; returns those that were set before.
    pub fn set(&self, flags: u32) -> u32 {
        self.flags.fetch_or(flags, Ordering::AcqRel)
    }

    /// Clears flags; returns those that were set before.
    pub fn clear(&self, flags: u32) -> u32 {
        self.flags.fetch_and(!flags, Ordering::AcqRel)
    }

    /// Notes an error that is to be reported to the program once, unless there is one.
    pub(crate) fn keep_error(&self, error: Errno) {
        let _ = self.error.compare_exchange(0, error as u32, Ordering::AcqRel, Ordering::Acquire);
        self.set(flag::ERROR);
    }

    /// The error that is to be reported to the program once, if there is one.
    pub(crate) fn error(&self) -> Option<Errno> {
        Some(self.error.load(Ordering::Acquire) as Errno).filter(|&error| error != 0)
    }

    /// Takes the error that is to be reported to the program once.
    pub(crate) fn take_error(&self) -> Option<Errno> {
        if !self.has(flag::ERROR) {
            return None;
        }
        self.clear(flag::ERROR);
        match self.error.swap(0, Ordering::AcqRel) {
            0 => None,
            error => Some(error as Errno),
        }
    }

    /// How much it uses of its segment, beyond what is for nothing (KiB).
    pub(crate) fn memory(&self) -> u32 {
        self.backlog.load(Ordering::Relaxed)
    }

    /// From now on it uses so much, which is no more than has been taken for it.
    pub(crate) fn use_memory(&self, now: u32) {
        let before = self.backlog.swap(now, Ordering::Relaxed);
        crate::backlog::give_back(u64::from(before.saturating_sub(now)) << 10);
    }

    /// Whether it may use that much. Under the lock.
    pub(crate) fn may_use_memory(&self, now: u32) -> bool {
        let before = self.memory();
        let may = crate::backlog::take(u64::from(now.saturating_sub(before)) << 10);
        if may {
            self.backlog.store(now.max(before), Ordering::Relaxed);
        }
        may
    }

    /// Takes the lock and with it the body.
    #[inline]
    pub fn lock(&self) -> Locked<'_> {
        self.taken(self.lock.lock())
    }

    /// Takes the lock, unless others hold it for so many nanoseconds.
    pub(crate) fn lock_within(&self, ns: u64) -> Option<Locked<'_>> {
        self.lock.lock_within(ns).map(|acquired| self.taken(acquired))
    }

    #[inline]
    fn taken(&self, acquired: Acquired) -> Locked<'_> {
        if acquired == Acquired::FromTheDead {
            self.set(flag::TORN);
        }
        Locked { conn: self, is_outermost: acquired.is_held() }
    }

    /// Takes the lock of a connection that this process has on a VI; `None` if it has not, or no more.
    #[inline]
    pub fn attached(&self) -> Option<Guard<'_>> {
        self.lock().attached()
    }

    /// Whether this process has the connection, so that the segment stays mapped while it is attached.
    #[inline]
    fn is_here(&self) -> bool {
        // One without a place of its own in the family shares a bit that is never cleared, and keeps the
        // segment: it cannot be told from its relatives.
        self.holders.load(Ordering::Acquire) & members::my_bit() != 0
    }

    /// Whether this process has the connection on a VI.
    pub(crate) fn is_attached_here(&self) -> bool {
        self.phase() == Phase::Attached && self.is_here()
    }

    /// Whether the calling thread is in the middle of a call on it, which a signal handler has
    /// interrupted.
    pub(crate) fn is_mine(&self) -> bool {
        self.lock.is_mine()
    }

    /// Whether a call of a signal handler must not go on here, because the handler has interrupted a
    /// call on the same connection. One that finds it so a thousand times in a row has left the
    /// interrupted call by `longjmp`; then the call goes on under the lock that the thread still has.
    #[inline]
    pub fn is_interrupted(&self) -> bool {
        // A thread that has the lock is in a section.
        if !section::is_inside() && !thread::is_refused() {
            return false;
        }
        self.is_refused()
    }

    #[cold]
    #[inline(never)]
    fn is_refused(&self) -> bool {
        const PATIENCE: u32 = 1000;
        let mine = self.lock.is_mine();
        let before = thread::count_refusal(mine);
        mine && before < PATIENCE
    }

    /// By what a thread that waits for the connection is known to ([`sovia_sync::hazard`]).
    pub(crate) fn place(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Counts the calling thread among those that wait for the connection.
    #[inline]
    pub fn begin_waiting(&self) {
        self.waiting[members::place()].fetch_add(1, Ordering::AcqRel);
    }

    /// Counts it out. In a child that was forked in the middle of a wait, it has not been counted in.
    #[inline]
    pub fn end_waiting(&self) {
        let less = |count: u16| count.checked_sub(1);
        let counter = &self.waiting[members::place()];
        let _ = counter.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
    }

    /// No thread of the process that has that place in the family waits: it is a new one.
    pub(crate) fn forget_waiting(&self, place: usize) {
        self.waiting[place].store(0, Ordering::Relaxed);
    }

    /// Whether any thread of the family waits.
    pub fn is_awaited(&self) -> bool {
        self.waiting.iter().any(|count| count.load(Ordering::Acquire) != 0)
    }

    /// How many threads of this process wait, at most.
    pub fn waiting_here(&self) -> usize {
        if !members::is_known() {
            return 0;
        }
        usize::from(self.waiting[members::place()].load(Ordering::Acquire))
    }

    /// Counts a sleep for it.
    pub(crate) fn sleeping(&self) {
        self.sleeps.store(self.sleeps.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// How often threads have slept for it.
    pub(crate) fn sleeps(&self) -> u64 {
        u64::from(self.sleeps.load(Ordering::Relaxed))
    }

    /// Notes where the next message will lie.
    #[inline]
    pub(crate) fn expect_at(&self, place: usize) {
        self.next_at.store(place, Ordering::Relaxed);
    }

    /// Has the next message of an attached connection fetched, before the lock is taken. Nothing is
    /// accessed, so it makes no difference what lies there by now.
    #[inline]
    pub(crate) fn fetch_next(&self) {
        cache::will_read(core::ptr::without_provenance(self.next_at.load(Ordering::Relaxed)));
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<Locked<'_>> {
        // Made only once the lock is held: one that is dropped gives the lock back, whichever thread has it.
        self.lock.try_lock().then(|| Locked { conn: self, is_outermost: true })
    }
}

/// Makes a body whole whose last owner died in the middle of something.
static REPAIR: OnceLock<fn(&mut Guard<'_>)> = OnceLock::new();

/// Has `repair` make bodies whole that the dead have left: what that takes is known to
/// [`crate::stream`] alone. Said once, at the start.
pub(crate) fn repair_by(repair: fn(&mut Guard<'_>)) {
    let _ = REPAIR.set(repair);
}

#[cold]
#[inline(never)]
fn repair(guard: &mut Guard<'_>) {
    if let Some(repair) = REPAIR.get() {
        repair(guard);
    }
}

/// The locked body of a connection, wherever that runs.
#[derive(Debug)]
pub struct Locked<'a> {
    /// The connection.
    pub conn: &'a Conn,
    /// Whether the lock was free before.
    is_outermost: bool,
}

impl Deref for Locked<'_> {
    type Target = Body;

    #[inline]
    fn deref(&self) -> &Body {
        // SAFETY: a Locked exists only while the lock is held.
        unsafe { &*self.conn.body.get() }
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Body {
        // SAFETY: as for `deref`, and it is borrowed mutably.
        unsafe { &mut *self.conn.body.get() }
    }
}

/// The locked body of a connection that this process has on a VI: its endpoint may be used. The segment
/// stays mapped meanwhile, because the process leaves the VI only under the lock ([`crate::ops`]'s close,
/// [`crate::retreat`]).
#[derive(Debug)]
pub struct Guard<'a>(Locked<'a>);

impl<'a> Deref for Guard<'a> {
    type Target = Locked<'a>;

    #[inline]
    fn deref(&self) -> &Locked<'a> {
        &self.0
    }
}

impl<'a> DerefMut for Guard<'a> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Locked<'a> {
        &mut self.0
    }
}

impl<'a> Locked<'a> {
    /// The same, if this process has the connection on a VI.
    #[inline]
    pub(crate) fn attached(self) -> Option<Guard<'a>> {
        let conn = self.conn;
        if !conn.is_attached_here() {
            return None;
        }
        let mut guard = Guard(self);
        if conn.has(flag::TORN) {
            conn.clear(flag::TORN);
            repair(&mut guard);
        }
        Some(guard)
    }
}

impl Locked<'_> {
    /// What has been counted since the last time goes to the statistics.
    pub(crate) fn settle_traffic(&mut self) {
        let traffic = core::mem::take(&mut self.traffic);
        self.past += traffic;
        if let Some(page) = crate::stats::page() {
            page.add(&traffic);
        }
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_outermost {
            self.conn.lock.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_another_thread_holds_is_not_given_back_by_trying() {
        // SAFETY: connections are made of zeroed memory of the family's.
        let conn: Box<Conn> = unsafe { Box::<Conn>::new_zeroed().assume_init() };
        let guard = conn.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(conn.try_lock().is_none()));
        });
        assert!(conn.is_mine());
        drop(guard);
        assert!(conn.try_lock().is_some());
        assert!(!conn.is_mine());
    }
}
