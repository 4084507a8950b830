//! Data of a connection: everything that Sovia stores about one kernel TCP socket.
//!
//! A connection lies in the family's shared memory ([`crate::family`]). So its only pointers lead into a segment,
//! which every process with this connection has mapped at the same address. Any thread may read the atomics. Only
//! the holder of the connection's lock may use the [`Body`].
//!
//! - `generation`: begins and ends a connection in its slot; `flag`: the flags; `stay`: why a connection stays on TCP;
//! - `handed`: programs outside the family that have got the socket;
//! - `unnamed`: connections that this process holds without an entry in their `references` word;
//! - `locked`: the lock; `biased`: a fast path to the lock, for the thread that has the lock's bias;
//! - `body`, `own`, `copies`: data that only the lock's holder uses; `activity`: how long a direction has carried
//!   no bytes;
//! - `waiting`: threads that wait for a connection; `error`: an error that the next call of the program returns;
//! - `saved_keepalive`: the program's keep-alive options, while Sovia has set other ones on the socket;
//! - `shown`: data for other processes, such as `sovia ps`;
//! - `approach`: the rendezvous; `choice`: protocol settings that the program has chosen.

mod activity;
mod approach;
mod biased;
mod body;
mod choice;
mod copies;
mod error;
pub mod flag;
mod generation;
mod handed;
pub(crate) mod lent;
mod locked;
mod own;
mod saved_keepalive;
mod shown;
mod stay;
pub(crate) mod unnamed;
mod waiting;

pub use activity::Activity;
pub(crate) use approach::{Approach, ApproachStage};
pub use biased::Biased;
pub use body::{Body, HELD, Held, Taking};
pub(crate) use body::{HasEndpoint, INLINE_MAX, PACKET_MAX, WakeWord};
pub use choice::Protocol;
pub(crate) use choice::{Choice, WINDOW_MAX, translated};
pub use copies::Copies;
pub(crate) use copies::Fate;
pub(crate) use handed::{Holding, RECORD};
pub(crate) use locked::repair_by;
pub use locked::{Guard, Locked};
pub(crate) use own::EndProgress;
pub use own::{Failover, Handler, LastAudit, OwnWords};
pub(crate) use saved_keepalive::SavedKeepalive;
pub(crate) use shown::FIELDS;
use shown::Shown;

use crate::process_slots::{self, COUNTERS};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use sovia_proto::path::{Rx, Tx};
use sovia_sync::callers::Callers;
use sovia_sync::{BiasedLock, Family, rank};
use sovia_sys::cache;

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// The slot has no connection.
    Free = 0,
    /// The connection is on TCP, and may get a VI later.
    Eligible = 1,
    /// This end of the connection has its VI.
    Attached = 2,
    /// The connection stays on TCP for good.
    Plain = 3,
}

impl Phase {
    /// Returns true if the connection has a VI or may get one. Then a program without Sovia must not read or write
    /// the socket, because Sovia must count every byte.
    pub(crate) fn may_be_on_vi(self) -> bool {
        matches!(self, Phase::Eligible | Phase::Attached)
    }
}

/// The call by which an end opened the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// This end called `connect`.
    Connector,
    /// This end called `accept`.
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

/// Number of connection slots of one family. Further connections stay on TCP and have no slot.
pub const CONNS: usize = 1 << 15;

/// Slot of one connection in the family's memory.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Conn {
    lock: BiasedLock<Family, { rank::CONNECTION }>,
    generation: AtomicU32,
    phase: AtomicU32,
    flags: AtomicU32,
    tx: AtomicU32,
    rx: AtomicU32,
    /// Index of the connection's segment in the table of pairs, the same in each process that has this connection.
    pub pair: AtomicU32,
    /// Number of the connection's VI in the segment.
    pub vi: AtomicU32,
    /// Processes of the family that hold the socket ([`sovia_control::stats_page::References`]).
    pub references: AtomicU64,
    /// Number of programs outside the family that have got the socket in this generation, by an exec or a message.
    handed: AtomicU32,
    /// The last generation in which several programs outside the family got the socket, plus one; 0 if there was
    /// none.
    spread: AtomicU32,
    /// Number of calls that moved bytes before the connection got its VI.
    pub transfers: AtomicU32,
    /// State of the rendezvous, by which the connection gets a VI.
    pub(crate) approach: Approach,
    /// Counts threads inside a kernel receive. While there are any, the receiving direction must not move to the
    /// VI.
    pub(crate) rx_pins: Callers,
    /// Counts threads inside a kernel send. While there are any, the sending direction must not move to the VI.
    pub(crate) tx_pins: Callers,
    /// Number of bytes received on TCP.
    pub rx_tcp: AtomicU64,
    /// Number of bytes sent on TCP.
    pub tx_tcp: AtomicU64,
    /// SO_RCVTIMEO in nanoseconds; 0 for no timeout. Valid only while the connection has a VI.
    pub receive_timeout: AtomicU64,
    /// SO_SNDTIMEO in nanoseconds; 0 for no timeout. Valid only while the connection has a VI.
    pub send_timeout: AtomicU64,
    /// The socket's cookie (SO_COOKIE).
    pub cookie: AtomicU64,
    /// Number of the side of the segment that this end uses.
    pub side: AtomicU32,
    /// Index of this slot in the family's memory.
    pub(crate) index: AtomicU32,
    /// Address of the ring entry in which the next message will arrive.
    next_at: AtomicUsize,
    /// Approximate number of times that threads have slept because the connection had no message or no room.
    sleeps: AtomicU32,
    /// Number of threads that wait for the connection without its lock, by the process slot of their process. Not
    /// cleared for the slot's next connection, because each thread subtracts itself when its wait ends.
    waiting: [AtomicU16; COUNTERS],
    /// Futex word for threads that wait for messages, if a handler thread takes messages off the ring.
    pub(crate) handler_wake_word: WakeWord,
    /// Settings that the program has chosen for this connection.
    pub(crate) choice: Choice,
    /// Id of the thread that is handing the connection to a relay; 0 if no thread is.
    pub(crate) relaying: AtomicU32,
    /// State of the bytes that a relay lends to its program, while relatives share the connection
    /// ([`lent`]).
    pub(crate) lent: AtomicU32,
    /// Reason for this end's fallback to TCP: a [`sovia_control::Reason`] plus one; 0 if this end has begun no
    /// fallback.
    pub(crate) leaves_for: AtomicU32,
    /// The program's keep-alive options, while Sovia has set other ones on the socket.
    pub(crate) saved_keepalive: SavedKeepalive,
    /// Number of the program's calls since a temporary fallback to TCP, plus one; 0 if no second rendezvous may
    /// follow.
    pub(crate) again: AtomicU32,
    /// Counted memory that the connection uses in its segment, in KiB ([`crate::backlog`]). The first bytes of each
    /// pool and overflow buffer are not counted.
    backlog: AtomicU32,
    /// The program's limit on bytes that this end has sent and the peer has not read (SO_SNDBUF,
    /// TCP_NOTSENT_LOWAT), in bytes. 0 if the program has set none. Valid only while the connection has a VI.
    pub(crate) sends_ahead: AtomicU32,
    /// The program's limit on bytes that have arrived and are unread (SO_RCVBUF), in bytes. 0 if the program has set
    /// none. Valid only while the connection has a VI.
    pub(crate) holds: AtomicU32,
    /// 1 if `recvmsg` must report when bytes arrived (SO_TIMESTAMP, SO_TIMESTAMPNS). Only the kernel knows these
    /// times. Valid only while the connection has a VI.
    pub(crate) reports_times: AtomicU32,
    /// Number of pool slots that are lent to the program for writing or reading ([`crate::loan`]).
    pub loans: AtomicU32,
    /// Error number that the program's next call or SO_ERROR returns, once ([`flag::ERROR`]); 0 if there is none.
    error: AtomicU32,
    /// Reason why the connection stays on TCP for good: a [`sovia_control::Reason`] plus one; 0 if there is none.
    pub stay: AtomicU32,
    /// Data for other processes that look at the connection, such as `sovia ps`. The engine itself does not use
    /// this data.
    shown: Shown,
    body: UnsafeCell<Body>,
}

// SAFETY: every field except `body` consists of atomics. `body` is accessed only through `Locked`, which exists
// only while its thread holds the connection's lock.
unsafe impl Sync for Conn {}

impl Conn {
    /// Returns the connection's state.
    #[inline]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Free,
            1 => Phase::Eligible,
            2 => Phase::Attached,
            _ => Phase::Plain,
        }
    }

    /// Returns true if a handler thread takes messages off the ring. Returns false during a fallback, when the
    /// thread that does the fallback takes messages off the ring.
    #[inline]
    pub fn has_handler(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (flag::HAS_HANDLER | flag::FALLING_BACK)
            == flag::HAS_HANDLER
    }

    /// Returns true if this end of the connection has its VI.
    #[inline]
    pub fn is_attached(&self) -> bool {
        self.phase() == Phase::Attached
    }

    /// Returns true if the connection still has its VI, but is in a fallback or already has its two directions back
    /// on TCP.
    #[inline]
    pub(crate) fn is_going_back(&self) -> bool {
        let is_back = || self.rx() == Rx::Back && self.tx() == Tx::Back;
        self.phase() == Phase::Attached && (self.has(flag::FALLING_BACK) || is_back())
    }

    /// Returns true if the program has shut down the sending and the receiving half.
    pub(crate) fn is_shut(&self) -> bool {
        self.has(flag::SHUT_RD) && self.has(flag::SHUT_WR)
    }

    /// Sets the connection's state.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u32, Ordering::Release);
    }

    /// Returns true if this end opened the connection with `connect`.
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

    /// Sets the path of the direction in which this end sends. Requires the connection's lock if the connection has
    /// a VI.
    pub fn set_tx(&self, tx: Tx) {
        self.tx.store(tx as u32, Ordering::Release);
    }

    /// Returns the path of the direction in which this end receives.
    #[inline]
    pub fn rx(&self) -> Rx {
        Rx::from_u32(self.rx.load(Ordering::Acquire))
    }

    /// Sets the path of the direction in which this end receives. Requires the connection's lock if the connection
    /// has a VI.
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

    /// Reduces the connection's counted memory to `now` KiB, and makes the difference available to other
    /// connections. `now` must not exceed the present amount.
    pub(crate) fn use_memory(&self, now: u32) {
        if self.memory() == now {
            return;
        }
        let before = self.backlog.swap(now, Ordering::Relaxed);
        crate::backlog::give_back(u64::from(before.saturating_sub(now)) << 10);
    }

    /// Increases the connection's counted memory to `now` KiB. Returns false if this would exceed the family's
    /// limit. Requires the connection's lock.
    pub(crate) fn may_use_memory(&self, now: u32) -> bool {
        let before = self.memory();
        let may = crate::backlog::take(u64::from(now.saturating_sub(before)) << 10);
        if may {
            self.backlog.store(now.max(before), Ordering::Relaxed);
        }
        may
    }

    /// Returns true if this process holds the connection. Then the segment stays mapped in this process while the
    /// connection has its VI.
    #[inline(always)]
    pub(crate) fn is_here(&self) -> bool {
        let references = self.references.load(Ordering::Acquire);
        process_slots::has_me_by_bit(references) || self.is_here_otherwise(references)
    }

    #[cold]
    #[inline(never)]
    fn is_here_otherwise(&self, references: u64) -> bool {
        // A process without a process slot counts as a holder of every connection, and keeps all segments mapped.
        process_slots::has_me(references) || self.is_held(references)
    }

    /// Returns true if this process has the connection on a VI.
    #[inline(always)]
    pub(crate) fn is_attached_here(&self) -> bool {
        self.phase() == Phase::Attached && self.is_here()
    }

    /// Stores the address of the ring entry in which the next message will arrive.
    #[inline]
    pub(crate) fn expect_at(&self, slot: usize) {
        self.next_at.store(slot, Ordering::Relaxed);
    }

    /// Prefetches the ring entry of the next message. Needs no lock: a prefetch of an outdated address does no
    /// harm.
    #[inline]
    pub(crate) fn fetch_next(&self) {
        cache::will_read(core::ptr::without_provenance(self.next_at.load(Ordering::Relaxed)));
    }
}
