//! A connection: what Sovia knows of one kernel TCP socket.
//!
//! It lies in the family's memory ([`crate::family`]), so it holds no pointer but those into a
//! segment that every process with this connection has mapped at the same address. The atomics
//! may be read by any thread; the [`Body`] belongs to the holder of the lock.
//!
//! - `life`: where one begins and ends in its slot; `flag`: its flags; `stay`: why it stays on TCP;
//! - `handed`: which programs outside of the family have got it;
//! - `locked`: its lock, and what the lock's holder has; `biased`: the lock for the thread that it favours;
//! - `body`, `own`, `copies`: what belongs to the lock's holder; `activity`: how long a direction has been silent;
//! - `waiting`: threads that wait for it; `error`: the error that the next call is to return;
//! - `put_by`: the options of its keep-alive while it has others;
//! - `shown`: what other processes may read of it;
//! - `approach`: how far it is on the way to its VI; `choice`: what the program has chosen for it.

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

impl Phase {
    /// Whether its bytes go over a VI, or may come to. Sovia must see every byte of it then: a program without Sovia
    /// must not read or write it.
    pub(crate) fn may_be_on_vi(self) -> bool {
        matches!(self, Phase::Candidate | Phase::Attached)
    }
}

/// Which end opened the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// By `connect`.
    Connector,
    /// By `accept`.
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

/// Connections that one family can have on record; more stay on TCP unrecorded.
pub const CONNS: usize = 1 << 15;

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
    /// The family's processes that hold the socket ([`sovia_control::board::Holders`]).
    pub holders: AtomicU64,
    /// How many programs that the family's processes started, or became, have got the socket in this life.
    handed: AtomicU32,
    /// The life after the last one in which there were several; 0 if there was none.
    spread: AtomicU32,
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
    /// Number of its slot.
    index: AtomicU32,
    /// Where its next message will lie.
    next_at: AtomicUsize,
    /// How often threads have slept until it had a message or room, or thereabouts.
    sleeps: AtomicU32,
    /// Threads that wait outside the lock, for each place in the family. Not set to zero for the slot's next
    /// connection: each thread takes itself out.
    waiting: [AtomicU16; COUNTERS],
    /// Rung for threads that wait for messages, where a thread of Sovia's handles them.
    pub(crate) news: Bell,
    /// What the program has chosen for this connection.
    pub(crate) choice: Choice,
    /// The thread that hands the connection to a relay; 0 if none does.
    pub(crate) relaying: AtomicU32,
    /// Where what is unread of it lies, once several processes may be the ones that read it ([`crate::rest`]).
    pub(crate) rest: Whereabouts,
    /// Where what a program has written comes out that reads from the same socket, for the keeper to put on TCP.
    pub(crate) outlet: Whereabouts,
    /// Bytes of that which the keeper has put there.
    pub(crate) put_out: AtomicU64,
    /// Why this end takes it back to TCP: a [`sovia_control::Reason`] plus one; 0 if it does not.
    pub(crate) leaves_for: AtomicU32,
    /// The options of its keep-alive while it has others.
    pub(crate) put_by: PutBy,
    /// How often calls have come by since its peer took it back to TCP, plus one; 0: it does not meet again.
    pub(crate) again: AtomicU32,
    /// Memory that it uses of its segment beyond what is for nothing, in KiB ([`crate::backlog`]).
    backlog: AtomicU32,
    /// Bytes that the program lets lie unsent (SO_SNDBUF, TCP_NOTSENT_LOWAT), and unread (SO_RCVBUF); 0 where it has not said. Kept
    /// up to date once attached.
    pub(crate) sends_ahead: AtomicU32,
    pub(crate) holds: AtomicU32,
    /// 1 where `recvmsg` with room for control messages tells when bytes came (SO_TIMESTAMP and SO_TIMESTAMPNS): the kernel alone
    /// knows. Kept up to date once attached.
    pub(crate) tells_times: AtomicU32,
    /// Places in the pools that the program writes to or reads in ([`crate::loan`]).
    pub loans: AtomicU32,
    /// The error that the next call, or SO_ERROR, is to return once ([`flag::ERROR`]).
    error: AtomicU32,
    /// Why it is on TCP for good: a [`sovia_control::Reason`] plus one; 0 if it is not.
    pub stay: AtomicU32,
    /// What is noted for other processes that look at it.
    shown: Shown,
    body: UnsafeCell<Body>,
}

// SAFETY: everything is atomic but the body, which only the holder of the lock touches
// (`Conn::lock` hands out the only path to it).
unsafe impl Sync for Conn {}

impl Conn {
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
        self.flags.load(Ordering::Relaxed) & (flag::HANDLED | flag::FALLING_BACK) == flag::HANDLED
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
        self.phase() == Phase::Attached && (self.has(flag::FALLING_BACK) || is_back())
    }

    /// Whether a keeper has what is unread of it, or what a program has written ([`crate::rest`]).
    pub(crate) fn has_keeper(&self) -> bool {
        self.rest.find().is_some() || self.outlet.find().is_some()
    }

    /// Whether this end has shut both halves of it.
    pub(crate) fn is_shut(&self) -> bool {
        self.has(flag::SHUT_RD) && self.has(flag::SHUT_WR)
    }

    /// Moves on to another phase.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u32, Ordering::Release);
    }

    /// Whether it was opened by `connect`.
    pub(crate) fn is_connector(&self) -> bool {
        self.has(flag::CONNECTOR)
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

    /// How much it uses of its segment, beyond what is for nothing (KiB).
    pub(crate) fn memory(&self) -> u32 {
        self.backlog.load(Ordering::Relaxed)
    }

    /// From now on it uses so much, which is no more than has been taken for it.
    pub(crate) fn use_memory(&self, now: u32) {
        if self.memory() == now {
            return;
        }
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

    /// Whether this process has the connection, so that the segment stays mapped while it is attached.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        // A process without a place of its own in the family keeps all segments. It cannot be told from its relatives.
        let holders = self.holders.load(Ordering::Acquire);
        members::has_me(holders) || self.is_held(holders)
    }

    /// Whether this process has the connection on a VI.
    pub(crate) fn is_attached_here(&self) -> bool {
        self.phase() == Phase::Attached && self.is_here()
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
}
