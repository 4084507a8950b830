//! A connection: what Sovia knows of one kernel TCP socket.
//!
//! It lies in the family's memory ([`crate::family`]), so it holds no pointer but those into a
//! segment that every process with this connection has mapped at the same address. The atomics
//! may be looked at by anyone; the [`Body`] belongs to the holder of the lock.

use crate::family::MEMBERS;
use crate::protocol::{Choice, Protocol};
use crate::stream::{Handler, Own, Seen};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence};
use sovia_control::{Reason, Traffic};
use sovia_proto::close::Closing;
use sovia_proto::flow::Flow;
use sovia_proto::order::{Gatherer, Taker};
use sovia_proto::path::{Rx, Tx};
use sovia_sys::RobustLock;
use sovia_sys::lock::Acquired;
use via_shm::Endpoint;
use via_shm::ring::{INLINE, SLOTS};
use via_shm::waiter::Bell;

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

/// A connection's flags.
pub mod flag {
    /// The descriptor is in non-blocking mode (kept up to date once attached).
    pub const NONBLOCK: u32 = 1;
    /// The anchor had an event (data, end, reset) that has not been looked at.
    pub const ANCHOR: u32 = 1 << 1;
    /// The program has shut its sending side.
    pub const SHUT_WR: u32 = 1 << 2;
    /// The program has shut its receiving side.
    pub const SHUT_RD: u32 = 1 << 3;
    /// The peer's FIN has been reached: end of file.
    pub const EOF: u32 = 1 << 4;
    /// The segment is damaged: errors from now on.
    pub const DAMAGED: u32 = 1 << 5;
    /// The peer's process has left without a FIN: sends go to the kernel for its verdict.
    pub const PEER_GONE: u32 = 1 << 6;
    /// The connection was opened by `connect`.
    pub const CONNECTOR: u32 = 1 << 7;
    /// The meeting has counted this connection in the statistics.
    pub const COUNTED: u32 = 1 << 8;
    /// Being taken back to TCP: nobody may start anything new on the VI.
    pub const RETREATING: u32 = 1 << 9;
    /// The peer has recalled the direction in which we send.
    pub const RECALLED: u32 = 1 << 10;
    /// What the peer returned after a recall has gone to TCP.
    pub const PUMPED: u32 = 1 << 11;
    /// The anchor has told of the peer's end, or of an error.
    pub const ENDED: u32 = 1 << 12;
    /// The connection has, or had, a VI: its counts are its own.
    pub const MET: u32 = 1 << 13;
    /// Small messages are combined.
    pub const COMBINES: u32 = 1 << 14;
    /// Messages are handled by a thread of Sovia's, not by the program's calls.
    pub const HANDLED: u32 = 1 << 15;
    /// It is called back for each message that has arrived, rather than waiting for them.
    pub const NOTIFIED: u32 = 1 << 16;
    /// Such a call is on its way.
    pub const CALLED: u32 = 1 << 17;
}

/// A message taken off the ring before the program wanted it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Held {
    /// [`sovia_proto::packet::Kind`] as a number.
    pub kind: u8,
    /// Whether the bytes are in the pool.
    pub pooled: bool,
    /// Length in bytes.
    pub len: u32,
    /// Offset in the pool.
    pub at: u32,
    /// Pool position to release once consumed.
    pub release: u64,
    /// The bytes, if not pooled.
    pub bytes: [u8; INLINE],
}

/// Ordered packets that can be held: a whole ring's worth, more than the window.
pub const HELD: usize = SLOTS as usize;

/// The one change of a receiver that has several steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub enum Taking {
    /// None is under way.
    #[default]
    Nothing,
    /// The entry of that number from the ring; ordered packets consumed afterwards.
    FromRing(u32, u32),
    /// The held packet of that number; ordered packets consumed afterwards.
    FromHeld(u32, u32),
    /// The entry of that number from the ring to the held packets; the number after the last of those
    /// before.
    ToHeld(u32, u32),
}

/// What the holder of the lock may touch.
#[derive(Debug)]
#[repr(C)]
pub struct Body {
    /// Our end of the VI; valid once attached.
    pub endpoint: MaybeUninit<Endpoint>,
    /// Window and acknowledgements.
    pub flow: Flow,
    /// What else of the protocol is chosen.
    pub protocol: Protocol,
    /// Combined bytes of which the peer has not been told.
    pub untold: u32,
    /// When it must be told of them (nanoseconds of the monotonic clock).
    pub due: u64,
    /// FIN and FINACK.
    pub closing: Closing,
    /// Our gathered bytes.
    pub gatherer: Gatherer,
    /// The peer's gathered bytes.
    pub taker: Taker,
    /// What went over the VI and is not yet in the statistics.
    pub traffic: Traffic,
    /// What is in the statistics already.
    pub past: Traffic,
    /// A packet that is being taken off: what must be true once it is, should its taker die.
    pub taking: Taking,
    /// Entries received whose arrival the flow knows of.
    pub arrivals: u32,
    /// Entries sent that `gatherer.packets` knows of.
    pub counted: u32,
    /// Bytes in the ordered packets sent; the gatherer counts the packets.
    pub bytes_sent: u32,
    /// Bytes in the ordered packets consumed; the taker counts the packets.
    pub bytes_taken: u32,
    /// Bytes that a recall returned and that have gone to TCP.
    pub pumped: u32,
    /// Bytes of the first unread packet that the program has had.
    pub front: u32,
    /// Number of the first held packet.
    pub held_first: u32,
    /// Number after the last held packet.
    pub held_end: u32,
    /// Whether the program reads in a place of the pool: it is not released meanwhile.
    pub borrowed: bool,
    /// Pool position to release when it has done so.
    pub owed: u64,
    /// Where the receiver stood when a sender last gave up waiting for a place.
    pub stalled: u64,
    /// Packets held back by [`crate::stream`] so that acknowledgements behind them could be seen.
    pub held: [Held; HELD],
    /// What this end has written in the segment, to compare.
    pub own: Own,
    /// When that was last compared.
    pub seen: Seen,
    /// The thread that handles messages, if one does.
    pub handler: Handler,
}

/// One connection.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Conn {
    lock: RobustLock,
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
    /// Threads inside a kernel receive.
    pub rx_pins: AtomicU32,
    /// Threads inside a kernel send.
    pub tx_pins: AtomicU32,
    /// Bytes received over TCP.
    pub rx_tcp: AtomicU64,
    /// Bytes sent over TCP.
    pub tx_tcp: AtomicU64,
    /// SO_RCVTIMEO in nanoseconds; 0 for none (kept up to date once attached).
    pub receive_timeout: AtomicU64,
    /// SO_SNDTIMEO likewise.
    pub send_timeout: AtomicU64,
    /// Which side of the segment we are.
    pub side: AtomicU32,
    /// Threads that wait outside the lock, for each place in the family.
    waiting: [AtomicU16; MEMBERS],
    /// Rung for those who wait for messages, where a thread of Sovia's handles them.
    pub(crate) news: Bell,
    /// What the program has chosen for this connection.
    pub(crate) choice: Choice,
    /// The thread that takes the connection back to TCP.
    pub retreater: AtomicU32,
    /// Places in the pools that the program writes to or reads in ([`crate::loan`]).
    pub loans: AtomicU32,
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
        self.holders.store(crate::family::my_bit(), Ordering::Relaxed);
        for counter in [&self.transfers, &self.rx_pins, &self.tx_pins, &self.stay, &self.loans] {
            counter.store(0, Ordering::Relaxed);
        }
        for counter in &self.waiting {
            counter.store(0, Ordering::Relaxed);
        }
        self.news.clear();
        self.choice.forget();
        for counter in [&self.rx_tcp, &self.tx_tcp, &self.receive_timeout, &self.send_timeout] {
            counter.store(0, Ordering::Relaxed);
        }
        self.phase.store(Phase::Candidate as u32, Ordering::Release);
        generation
    }

    /// Ends the slot's present life; references with the old generation are void from here.
    pub fn end(&self) {
        self.phase.store(Phase::Free as u32, Ordering::Release);
        self.generation.fetch_add(1, Ordering::AcqRel);
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

    /// Whether a thread of Sovia's takes messages off the ring. Who takes the connection back to TCP
    /// does so itself.
    #[inline]
    pub fn is_handled(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (flag::HANDLED | flag::RETREATING) == flag::HANDLED
    }

    /// Whether it runs on a VI.
    #[inline]
    pub fn is_attached(&self) -> bool {
        self.phase() == Phase::Attached
    }

    /// Moves on to another phase.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u32, Ordering::Release);
    }

    /// Notes why it stays on TCP; the first reason is the one.
    pub(crate) fn stays(&self, reason: Reason) {
        let _ =
            self.stay.compare_exchange(0, reason as u32 + 1, Ordering::Relaxed, Ordering::Relaxed);
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

    /// Takes the lock and with it the body.
    #[inline]
    pub fn lock(&self) -> Guard<'_> {
        self.taken(self.lock.lock())
    }

    /// Takes the lock, unless others hold it for so many nanoseconds.
    pub(crate) fn lock_within(&self, ns: u64) -> Option<Guard<'_>> {
        self.lock.lock_within(ns).map(|acquired| self.taken(acquired))
    }

    #[inline]
    fn taken(&self, acquired: Acquired) -> Guard<'_> {
        let mut guard = Guard { conn: self };
        if acquired == Acquired::FromTheDead && self.phase() == Phase::Attached {
            crate::stream::repair(&mut guard);
        }
        guard
    }

    /// Whether the calling thread is in the middle of a call on it, which a signal handler has
    /// interrupted.
    pub(crate) fn is_mine(&self) -> bool {
        self.lock.is_mine()
    }

    /// Whether a call of a signal handler must not go on here, because the handler has interrupted a
    /// call on the same connection. One that finds it so a thousand times in a row has left the
    /// interrupted call by `longjmp`; then the lock is taken over.
    #[inline]
    pub fn is_interrupted(&self) -> bool {
        const PATIENCE: u32 = 1000;
        thread_local! {
            static TIMES: core::cell::Cell<u32> = const { core::cell::Cell::new(0) };
        }
        let times = TIMES.get();
        if !self.lock.is_mine() {
            if times != 0 {
                TIMES.set(0);
            }
            return false;
        }
        TIMES.set(times + 1);
        times < PATIENCE
    }

    /// Counts the calling thread among those that wait for the connection.
    #[inline]
    pub fn begin_waiting(&self) {
        self.waiting[crate::family::place()].fetch_add(1, Ordering::AcqRel);
    }

    /// Counts it out.
    #[inline]
    pub fn end_waiting(&self) {
        self.waiting[crate::family::place()].fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether any thread of the family waits.
    pub fn is_awaited(&self) -> bool {
        self.waiting.iter().any(|count| count.load(Ordering::Acquire) != 0)
    }

    /// Threads of this process that wait, as far as it can be told from its relatives.
    pub fn waiting_here(&self) -> usize {
        if !crate::family::is_known() {
            return 0;
        }
        usize::from(self.waiting[crate::family::place()].load(Ordering::Acquire))
    }

    /// Has the next message of an attached connection fetched, before the lock is taken.
    #[inline]
    pub(crate) fn fetch_next(&self) {
        // SAFETY: the endpoint was written before the phase became Attached, and stays what it is
        // but for its numbers; a number that is just being changed has another slot fetched, which
        // is mapped like the rest of the family's and the segment's memory. (A segment that goes
        // meanwhile makes no difference: nothing is accessed.)
        let endpoint =
            unsafe { (*core::ptr::addr_of!((*self.body.get()).endpoint)).assume_init_ref() };
        endpoint.rx.fetch_next();
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_>> {
        self.lock.try_lock().then_some(Guard { conn: self })
    }
}

/// The locked body of a connection.
#[derive(Debug)]
pub struct Guard<'a> {
    /// The connection.
    pub conn: &'a Conn,
}

impl Deref for Guard<'_> {
    type Target = Body;

    #[inline]
    fn deref(&self) -> &Body {
        // SAFETY: a Guard exists only while the lock is held.
        unsafe { &*self.conn.body.get() }
    }
}

impl DerefMut for Guard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Body {
        // SAFETY: as for `deref`, and the guard is borrowed mutably.
        unsafe { &mut *self.conn.body.get() }
    }
}

impl Guard<'_> {
    /// What has been counted since the last time goes to the statistics.
    pub(crate) fn settle_traffic(&mut self) {
        let traffic = core::mem::take(&mut self.traffic);
        self.past += traffic;
        if let Some(page) = crate::stats::page() {
            page.add(&traffic);
        }
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.conn.lock.unlock();
    }
}

impl Body {
    /// Notes what is about to be done in several steps, for whoever must finish it should this
    /// process die in between; or that all of them are done.
    #[inline]
    pub(crate) fn take(&mut self, taking: Taking) {
        // In this order in memory, whatever the compiler would like to leave out: a process is killed
        // between any two instructions.
        compiler_fence(Ordering::SeqCst);
        self.taking = taking;
        compiler_fence(Ordering::SeqCst);
    }

    /// Our end of the VI. Only for attached connections.
    #[inline]
    pub fn endpoint(&mut self) -> &mut Endpoint {
        // SAFETY: callers reach this only where the phase is Attached, and `attach` wrote the
        // endpoint before it set that phase; the segment stays mapped while one is attached.
        unsafe { self.endpoint.assume_init_mut() }
    }

    /// Our end of the VI, to look at.
    #[inline]
    pub fn endpoint_ref(&self) -> &Endpoint {
        // SAFETY: as for `endpoint`.
        unsafe { self.endpoint.assume_init_ref() }
    }
}
