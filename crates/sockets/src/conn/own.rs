//! Private data of this end about what it has written and seen on the VI.
//!
//! [`crate::stream`] maintains this data. The data lies here because it is a part of the connection.

use crate::members::Member;
use sovia_proto::failover::Tail;

/// Private copies of words in the segment, and counts on which both ends must agree.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Own {
    /// Copy of `word::GRANT`.
    pub grant: u64,
    /// Copy of `word::SWITCH`, from the time when this end switched.
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
    /// Number of bytes of the overflow buffer that may be used beyond the first ones, which are not counted.
    pub area: u32,
    /// This end's window, which the peer knows.
    pub window: u16,
    /// Number of bytes that may be unread; `u32::MAX` if only memory bounds them.
    pub bound: u32,
    /// Bitmap of the program's ready lists that watch the connection ([`crate::stream`]).
    pub watchers: u32,
    /// True if ready lists have been notified of the kernel socket's end, or of the reset that followed it.
    pub is_end_reported: bool,
    /// True if a thread may have died while counting bytes.
    pub uncounted: bool,
}

/// State of a connection when it was last checked.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Seen {
    /// Time of the check (nanoseconds of the monotonic clock).
    pub(crate) at: u64,
    pub(crate) place: Place,
    /// True if the waiting threads have been notified of the events at this place.
    pub(crate) told: bool,
}

/// Progress of both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Place {
    /// End of the peer's coalesced bytes, the peer's switch word, and true if a message was in the ring.
    pub(crate) arrived: (u64, u64, bool),
    pub(crate) sent: u32,
    pub(crate) received: u32,
    pub(crate) tail: u64,
    pub(crate) head: u64,
    pub(crate) consumed: u32,
    pub(crate) front: u32,
    pub(crate) flags: u32,
}

/// The thread that handles a connection's messages.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Handler {
    /// Ready list by which the peer notifies the thread, plus one; 0 if there is none.
    pub(crate) ready_list: u32,
    /// Process of the thread.
    pub(crate) process: Member,
    /// State when the program was last notified: the end of the peer's coalesced bytes, the switch word, and the number
    /// after the last held packet.
    pub(crate) told: (u64, u64, u32),
}

impl Handler {
    /// Returns the ready list by which the peer notifies the thread, if there is one.
    pub(crate) fn ready_list(&self) -> Option<u32> {
        self.ready_list.checked_sub(1)
    }
}

/// State of a failover to TCP after the death of a NIC ([`sovia_proto::failover`]).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Failover {
    /// True once the failover has begun.
    pub is_on: bool,
    /// True if this end puts a record on TCP.
    pub sends: bool,
    /// True while a record, or bytes after it that the program already has, must still come.
    pub awaits: bool,
    /// True if the program's bytes may come in place of a record.
    pub or_not: bool,
    /// True if TCP's end does not prove the end of the stream. Then TCP's end is an error.
    pub doubts: bool,
    /// True if the direction in which this end receives continues on TCP without a record.
    pub is_plain: bool,
    /// Bytes that this end puts on TCP after its record.
    pub tail: Tail,
    /// Number of bytes on TCP that come before the record.
    pub base: u64,
    /// Number of bytes after the record that the program already has. Known once the record has come.
    pub skip: u32,
    /// Number of bytes after the record that the peer had sent on the VI.
    pub bytes: u32,
}
