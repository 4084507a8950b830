//! What this end keeps for itself of what it has written and seen on the VI.
//!
//! [`crate::stream`] writes it and goes by it; it lies here because it is a part of the connection.

use crate::members::Member;
use sovia_proto::failover::Tail;

/// Private copies of words in the segment, and counts that both ends must agree on.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Own {
    /// `word::GRANT`.
    pub grant: u64,
    /// `word::SWITCH`, as it was when this end switched.
    pub switch: u64,
    /// `word::FROM`.
    pub from: u64,
    /// `word::ASKED`.
    pub asked: u64,
    /// `word::AFTER`.
    pub after: u64,
    /// `word::START`.
    pub start: u64,
    /// `word::LEDGER`.
    pub ledger: u64,
    /// Bytes of the area from its beginning that may be used, beyond those that are for nothing.
    pub area: u32,
    /// The window, which the peer knows.
    pub window: u16,
    /// Bytes that may be unread; `u32::MAX` where nothing but memory bounds them.
    pub bound: u32,
    /// The program's ready lists that watch the connection ([`crate::stream`]).
    pub watchers: u32,
    /// Ready lists have been notified of the kernel socket's end, or of the reset that followed it.
    pub is_end_reported: bool,
    /// A thread has died while counting the bytes.
    pub uncounted: bool,
}

/// Where a connection stood when it was last looked at.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Seen {
    /// When that was (nanoseconds of the monotonic clock).
    pub(crate) at: u64,
    pub(crate) place: Place,
    /// The waiting threads have been notified of what there was at this place.
    pub(crate) told: bool,
}

/// How far both directions had come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Place {
    /// What the peer had gathered, its switch, and whether a message of its was there.
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
    /// The ready list by which the peer notifies it, plus one; 0: there is none.
    pub(crate) ready_list: u32,
    /// Its process.
    pub(crate) process: Member,
    /// How far the peer had gathered, its switch, and the number after the last held packet, when the
    /// program was last notified.
    pub(crate) told: (u64, u64, u32),
}

impl Handler {
    /// The ready list by which the peer notifies it, if there is one.
    pub(crate) fn ready_list(&self) -> Option<u32> {
        self.ready_list.checked_sub(1)
    }
}

/// A connection whose NIC has died, on its way to TCP ([`sovia_proto::failover`]).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Failover {
    /// It is one.
    pub is_on: bool,
    /// This end puts a record on TCP.
    pub sends: bool,
    /// A record is to come, or bytes behind it that the program has had.
    pub awaits: bool,
    /// There need be no record: the program's bytes may come in its place.
    pub or_not: bool,
    /// TCP's end proves nothing, and is an error.
    pub doubts: bool,
    /// The direction in which this end receives has been on TCP all the time.
    pub is_plain: bool,
    /// What this end puts on TCP behind its record.
    pub tail: Tail,
    /// What had been read of TCP before the record.
    pub base: u64,
    /// How many of the bytes behind it the program has had, once it has come.
    pub skip: u32,
    /// How many bytes behind it come off the VI.
    pub bytes: u32,
}
