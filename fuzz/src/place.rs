//! Offsets of the words in a segment that a peer could write, for one VI.

use crate::hand::Change;
use crate::input::Input;
use sovia_ring::Segment;
use sovia_ring::layout::{Direction, Header, OVERFLOW_BUFFER, SEGMENT};
use sovia_ring::pool::POOL;
use sovia_ring::ring::{SLOTS, Slot};

/// Bytes of a direction's pool and overflow buffer.
pub const BULK: usize = OVERFLOW_BUFFER + POOL as usize;

/// Offsets of a VI's parts.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    /// The entry in the table of requests.
    pub request: usize,
    /// The control blocks, by the side that writes in the direction.
    pub directions: [usize; 2],
    /// The rings, likewise.
    pub rings: [usize; 2],
    /// The pools, likewise; an overflow buffer follows each.
    pub bulks: [usize; 2],
}

/// Returns the address of a segment's mapping.
pub fn base(segment: &Segment) -> usize {
    core::ptr::from_ref(segment.side(0)).addr() & !0xfff
}

impl Places {
    /// Those of a VI.
    pub fn of(segment: &Segment, vi: u32) -> Places {
        let offset = |at: usize| at - base(segment);
        let bulks = SEGMENT - 2 * sovia_ring::layout::VIS as usize * BULK;
        let rings = [0, 1].map(|from| offset(segment.slots(vi, from).as_ptr().addr()));
        let first = offset(segment.slots(0, 0).as_ptr().addr());
        Places {
            request: offset(core::ptr::from_ref(segment.request(vi)).addr()),
            directions: [0, 1]
                .map(|from| offset(core::ptr::from_ref(segment.direction(vi, from)).addr())),
            rings,
            bulks: rings
                .map(|ring| bulks + (ring - first) / (size_of::<Slot>() * SLOTS as usize) * BULK),
        }
    }

    /// One of the words that matter.
    pub fn choose(&self, input: &mut Input<'_>) -> usize {
        let side = input.below(2);
        match input.below(8) {
            0..=3 => self.directions[side] + 8 * input.below(size_of::<Direction>() / 8),
            4 => self.rings[side] + size_of::<Slot>() * input.below(SLOTS as usize),
            5 => self.rings[side] + 8 * input.below(size_of::<Slot>() * SLOTS as usize / 8),
            6 => self.request + 8 * input.below(16),
            _ => 8 * input.below(size_of::<Header>() / 8),
        }
    }
}

/// A change that is likely to hurt.
pub fn change(input: &mut Input<'_>) -> Change {
    match input.below(10) {
        0 => Change::Set(input.u64()),
        1 => Change::Set(0),
        2 => Change::Set(u64::MAX),
        3 => Change::Set(u64::from(input.u8())),
        4 => Change::Add(u64::from(input.u8()).wrapping_sub(64)),
        5 => Change::Add(1 << input.below(64)),
        6 => Change::Xor(1 << input.below(64)),
        7 => Change::Low(input.u64() as u32),
        8 => Change::High(input.u64() as u32),
        _ => Change::High(u32::from(input.u8()) << 24 | u32::from(input.u16())),
    }
}
