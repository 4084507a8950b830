//! RDMA at its initiator.
//!
//! An RDMA is direct or staged. In a *direct* RDMA, the initiator itself reads or writes the peer's memory. This is
//! possible for up to 8 KB, if the system allows the access ([`crate::link`]) and the initiator knows the region.
//! The target publishes a region's address, length and rights when it executes a staged RDMA for the region. The
//! target also counts the changes of its registered memory. So an initiator notices that its data about a region is
//! out of date. All other RDMAs are *staged*: both ends copy at the same time through the direction's overflow
//! buffer. At the target, the engine copies, or a thread of the program that polls or waits.
//!
//! An RDMA executes when it is the oldest descriptor, and later descriptors wait for it. So RDMAs complete in the
//! queue's order, and the flag `VIP_CONTROL_QFENCE` needs no code.

use crate::link::Attachment;
use crate::link::Missed;
use crate::vi::access::Gather;
use crate::vi::lane::TxLane;
use crate::vi::send::{Gone, Obstacle, permit};
use crate::words;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, fence};
use sovia_ring::Corrupt;
use sovia_signal::access;
use via::memory::RegionCache;
use via::queue::Outcome;
use via::{Control, Reliability, RemoteSegment, Status};

/// Maximum number of bytes that are staged and not yet consumed. This number of bytes fits into a second-level
/// cache.
pub(super) const WINDOW: u64 = 512 << 10;
/// Number of bytes after which an end publishes its position and loads the other end's position.
pub(super) const STEP: u64 = 64 << 10;
const _: () =
    assert!(WINDOW as usize <= sovia_ring::layout::OVERFLOW_BUFFER && WINDOW.is_multiple_of(STEP));
/// Maximum length of a direct RDMA, in bytes.
const REACH_MAX: u32 = 8 << 10;

/// Number of the peer's regions that an initiator remembers.
const REGIONS: usize = 4;

/// A region of the peer, as the target has published it.
#[derive(Debug, Clone, Copy)]
struct Region {
    handle: u32,
    address: u64,
    len: u64,
    /// Value of the target's count of changes when the target looked the region up.
    count: u32,
    rights: u32,
}

/// Limits that the initiator's VI sets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) level: Reliability,
    pub(super) max_transfer: u32,
    /// Set if the VI may read. Both ends must allow reads.
    pub(super) may_read: bool,
}

/// Rights that a region grants to the peer's RDMAs.
pub(super) const MAY_WRITE: u32 = 1;
pub(super) const MAY_READ: u32 = 2;

/// State of the RDMA that is the oldest descriptor, and the known regions.
#[derive(Debug, Default)]
pub(crate) struct Rdma {
    stage: Stage,
    /// Number of RDMAs staged on this connection, which is also the number of the current RDMA.
    number: u32,
    /// Position in the stream of staged bytes at which the current RDMA starts. `len` is the RDMA's length, and
    /// `moved` is the number of bytes that this end has copied.
    base: u64,
    len: u64,
    moved: u64,
    /// Set if the current RDMA is a read.
    reading: bool,
    /// The peer's regions, if any are known.
    regions: Option<Box<[Option<Region>; REGIONS]>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    /// The target executes the RDMA.
    Staged,
    /// The data has been moved. If the RDMA has immediate data, a message must still report the RDMA to the peer.
    Note,
}

impl Rdma {
    /// Forgets the current descriptor's RDMA. Keeps `number`, because the target may still be executing the RDMA.
    pub(crate) fn forget(&mut self) {
        self.stage = Stage::Idle;
    }

    /// Resets the state for a new connection.
    pub(crate) fn reset(&mut self) {
        *self = Rdma::default();
    }

    /// Returns true if the oldest descriptor has begun as an RDMA.
    pub(super) fn has_begun(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// Returns true if the target may be executing the RDMA.
    pub(super) fn is_at_work(&self, lane: &TxLane) -> bool {
        self.stage == Stage::Staged && self.verdict(lane).is_none()
    }

    /// Returns the status that the target has published for the staged RDMA: an empty status for success, or `None`
    /// if the target has not finished.
    pub(super) fn verdict(&self, lane: &TxLane) -> Option<Status> {
        if self.stage != Stage::Staged {
            return None;
        }
        let word = lane.direction().reader.load(words::R_FINISHED);
        if word as u32 != self.number {
            return None;
        }
        let status = Status::from_bits_truncate((word >> 32) as u32);
        // Any error status counts as a protection error.
        Some(if status.is_empty() { status } else { Status::RDMA_PROT_ERROR })
    }

    /// Executes an RDMA as far as possible now.
    pub(super) fn attempt(
        &mut self,
        lane: &mut TxLane,
        gather: &Gather<'_>,
        data: &mut RegionCache,
        control: Control,
        limits: Limits,
    ) -> Result<Gone, Obstacle> {
        let Limits { level, max_transfer, may_read } = limits;
        let reading = control.operation() == Control::OP_RDMAREAD;
        let immediate = control.contains(Control::IMMEDIATE).then(|| gather.descriptor.immediate());
        if reading && (immediate.is_some() || level == Reliability::UNRELIABLE) {
            return Err(Status::FORMAT_ERROR.into());
        }
        if reading && !may_read {
            return Err(Status::RDMA_PROT_ERROR.into());
        }
        let total = gather.total(data)?;
        if total > max_transfer {
            return Err(Status::LENGTH_ERROR.into());
        }
        let remote = gather.descriptor.remote().ok_or(Status::FORMAT_ERROR)?;
        if self.stage == Stage::Staged && (self.reading, self.len) != (reading, total.into()) {
            // The program has changed the posted descriptor.
            return Err(Status::FORMAT_ERROR.into());
        }
        if self.stage == Stage::Idle {
            if total == 0 || self.reach(lane, gather, data, reading, remote, total)? {
                self.stage = Stage::Note;
            } else {
                self.begin(lane, reading, immediate.is_some(), remote, total);
            }
        }
        if self.stage == Stage::Staged {
            self.drain(lane, gather, data, reading, u64::from(total))?;
            self.learn(lane, remote.handle);
            self.stage = Stage::Note;
        }
        if let Some(immediate) = immediate {
            permit(lane)?;
            lane.send_written(total, immediate);
        }
        self.stage = Stage::Idle;
        let status = if reading { Status::OP_RDMA_READ } else { Status::OP_RDMA_WRITE };
        Ok(Gone::Done(Outcome { status, length: total, immediate: None }))
    }

    /// Publishes the RDMA to the target.
    fn begin(
        &mut self,
        lane: &TxLane,
        reading: bool,
        has_message: bool,
        remote: RemoteSegment,
        total: u32,
    ) {
        let words = &lane.direction().writer;
        // Start behind all bytes of the previous RDMA, even if that RDMA ended early. Every position that the
        // target has published for the previous RDMA is then at most this base.
        self.base += self.len;
        self.len = u64::from(total);
        self.moved = 0;
        self.reading = reading;
        self.number = self.number.wrapping_add(1);
        let what = u64::from(total) | u64::from(reading) << 32 | u64::from(has_message) << 33;
        words.0[words::W_WHAT].store(what, Ordering::Relaxed);
        words.0[words::W_ADDRESS].store(remote.address, Ordering::Relaxed);
        words.0[words::W_HANDLE].store(u64::from(remote.handle), Ordering::Relaxed);
        words.0[words::W_BASE].store(self.base, Ordering::Relaxed);
        words.0[words::W_POSITION].store(self.base, Ordering::Relaxed);
        // SYNC: this Release store pairs with the target's Acquire load of `W_RDMA`, so the target sees the words
        // above.
        words.store(words::W_RDMA, u64::from(self.number));
        self.stage = Stage::Staged;
        lane.attachment().knock();
    }

    /// Copies as many bytes as possible now. Returns `NoRoom` if bytes are left, or if the target has not finished
    /// the RDMA.
    fn drain(
        &mut self,
        lane: &TxLane,
        gather: &Gather<'_>,
        data: &mut RegionCache,
        reading: bool,
        total: u64,
    ) -> Result<(), Obstacle> {
        let direction = lane.direction();
        loop {
            let finished = self.verdict(lane);
            if let Some(status) = finished
                && !status.is_empty()
            {
                return Err(Obstacle::Descriptor(status));
            }
            // Until the target has begun this RDMA, its position is that of the previous RDMA and is at most
            // `base`.
            let theirs = direction.reader.load(words::R_POSITION);
            let theirs = theirs.saturating_sub(self.base);
            if theirs > total {
                return Err(Corrupt("more bytes moved than the RDMA has").into());
            }
            if self.moved == total {
                return if finished.is_some() { Ok(()) } else { Err(Obstacle::NoRoom) };
            }
            let ready = if reading {
                theirs
                    .checked_sub(self.moved)
                    .ok_or(Corrupt("fewer bytes of an RDMA moved than before"))?
            } else {
                let ahead = self
                    .moved
                    .checked_sub(theirs)
                    .ok_or(Corrupt("more bytes of an RDMA moved than were staged"))?;
                WINDOW.saturating_sub(ahead).min(total - self.moved)
            };
            if ready == 0 {
                return Err(Obstacle::NoRoom);
            }
            let place = self.base + self.moved;
            let len = ready.min(STEP - place % STEP);
            self.step(lane.attachment(), gather, data, reading, len as u32)?;
            self.moved += len;
            let position = self.base + self.moved;
            direction.writer.store(words::W_POSITION, position);
            lane.attachment().knock();
        }
    }

    /// Copies `len` bytes between this process's registered memory and the overflow buffer.
    fn step(
        &self,
        attachment: &Attachment,
        gather: &Gather<'_>,
        data: &mut RegionCache,
        reading: bool,
        len: u32,
    ) -> Result<(), Obstacle> {
        let from = self.moved as u32;
        let overflow_buffer =
            attachment.overflow_buffer(attachment.side, (self.base + self.moved) % WINDOW);
        gather.parts(data, from, len, |part, at, len| {
            // SAFETY: a step lies within the window, and so within the overflow buffer. The part is `len` bytes of
            // registered memory, valid under the queue's lock. The ranges do not overlap: only one is in a segment.
            unsafe {
                let overflow_buffer = overflow_buffer.add((at - from) as usize);
                let (source, target) =
                    if reading { (overflow_buffer, part) } else { (part, overflow_buffer) };
                access::copy_valid(target.as_ptr(), source.as_ptr(), len as usize);
            }
            Ok(())
        })
    }

    /// Stores the address, length and rights that the target has published for the region of `handle`.
    fn learn(&mut self, lane: &TxLane, handle: u32) {
        let load = |i: usize| lane.direction().reader.0[i].load(Ordering::Relaxed);
        let state = load(words::R_REGION_STATE);
        let region = Region {
            handle,
            address: load(words::R_REGION),
            len: load(words::R_REGION_LEN),
            count: state as u32,
            rights: (state >> 32) as u32,
        };
        let regions = self.regions.get_or_insert_default();
        regions[handle as usize % REGIONS] = Some(region);
    }

    /// Executes the RDMA directly, if it is short and direct access is possible. Returns false if the RDMA must be
    /// staged.
    fn reach(
        &self,
        lane: &TxLane,
        gather: &Gather<'_>,
        data: &mut RegionCache,
        reading: bool,
        remote: RemoteSegment,
        total: u32,
    ) -> Result<bool, Obstacle> {
        let known = self.regions.as_ref().and_then(|r| r[remote.handle as usize % REGIONS]);
        let Some(region) = known.filter(|region| region.handle == remote.handle) else {
            return Ok(false);
        };
        let link = &lane.attachment().link;
        let right = if reading { MAY_READ } else { MAY_WRITE };
        let at = remote.address.wrapping_sub(region.address);
        let within = at <= region.len && u64::from(total) <= region.len - at;
        if total > REACH_MAX || region.rights & right == 0 || !within || !link.reach.is_open() {
            // Stage the RDMA. The target then checks it, and reports an error if the RDMA is not allowed.
            return Ok(false);
        }
        let reaching = &lane.direction().writer.0[words::W_REACHING];
        reaching.store(1, Ordering::SeqCst);
        // SYNC: pairs with the fence in `Link::await_reach`. Either this thread sees that the memory has changed or
        // the connection is closed, or the thread in `await_reach` sees `W_REACHING`.
        fence(Ordering::SeqCst);
        let current = link.regions_of(lane.attachment().side ^ 1) == region.count;
        let result = if current && lane.peer_closed().is_none() {
            gather.parts(data, 0, total, |part, at, len| {
                let address = remote.address.wrapping_add(u64::from(at));
                reach_part(lane.attachment(), reading, address, part, len)
            })
        } else {
            Err(Obstacle::NoRoom)
        };
        reaching.store(0, Ordering::Release);
        match result {
            Ok(()) => Ok(true),
            Err(Obstacle::NoRoom) => Ok(false),
            Err(obstacle) => Err(obstacle),
        }
    }
}

fn reach_part(
    attachment: &Attachment,
    reading: bool,
    address: u64,
    part: NonNull<u8>,
    len: u32,
) -> Result<(), Obstacle> {
    let reach = &attachment.link.reach;
    let (at, len) = (part.as_ptr(), len as usize);
    let moved = if reading {
        // SAFETY: the part is `len` bytes of registered memory. The program does not use these bytes until the RDMA
        // is done (`via::Memory`), and deregistering waits for the queue's lock.
        reach.read(address, unsafe { core::slice::from_raw_parts_mut(at, len) })
    } else {
        // SAFETY: the part is `len` bytes of registered memory. The program does not write to these bytes until the
        // RDMA is done (`via::Memory`), and deregistering waits for the queue's lock.
        reach.write(address, unsafe { core::slice::from_raw_parts(at, len) })
    };
    match moved {
        Ok(()) => Ok(()),
        Err(Missed::Gone) => Err(Obstacle::Gone),
        // The access failed although the target had published the region: stage the RDMA, so that the target checks it.
        Err(Missed::Fault) => Err(Obstacle::NoRoom),
    }
}
