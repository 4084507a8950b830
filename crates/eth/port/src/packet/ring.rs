//! The ring into which the kernel puts frames: `TPACKET_V2`, one frame per slot.
//!
//! The first word of each slot names its owner, the kernel or this process. The kernel passes a slot to this process by
//! a Release store, and this process returns the slot by a Release store. This code checks lengths and offsets against
//! the slot, so memory safety does not depend on the kernel's values.

use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sys::call::{self, RawFd};
use sovia_sys::{Mapping, Result};

/// Bytes of a block, the unit in which the kernel allocates memory.
const BLOCK: usize = 256 << 10;
/// Bytes before a frame's Ethernet header and payload: the slot's header, an address, and padding.
const OVERHEAD: usize = 80;
/// `TPACKET_ALIGNMENT`.
const ALIGN: usize = 16;

/// Offsets in a slot's header, `struct tpacket2_hdr`.
const STATUS: usize = 0;
const WIRE_LEN: usize = 4;
const LEN: usize = 8;
const FRAME_AT: usize = 12;

/// `TP_STATUS_KERNEL` and `TP_STATUS_USER`.
const KERNEL: u32 = 0;
const USER: u32 = 1;

/// `struct tpacket_req`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Geometry {
    block: u32,
    blocks: u32,
    slot: u32,
    slots: u32,
}

impl Geometry {
    /// Returns a layout with slots for payloads of `frame_max` bytes, in about `bytes` bytes of memory.
    fn of(frame_max: usize, bytes: usize) -> Geometry {
        let slot = (OVERHEAD + frame_max).next_multiple_of(ALIGN);
        let block = BLOCK.max(slot.next_power_of_two());
        let blocks = (bytes / block).max(2);
        let slots = blocks * (block / slot);
        let [block, blocks, slot, slots] = [block, blocks, slot, slots].map(|n| n as u32);
        Geometry { block, blocks, slot, slots }
    }

    /// Returns the offset of a slot. Blocks contain whole slots.
    fn offset(&self, slot: u32) -> usize {
        let in_block = self.block / self.slot;
        (slot / in_block) as usize * self.block as usize
            + (slot % in_block) as usize * self.slot as usize
    }
}

/// A frame in the ring.
#[derive(Debug)]
pub(super) enum Slot<'a> {
    Frame(&'a [u8]),
    /// The frame is longer than a slot, or does not lie in the slot.
    Malformed,
}

/// The ring of a socket.
#[derive(Debug)]
pub(super) struct Ring {
    mapping: Mapping,
    geometry: Geometry,
    next: u32,
}

impl Ring {
    /// Creates a ring of about `bytes` bytes for a packet socket that is not bound yet. Slots hold payloads of up to
    /// `frame_max` bytes.
    ///
    /// # Errors
    /// Returns `ENOMEM`, or an error if `socket` is no packet socket.
    pub(super) fn make(socket: RawFd, frame_max: usize, bytes: usize) -> Result<Ring> {
        const V2: i32 = 1;
        call::setsockopt(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &V2)?;
        let geometry = Geometry::of(frame_max, bytes);
        call::setsockopt(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &geometry)?;
        let len = geometry.block as usize * geometry.blocks as usize;
        Ok(Ring { mapping: Mapping::of_socket(socket, len, 0)?, geometry, next: 0 })
    }

    /// Lends the next frame to `take`, and returns its slot to the kernel. Returns false if no frame has arrived.
    pub(super) fn next(&mut self, take: impl FnOnce(Slot<'_>)) -> bool {
        let at = self.geometry.offset(self.next);
        // SAFETY: `next` is a slot of the ring, so the whole slot lies in the mapping.
        let slot = unsafe { self.mapping.base().add(at) };
        // SAFETY: slots are aligned to 16 bytes, and the kernel also accesses this word as a whole.
        let status = unsafe { AtomicU32::from_ptr(slot.add(STATUS).cast()) };
        if status.load(Ordering::Acquire) & USER == 0 {
            return false;
        }
        // SAFETY: the fields lie in the slot and are aligned. The kernel does not write to the slot while this process
        // owns it.
        let (wire_len, len, frame_at) = unsafe {
            (
                slot.add(WIRE_LEN).cast::<u32>().read() as usize,
                slot.add(LEN).cast::<u32>().read() as usize,
                slot.add(FRAME_AT).cast::<u16>().read() as usize,
            )
        };
        if wire_len == len && frame_at + len <= self.geometry.slot as usize {
            // SAFETY: the check above ensures that the bytes lie in the slot. The kernel does not change them while
            // this process owns the slot.
            take(Slot::Frame(unsafe { core::slice::from_raw_parts(slot.add(frame_at), len) }));
        } else {
            take(Slot::Malformed);
        }
        status.store(KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.geometry.slots;
        true
    }

    /// Returns the number of slots.
    pub(super) fn slots(&self) -> usize {
        self.geometry.slots as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_lies_in_the_ring_and_in_one_block() {
        for frame_max in [46, 1500, 9000, 65535, 300_000] {
            let geometry = Geometry::of(frame_max, 4 << 20);
            let (block, slot) = (geometry.block as usize, geometry.slot as usize);
            assert!(slot >= OVERHEAD + frame_max && slot.is_multiple_of(ALIGN));
            assert!(geometry.slots.is_multiple_of(geometry.blocks) && block.is_multiple_of(4096));
            let mut end = 0;
            for i in 0..geometry.slots {
                let at = geometry.offset(i);
                assert!(at >= end && at / block == (at + slot - 1) / block);
                end = at + slot;
            }
            assert!(end <= block * geometry.blocks as usize);
        }
    }
}
