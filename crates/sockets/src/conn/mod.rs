//! Data of a connection: everything that Sovia stores about one kernel TCP socket.
//!
//! A connection lies in the family's memory ([`crate::family`]). So its only pointers are those into a segment that
//! every process with this connection has mapped at the same address. Any thread may read the atomics. Only the holder
//! of the lock may use the [`Body`].
//!
//! - `life`: begins and ends a connection in its slot; `flag`: the flags; `stay`: the reason why a connection stays on
//!   TCP;
//! - `handed`, `whereabouts`: programs and keepers outside the family that have the connection's sockets;
//! - `unnamed`: connections that this process holds without an entry among their holders;
//! - `locked`: the lock, and what its holder may use; `biased`: the lock for the thread that has its bias;
//! - `body`, `own`, `copies`: data that only the lock's holder uses; `activity`: how long a direction has been silent;
//! - `waiting`: threads that wait for a connection; `error`: the error that the next call returns;
//! - `put_by`: the program's keep-alive options while the socket has other ones;
//! - `shown`: data that other processes may read;
//! - `approach`: the steps to the VI; `choice`: the settings that the program has chosen.

mod activity;
mod approach;
mod biased;
mod body;
mod choice;
mod copies;
mod error;
pub mod flag;
mod handed;
mod life;
mod locked;
mod own;
mod put_by;
mod shown;
mod stay;
pub(crate) mod unnamed;
mod waiting;
mod whereabouts;

pub use activity::Activity;
pub(crate) use approach::{Approach, Stage};
pub use biased::Biased;
pub(crate) use body::{Bell, HasEndpoint, INLINE_MAX, PACKET_MAX};
pub use body::{Body, HELD, Held, Taking};
pub use choice::Protocol;
pub(crate) use choice::{Choice, WINDOW_MAX, translated};
pub use copies::Copies;
pub(crate) use copies::Fate;
pub(crate) use handed::{Holding, RECORD};
pub(crate) use locked::repair_by;
pub use locked::{Guard, Locked};
pub(crate) use own::Place;
pub use own::{Failover, Handler, Own, Seen};
pub(crate) use put_by::PutBy;
pub(crate) use shown::FIELDS;
use shown::Shown;
pub(crate) use whereabouts::Kept;
use whereabouts::Whereabouts;

use crate::members::{self, COUNTERS};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use sovia_proto::path::{Rx, Tx};
use sovia_sync::presence::Presence;
use sovia_sync::{BiasedLock, Family, rank};
use sovia_sys::cache;

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// The slot is not in use.
    Free = 0,
    /// On TCP. May get a VI.
    Candidate = 1,
    /// On a VI: this end has its VI.
    Attached = 2,
    /// On TCP for good.
    Plain = 3,
}

impl Phase {
    /// Returns true if the connection's bytes go over a VI or may do so later. Then Sovia must see every byte, so a
    /// program without Sovia must not read or write the connection.
    pub(crate) fn may_be_on_vi(self) -> bool {
        matches!(self, Phase::Candidate | Phase::Attached)
    }
}

/// Role of an end in opening the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Called `connect`.
    Connector,
    /// Called `accept`.
    Acceptor,
}

impl Role {
    /// Returns the role of the other end.
    pub(crate) fn other(self) -> Role {
        match self {
            Role::Connector => Role::Acceptor,
            Role::Acceptor => Role::Connector,
        }
    }
}

/// Largest number of connections that one family records. Further connections stay on TCP without a record.
pub const CONNS: usize = 1 << 15;

/// Record of one connection.
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
    /// Processes of the family that hold the socket ([`sovia_control::board::Holders`]).
    pub holders: AtomicU64,
    /// Number of programs that have got the socket in this generation. The family's processes started these programs,
    /// or became them.
    handed: AtomicU32,
    /// Generation after the last one in which several programs got the socket; 0 if there was none.
    spread: AtomicU32,
    /// Number of calls that moved bytes before the connection got its VI.
    pub transfers: AtomicU32,
    /// Progress towards the VI.
    pub(crate) approach: Approach,
    /// Threads inside a kernel receive. While there are any, the path does not switch.
    pub(crate) rx_pins: Presence,
    /// Threads inside a kernel send. While there are any, the path does not switch.
    pub(crate) tx_pins: Presence,
    /// Bytes received over TCP.
    pub rx_tcp: AtomicU64,
    /// Bytes sent over TCP.
    pub tx_tcp: AtomicU64,
    /// SO_RCVTIMEO in nanoseconds; 0 for none (kept up to date once attached).
    pub receive_timeout: AtomicU64,
    /// SO_SNDTIMEO in nanoseconds; 0 for none (kept up to date once attached).
    pub send_timeout: AtomicU64,
    /// The kernel's number of the socket.
    pub cookie: AtomicU64,
    /// Side of the segment that this end uses.
    pub side: AtomicU32,
    /// Number of the connection's slot.
    index: AtomicU32,
    /// Address of the next message.
    next_at: AtomicUsize,
    /// Approximate number of times that threads have slept until the connection had a message or room.
    sleeps: AtomicU32,
    /// Threads that wait outside the lock, counted for each process slot of the family. Not cleared for the slot's next
    /// connection: each thread counts itself out.
    waiting: [AtomicU16; COUNTERS],
    /// Futex word for threads that wait for messages, if a handler thread takes messages off the ring.
    pub(crate) news: Bell,
    /// Settings that the program has chosen for this connection.
    pub(crate) choice: Choice,
    /// Id of the thread that hands the connection to a relay; 0 if no thread does.
    pub(crate) relaying: AtomicU32,
    /// The socket with the connection's unread bytes, if several processes may read them ([`crate::rest`]).
    pub(crate) rest: Whereabouts,
    /// The socket from which the keeper takes bytes to put on TCP. A program that reads from the keeper writes to the
    /// other end of this socket.
    pub(crate) outlet: Whereabouts,
    /// Number of those bytes that the keeper has put on TCP.
    pub(crate) put_out: AtomicU64,
    /// Reason for this end's fallback to TCP: a [`sovia_control::Reason`] plus one; 0 if there is none.
    pub(crate) leaves_for: AtomicU32,
    /// The program's keep-alive options while the socket has other ones.
    pub(crate) put_by: PutBy,
    /// Number of calls since the peer's fallback, plus one; 0 if the connection does not try a rendezvous again.
    pub(crate) again: AtomicU32,
    /// Counted memory that the connection uses in its segment, in KiB ([`crate::backlog`]). The first bytes of each
    /// direction are not counted.
    backlog: AtomicU32,
    /// Bytes that the program lets lie unsent (SO_SNDBUF, TCP_NOTSENT_LOWAT) and unread (SO_RCVBUF); 0 if the program
    /// has set no limit. Kept up to date once attached.
    pub(crate) sends_ahead: AtomicU32,
    pub(crate) holds: AtomicU32,
    /// 1 if `recvmsg` with room for control messages reports when bytes arrived (SO_TIMESTAMP and SO_TIMESTAMPNS). Only
    /// the kernel knows these times. Kept up to date once attached.
    pub(crate) tells_times: AtomicU32,
    /// Slots of the pools that are lent to the program for writing or reading ([`crate::loan`]).
    pub loans: AtomicU32,
    /// Error that the next call, or SO_ERROR, returns once ([`flag::ERROR`]).
    error: AtomicU32,
    /// Reason why the connection stays on TCP for good: a [`sovia_control::Reason`] plus one; 0 if there is none.
    pub stay: AtomicU32,
    /// Data that is stored only for other processes that look at the connection.
    shown: Shown,
    body: UnsafeCell<Body>,
}

// SAFETY: every field except `body` is atomic. Only the holder of the lock accesses `body`, through `Locked`, which
// exists only while the lock is held.
unsafe impl Sync for Conn {}

impl Conn {
    /// Returns the connection's state.
    #[inline]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Free,
            1 => Phase::Candidate,
            2 => Phase::Attached,
            _ => Phase::Plain,
        }
    }

    /// Returns true if a handler thread takes messages off the ring. During a fallback, the thread that makes the
    /// fallback takes them itself.
    #[inline]
    pub fn is_handled(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (flag::HANDLED | flag::FALLING_BACK) == flag::HANDLED
    }

    /// Returns true if the connection is on a VI.
    #[inline]
    pub fn is_attached(&self) -> bool {
        self.phase() == Phase::Attached
    }

    /// Returns true if the connection is attached, and either is in a fallback or has returned to TCP in both
    /// directions.
    #[inline]
    pub(crate) fn is_going_back(&self) -> bool {
        let is_back = || self.rx() == Rx::Back && self.tx() == Tx::Back;
        self.phase() == Phase::Attached && (self.has(flag::FALLING_BACK) || is_back())
    }

    /// Returns true if a keeper has unread bytes of the connection, or bytes that a program has written
    /// ([`crate::rest`]).
    pub(crate) fn has_keeper(&self) -> bool {
        self.rest.find().is_some() || self.outlet.find().is_some()
    }

    /// Returns true if this end has shut both halves.
    pub(crate) fn is_shut(&self) -> bool {
        self.has(flag::SHUT_RD) && self.has(flag::SHUT_WR)
    }

    /// Sets the connection's state.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u32, Ordering::Release);
    }

    /// Returns true if `connect` opened the connection.
    pub(crate) fn is_connector(&self) -> bool {
        self.has(flag::CONNECTOR)
    }

    /// Returns this end's role.
    pub fn role(&self) -> Role {
        if self.has(flag::CONNECTOR) { Role::Connector } else { Role::Acceptor }
    }

    /// Returns the path of the direction in which this end sends.
    #[inline]
    pub fn tx(&self) -> Tx {
        Tx::from_u32(self.tx.load(Ordering::Acquire))
    }

    /// Sets the path of the direction in which this end sends. Requires the lock once attached.
    pub fn set_tx(&self, tx: Tx) {
        self.tx.store(tx as u32, Ordering::Release);
    }

    /// Returns the path of the direction in which this end receives.
    #[inline]
    pub fn rx(&self) -> Rx {
        Rx::from_u32(self.rx.load(Ordering::Acquire))
    }

    /// Sets the path of the direction in which this end receives. Requires the lock once attached.
    pub fn set_rx(&self, rx: Rx) {
        self.rx.store(rx as u32, Ordering::Release);
    }

    /// Returns true if any of `flags` is set.
    #[inline]
    pub fn has(&self, flags: u32) -> bool {
        self.flags.load(Ordering::Relaxed) & flags != 0
    }

    /// Returns all flags.
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Sets `flags`. Returns the flags that were set before.
    pub fn set(&self, flags: u32) -> u32 {
        self.flags.fetch_or(flags, Ordering::AcqRel)
    }

    /// Clears `flags`. Returns the flags that were set before.
    pub fn clear(&self, flags: u32) -> u32 {
        self.flags.fetch_and(!flags, Ordering::AcqRel)
    }

    /// Returns the counted memory that the connection uses in its segment, in KiB.
    pub(crate) fn memory(&self) -> u32 {
        self.backlog.load(Ordering::Relaxed)
    }

    /// Sets the counted memory to `now` KiB, and returns the difference to the common limit. `now` must not exceed the
    /// amount that was taken for the connection.
    pub(crate) fn use_memory(&self, now: u32) {
        if self.memory() == now {
            return;
        }
        let before = self.backlog.swap(now, Ordering::Relaxed);
        crate::backlog::give_back(u64::from(before.saturating_sub(now)) << 10);
    }

    /// Takes memory from the common limit, so that the connection may use `now` KiB. Returns false if the limit is
    /// reached. Requires the lock.
    pub(crate) fn may_use_memory(&self, now: u32) -> bool {
        let before = self.memory();
        let may = crate::backlog::take(u64::from(now.saturating_sub(before)) << 10);
        if may {
            self.backlog.store(now.max(before), Ordering::Relaxed);
        }
        may
    }

    /// Returns true if this process has the connection. Then the segment stays mapped while the connection is attached.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        // A process without a process slot of its own keeps all segments, because it cannot be told apart from its
        // relatives.
        let holders = self.holders.load(Ordering::Acquire);
        members::has_me(holders) || self.is_held(holders)
    }

    /// Returns true if this process has the connection on a VI.
    pub(crate) fn is_attached_here(&self) -> bool {
        self.phase() == Phase::Attached && self.is_here()
    }

    /// Stores the address of the next message.
    #[inline]
    pub(crate) fn expect_at(&self, place: usize) {
        self.next_at.store(place, Ordering::Relaxed);
    }

    /// Prefetches the next message of an attached connection, before the lock is taken. A prefetch accesses nothing, so
    /// the address may be out of date.
    #[inline]
    pub(crate) fn fetch_next(&self) {
        cache::will_read(core::ptr::without_provenance(self.next_at.load(Ordering::Relaxed)));
    }
}
