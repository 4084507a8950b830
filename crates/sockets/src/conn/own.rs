//! Data about this end's progress on the VI, which the peer cannot overwrite.
//!
//! Only [`crate::stream`] uses this data. It is defined here because it is a part of the connection's body.

use crate::process_slots::FamilyProcess;
use sovia_proto::failover::Tail;

/// Private copies of the words that this end writes in the segment, and private limits and flags of this end.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct OwnWords {
    /// Copy of `word::GRANT`.
    pub grant: u64,
    /// Value that this end stored in `word::SWITCH` when it switched to the VI.
    pub switch: u64,
    /// Copy of `word::FROM`.
    pub from: u64,
    /// Copy of `word::ASKED`.
    pub asked: u64,
    /// Copy of `word::AFTER`.
    pub after: u64,
    /// Copy of `word::START`.
    pub start: u64,
    /// Copy of `word::LEDGER`.
    pub ledger: u64,
    /// Number of usable bytes of the overflow buffer beyond the first bytes, which are not counted.
    pub overflow: u32,
    /// Window of this end that the configuration gives, in packets.
    pub window: u16,
    /// Limit on bytes that this end has sent and the peer has not read; `u32::MAX` if only the segment's memory
    /// limits them.
    pub bound: u32,
    /// Bitmap of the program's ready lists that must be notified of the connection's events.
    pub watchers: u32,
    /// True if the ready lists have been notified that the kernel socket has ended or was reset.
    pub is_end_reported: bool,
    /// True if a thread died while it held the lock, so that the counts of bytes may be wrong.
    pub uncounted: bool,
}

/// State of a connection at the last check by `stream::audit`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct LastAudit {
    /// Time of the check (nanoseconds of the monotonic clock).
    pub(crate) at: u64,
    pub(crate) progress: EndProgress,
    /// True once a check has reported a lost event or a corrupt segment, so that later checks do not report it
    /// again.
    pub(crate) is_reported: bool,
    /// Numbers of bytes and messages that this end had sent when their average length was last looked at.
    pub(crate) sent: [u64; 2],
}

/// Progress of the two directions. If a check finds the same values as the check before, nothing has moved
/// meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct EndProgress {
    /// Position of the end of the peer's coalesced bytes (TAIL), the peer's switch word, and true if the ring had a
    /// message.
    pub(crate) arrived: (u64, u64, bool),
    pub(crate) sent: u32,
    pub(crate) received: u32,
    pub(crate) tail: u64,
    pub(crate) head: u64,
    pub(crate) consumed: u32,
    pub(crate) front: u32,
    pub(crate) flags: u32,
}

/// The handler thread that takes a connection's messages off the ring.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Handler {
    /// Ready list by which the peer notifies the handler thread, plus one; 0 if the connection has no handler
    /// thread.
    pub(crate) ready_list: u32,
    /// Process of the handler thread.
    pub(crate) process: FamilyProcess,
    /// State at the thread's last look for messages: the end of the peer's coalesced bytes (TAIL), the peer's
    /// switch word, and `held_end`.
    pub(crate) last_look: (u64, u64, u32),
}

impl Handler {
    /// Returns the ready list by which the peer notifies the handler thread, if the connection has a handler
    /// thread.
    pub(crate) fn ready_list(&self) -> Option<u32> {
        self.ready_list.checked_sub(1)
    }
}

/// State of a failover to TCP after the death of a NIC in software ([`sovia_proto::failover`]).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Failover {
    /// True once the failover has begun.
    pub is_on: bool,
    /// True if this end puts a failover record on TCP.
    pub sends: bool,
    /// True while this end must still read the peer's failover record on TCP, or repeated bytes that the program
    /// already has.
    pub awaits: bool,
    /// True if the peer may put new bytes on TCP without a failover record.
    pub or_not: bool,
    /// True if bytes may be missing when TCP ends. Then this end reports an end of TCP as an error.
    pub doubts: bool,
    /// True if the direction in which this end receives continues on TCP without a failover record.
    pub is_plain: bool,
    /// Bytes that this end puts on TCP after its failover record.
    pub tail: Tail,
    /// Number of bytes that this end receives on TCP before the peer's failover record.
    pub base: u64,
    /// Number of bytes after the peer's failover record that the program already has. 0 until the record has
    /// arrived.
    pub skip: u32,
    /// Number of bytes after the peer's failover record that repeat bytes of the VI. 0 until the record has
    /// arrived.
    pub bytes: u32,
}
