//! Rooms: the memory that the NIC receives into and sends from.
//!
//! A room begins with a header: kind, number and session of the message, then the tag and the data of its head.

use crate::shm::{Head, Load, MESSAGE_MAX};
use emp_eth::Piece;
use std::sync::Arc;

/// Length of a header in bytes.
pub(super) const HEADER: usize = 32;
/// Length of a room in bytes.
const ROOM: usize = (HEADER + MESSAGE_MAX).next_multiple_of(64);

/// Position of a message in its sender's sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// The sender's session.
    pub(super) session: u32,
    /// Number of messages that the sender sent before in this session.
    pub(super) number: u32,
}

/// The rooms of a station.
#[derive(Debug)]
pub(super) struct Rooms {
    base: *mut u8,
    count: usize,
}

// SAFETY: the memory belongs to no thread. Only the holder of a `Room` accesses that room.
unsafe impl Send for Rooms {}
// SAFETY: the memory belongs to no thread. Only the holder of a `Room` accesses that room.
unsafe impl Sync for Rooms {}

/// The right to use a room.
#[derive(Debug)]
pub(crate) struct Room(u16);

/// A message in a room that the NIC no longer uses.
#[derive(Debug)]
pub(crate) struct Held {
    rooms: Arc<Rooms>,
    room: Room,
    len: usize,
}

impl Rooms {
    /// Returns `count` rooms, and the right to use each of them.
    pub(super) fn new(count: u16) -> (Arc<Rooms>, Vec<Room>) {
        let bytes = vec![0; usize::from(count) * ROOM].into_boxed_slice();
        let base = Box::into_raw(bytes).cast();
        let rooms = Rooms { base, count: count.into() };
        (Arc::new(rooms), (0..count).map(Room).collect())
    }

    fn at(&self, room: &Room) -> *mut u8 {
        // SAFETY: `new` makes as many rooms as `Room` values, so the number is in bounds.
        unsafe { self.base.add(usize::from(room.0) * ROOM) }
    }

    /// Returns a piece that covers all of a room, for a receive.
    pub(super) fn whole(&self, room: &Room) -> Piece {
        Piece { address: self.at(room).expose_provenance() as u64, length: ROOM }
    }

    /// Writes a message into a room, and returns the piece to send.
    pub(super) fn fill(&self, room: &mut Room, head: Head, mark: Mark, load: Load<'_>) -> Piece {
        let at = self.at(room);
        let mut header = [0; HEADER];
        header[0] = head.kind;
        header[4..8].copy_from_slice(&mark.session.to_le_bytes());
        header[8..12].copy_from_slice(&mark.number.to_le_bytes());
        header[16..24].copy_from_slice(&head.tag.to_le_bytes());
        header[24..].copy_from_slice(&head.data.to_le_bytes());
        let before = HEADER + 8 * load.words.len();
        let length = HEADER + load.len();
        assert!(length <= ROOM, "a message longer than a room");
        // SAFETY: this call has the only access to the room, and the assertion above checks the length.
        unsafe {
            at.copy_from_nonoverlapping(header.as_ptr(), HEADER);
            at.add(HEADER).copy_from_nonoverlapping(load.words.as_ptr().cast(), before - HEADER);
            if let Some((buffer, from, len)) = load.buffer {
                buffer.read_to(from, at.add(before), len);
            }
        }
        Piece { address: at.expose_provenance() as u64, length }
    }
}

impl Drop for Rooms {
    fn drop(&mut self) {
        let bytes = core::ptr::slice_from_raw_parts_mut(self.base, self.count * ROOM);
        // SAFETY: `new` made the pointer from a box of this length. The station is dropped before, so the NIC no longer
        // uses the memory.
        drop(unsafe { Box::from_raw(bytes) });
    }
}

impl Held {
    /// Wraps a received message of `len` bytes with its header. Returns the room if `len` is too small or too large.
    pub(super) fn new(rooms: &Arc<Rooms>, room: Room, len: usize) -> Result<Held, Room> {
        match (HEADER..=ROOM).contains(&len) {
            true => Ok(Held { rooms: rooms.clone(), room, len }),
            false => Err(room),
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the holder of the room may read the room. `len` is at most the room's length, and no code
        // writes to the room meanwhile.
        unsafe { core::slice::from_raw_parts(self.rooms.at(&self.room), self.len) }
    }

    /// Returns the head of the message.
    pub(crate) fn head(&self) -> Head {
        let bytes = self.bytes();
        let word = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let len = (self.len - HEADER) as u32;
        Head { kind: bytes[0], len, tag: word(16), data: word(24) }
    }

    pub(super) fn mark(&self) -> Mark {
        let bytes = self.bytes();
        let word = |at: usize| bytes[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        Mark { session: word(4), number: word(8) }
    }

    /// Returns the bytes after the header.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes()[HEADER..]
    }

    /// Returns the room for another use.
    pub(super) fn into_room(self) -> Room {
        self.room
    }

    /// Copies the message, so that its room can be used again.
    pub(super) fn copy(&self) -> Copied {
        Copied { mark: self.mark(), head: self.head(), bytes: self.body().into() }
    }
}

/// A message that arrived before an earlier message of the same sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(super) mark: Mark,
    pub(crate) head: Head,
    pub(crate) bytes: Box<[u8]>,
}
