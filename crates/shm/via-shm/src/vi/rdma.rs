//! RDMA, as its initiator carries it out.
//!
//! Two ways lead into the peer's memory. A few pages the initiator writes or reads by itself,
//! where the system lets it ([`crate::link`]), and where it knows the region: the target
//! tells address, length and rights with the first RDMA that it carries out, and counts the changes
//! of its registered memory, so that nothing stale is used. Everything else is *staged*: it goes
//! through the direction's area, from which, or to which, the target copies at the same time. The
//! target's engine does so, or a thread of its program that waits.
//!
//! An RDMA executes when it is the oldest descriptor, and later ones wait for it. So the order is
//! the queue's, and a fence (`VIP_CONTROL_QFENCE`) has nothing left to do.

use crate::Corrupt;
use crate::link::Attachment;
use crate::link::Missed;
use crate::vi::access::Gather;
use crate::vi::lane::TxLane;
use crate::vi::send::{Gone, Obstacle, permit};
use crate::words;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, fence};
use sovia_signal::access;
use via::memory::RegionCache;
use via::queue::Outcome;
use via::{Control, Reliability, RemoteSegment, Status};

/// Bytes staged ahead of the end that consumes them; they should fit a second-level cache.
pub(super) const WINDOW: u64 = 512 << 10;
/// Bytes between two looks at, or news to, the other end.
pub(super) const STEP: u64 = 64 << 10;
const _: () = assert!(WINDOW as usize <= crate::layout::AREA && WINDOW.is_multiple_of(STEP));
/// RDMAs of up to this many bytes reach into the peer's memory by themselves (see docs/measuring).
const REACH_MAX: u32 = 8 << 10;

/// Regions of the peer's that are known at a time.
const REGIONS: usize = 4;

/// What is known of a region of the peer's.
#[derive(Debug, Clone, Copy)]
struct Region {
    handle: u32,
    address: u64,
    len: u64,
    /// The count of changes at which it was looked up.
    count: u32,
    rights: u32,
}

/// What the initiator's VI allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) level: Reliability,
    pub(super) max_transfer: u32,
    /// Reads must be allowed at both ends.
    pub(super) may_read: bool,
}

/// Remote-access rights that a region grants to the VI at the other end.
pub(super) const MAY_WRITE: u32 = 1;
pub(super) const MAY_READ: u32 = 2;

/// The state of the RDMA that is the oldest descriptor, and what is known for the next.
#[derive(Debug, Default)]
pub(crate) struct Rdma {
    stage: Stage,
    /// RDMAs staged so far on this connection; the number of the present one.
    number: u32,
    /// The stream of staged bytes: where the present one begins, how long it is, and where in it
    /// we are.
    base: u64,
    len: u64,
    moved: u64,
    /// Whether the present one is a read.
    reading: bool,
    /// The peer's regions, where there are any.
    regions: Option<Box<[Option<Region>; REGIONS]>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    /// The target carries it out.
    Staged,
    /// The data is there; the peer is to be told.
    Note,
}

impl Rdma {
    /// The descriptor at work is done with. The numbers go on: the target may still be at it.
    pub(crate) fn forget(&mut self) {
        self.stage = Stage::Idle;
    }

    /// Begins with a connection.
    pub(crate) fn reset(&mut self) {
        *self = Rdma::default();
    }

    /// Whether the descriptor at work has begun as an RDMA.
    pub(super) fn has_begun(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// Whether the target may be at the RDMA.
    pub(super) fn is_at_work(&self, lane: &TxLane) -> bool {
        self.stage == Stage::Staged && self.verdict(lane).is_none()
    }

    /// The status that the target has published for the staged RDMA; empty for success.
    pub(super) fn verdict(&self, lane: &TxLane) -> Option<Status> {
        if self.stage != Stage::Staged {
            return None;
        }
        let word = lane.direction().reader.load(words::R_FINISHED);
        if word as u32 != self.number {
            return None;
        }
        let status = Status::from_bits_truncate((word >> 32) as u32);
        // Whatever it says beside that it went wrong.
        Some(if status.is_empty() { status } else { Status::RDMA_PROT_ERROR })
    }

    /// Carries an RDMA out as far as that is possible now.
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
            // The program has changed the descriptor meanwhile.
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

    /// Hands the RDMA to the target.
    fn begin(
        &mut self,
        lane: &TxLane,
        reading: bool,
        told: bool,
        remote: RemoteSegment,
        total: u32,
    ) {
        let words = &lane.direction().writer;
        // Wherever the one before ended: no position that the target has published for it is above this.
        self.base += self.len;
        self.len = u64::from(total);
        self.moved = 0;
        self.reading = reading;
        self.number = self.number.wrapping_add(1);
        let what = u64::from(total) | u64::from(reading) << 32 | u64::from(told) << 33;
        words.0[words::W_WHAT].store(what, Ordering::Relaxed);
        words.0[words::W_ADDRESS].store(remote.address, Ordering::Relaxed);
        words.0[words::W_HANDLE].store(u64::from(remote.handle), Ordering::Relaxed);
        words.0[words::W_BASE].store(self.base, Ordering::Relaxed);
        words.0[words::W_POSITION].store(self.base, Ordering::Relaxed);
        // SYNC: the target sees the words above when it sees this one.
        words.store(words::W_RDMA, u64::from(self.number));
        self.stage = Stage::Staged;
        lane.attachment().knock();
    }

    /// Moves what can be moved. An error if that is not all.
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
            // What the target publishes before it has seen this RDMA belongs to the one before.
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

    /// Copies between our memory and the area.
    fn step(
        &self,
        attachment: &Attachment,
        gather: &Gather<'_>,
        data: &mut RegionCache,
        reading: bool,
        len: u32,
    ) -> Result<(), Obstacle> {
        let from = self.moved as u32;
        let area = attachment.area(attachment.side, (self.base + self.moved) % WINDOW);
        gather.parts(data, from, len, |part, at, len| {
            // SAFETY: a step lies within the window, and so within the area; the part is `len`
            // bytes of a segment; the one is shared memory and the other is not.
            unsafe {
                let area = area.add((at - from) as usize);
                let (source, target) = if reading { (area, part) } else { (part, area) };
                access::copy_valid(target.as_ptr(), source.as_ptr(), len as usize);
            }
            Ok(())
        })
    }

    /// Notes what the target has published of the region.
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

    /// Reaches into the peer's memory, if that is possible and pays; whether it was done.
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
            // Whatever is wrong, the target reports it.
            return Ok(false);
        }
        let reaching = &lane.direction().writer.0[words::W_REACHING];
        reaching.store(1, Ordering::SeqCst);
        // SYNC: pairs with the fence in `Link::await_reach`.
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
        // SAFETY: the part is `len` bytes of registered memory, which the program leaves alone
        // until the RDMA is done (`via::Memory`).
        reach.read(address, unsafe { core::slice::from_raw_parts_mut(at, len) })
    } else {
        // SAFETY: as above.
        reach.write(address, unsafe { core::slice::from_raw_parts(at, len) })
    };
    match moved {
        Ok(()) => Ok(()),
        Err(Missed::Gone) => Err(Obstacle::Gone),
        // Not what the target has said of it: let it see for itself.
        Err(Missed::Fault) => Err(Obstacle::NoRoom),
    }
}
