//! RDMA, as its target carries it out; see [`super::rdma`].

use crate::card::Card;
use crate::layout::Direction;
use crate::link::Attachment;
use crate::link::LAST;
use crate::vi::inner::Core;
use crate::vi::rdma::{MAY_READ, MAY_WRITE, STEP, WINDOW};
use crate::words;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering, fence};
use sovia_signal::access;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use via::error::{Cause, ErrorCode};
use via::memory::{Ptag, Region};
use via::{AsyncError, Control, Reliability, Status, ViAttributes};

/// Looks for more of an RDMA before its target sleeps again; some microseconds.
const PATIENCE: u32 = 2000;

/// The peer's RDMAs into this process's memory.
#[derive(Debug, Default)]
pub(crate) struct Target {
    serving: Mutex<Serving>,
    /// A thread that was to serve has found `serving` locked. The holder may have looked already, so it looks
    /// again when it is done.
    again: AtomicBool,
}

#[derive(Debug, Default)]
struct Serving {
    connection: Option<(Arc<Attachment>, Rights)>,
    /// Number of the last RDMA that was finished.
    finished: u32,
    active: Option<Box<Active>>,
}

/// An RDMA that is being carried out.
#[derive(Debug)]
struct Active {
    number: u32,
    reading: bool,
    region: Arc<Region>,
    address: u64,
    base: u64,
    len: u64,
    moved: u64,
}

/// What a VI lets its peer do, while it is connected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rights {
    pub(crate) ptag: Ptag,
    pub(crate) attributes: ViAttributes,
}

impl Target {
    fn serving(&self) -> MutexGuard<'_, Serving> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks `serving`. If another thread holds it, that thread will serve once more.
    fn try_serving(&self) -> Option<MutexGuard<'_, Serving>> {
        // SYNC: an exchange, so that a thread which overwrites another's mark sees what that one was told.
        self.again.swap(true, Ordering::SeqCst);
        // SYNC: pairs with the fence in `is_wanted`: either the lock is seen to be free, or its
        // holder sees the mark.
        fence(Ordering::SeqCst);
        let serving = match self.serving.try_lock() {
            Ok(serving) => serving,
            Err(TryLockError::WouldBlock) => return None,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        // SYNC: reads what the last thread turned away has stored, and so sees what that thread was told of.
        self.again.swap(false, Ordering::SeqCst);
        Some(serving)
    }

    /// Whether a thread was turned away meanwhile. To be called after the lock is released.
    fn is_wanted(&self) -> bool {
        fence(Ordering::SeqCst);
        self.again.load(Ordering::Relaxed)
    }

    /// Begins with a connection, or ends with it.
    pub(crate) fn attach(&self, connection: Option<(Arc<Attachment>, Rights)>) {
        *self.serving() = Serving { connection, ..Serving::default() };
    }

    /// Waits until no thread uses a region that it found before. Returns whether there may be something
    /// to serve that no other thread will.
    pub(crate) fn quiesce(&self) -> bool {
        drop(self.serving());
        self.is_wanted()
    }
}

impl Core {
    /// Carries out what the peer has staged, if it has; a look that costs little.
    #[inline]
    pub(crate) fn serve_if_staged(&self) {
        // Not under the queue's lock, which is taken within the target's.
        if self.has_staged() {
            self.serve();
        }
    }

    /// Whether the peer has staged an RDMA that is not finished.
    #[inline]
    pub(crate) fn has_staged(&self) -> bool {
        self.recv.lock().lane().is_some_and(|lane| is_staged(lane.direction()))
    }

    /// Carries out what the peer has staged.
    pub(crate) fn serve(&self) {
        while let Some(serving) = self.target.try_serving() {
            self.serve_with(serving);
            if !self.target.is_wanted() {
                return;
            }
        }
    }

    fn serve_with(&self, mut serving: MutexGuard<'_, Serving>) {
        let Some((attachment, rights)) = serving.connection.clone() else { return };
        let mut waited = 0;
        loop {
            match serving.step(&self.nic, &attachment, &rights) {
                Step::Idle => return,
                Step::Moved => waited = 0,
                Step::Waiting if waited < PATIENCE && !attachment.link.is_dead() => {
                    waited += 1;
                    core::hint::spin_loop();
                }
                Step::Waiting => return,
                Step::Refused(number, reading) => {
                    let what = &attachment.back().writer.0[words::W_WHAT];
                    let told = what.load(Ordering::Relaxed) >> 33 & 1 != 0;
                    let broken = self.refuse(&attachment, reading, told);
                    serving.finish(&attachment, number, Status::RDMA_PROT_ERROR);
                    if broken {
                        self.break_for_refusal(&attachment);
                        return;
                    }
                    waited = 0;
                }
            }
        }
    }

    /// The peer has tried what is not allowed, and does not know it yet: so the error is this, and
    /// not what the peer does about it. Whether the connection is broken now.
    #[cold]
    fn refuse(&self, attachment: &Attachment, reading: bool, told: bool) -> bool {
        let (code, operation) = if reading {
            (ErrorCode::RdmarProt, Control::OP_RDMAREAD)
        } else {
            (ErrorCode::RdmawProt, Control::OP_RDMAWRITE)
        };
        let mut recv = self.recv.lock();
        if recv.level == Reliability::UNRELIABLE {
            drop(recv);
            let error = AsyncError::of_vi(self.context, code);
            self.nic.report(AsyncError { operation, ..error });
            return false;
        }
        if !recv.lane().is_some_and(|lane| core::ptr::eq(&**lane.attachment(), attachment)) {
            // Disconnected meanwhile.
            return false;
        }
        recv.refuse_write(&self.nic, told, Cause::Rdma(code));
        self.mark_broken(Cause::Rdma(code));
        true
    }
}

/// Whether the peer has staged an RDMA that is not finished.
#[inline]
pub(crate) fn is_staged(direction: &Direction) -> bool {
    let staged = direction.writer.0[words::W_RDMA].load(Ordering::Relaxed) as u32;
    let finished = direction.reader.0[words::R_FINISHED].load(Ordering::Relaxed) as u32;
    staged != finished
}

enum Step {
    /// Nothing is staged.
    Idle,
    Moved,
    /// The initiator is to move.
    Waiting,
    /// The RDMA of that number (a read or not) is not allowed.
    Refused(u32, bool),
}

impl Serving {
    fn step(&mut self, nic: &Card, attachment: &Attachment, rights: &Rights) -> Step {
        let direction = attachment.back();
        let number = direction.writer.load(words::W_RDMA) as u32;
        if self.active.as_ref().is_none_or(|active| active.number != number) {
            self.active = None;
            if number == self.finished {
                return Step::Idle;
            }
            match look_up(nic, attachment, direction, number, rights) {
                Ok(active) => self.active = Some(Box::new(active)),
                Err(reading) => return Step::Refused(number, reading),
            }
        }
        let Some(active) = &mut self.active else { return Step::Idle };
        if !active.region.is_live() {
            return Step::Refused(number, active.reading);
        }
        let theirs = direction.writer.load(words::W_POSITION);
        let theirs = theirs.wrapping_sub(active.base);
        if theirs > active.len {
            return Step::Refused(number, active.reading);
        }
        if active.moved == active.len {
            self.finish(attachment, number, Status::empty());
            return Step::Moved;
        }
        let ready = if active.reading {
            let ahead = active.moved.saturating_sub(theirs);
            WINDOW.saturating_sub(ahead).min(active.len - active.moved)
        } else {
            theirs.saturating_sub(active.moved)
        };
        if ready == 0 {
            return Step::Waiting;
        }
        let place = active.base.wrapping_add(active.moved);
        let len = ready.min(STEP - place % STEP);
        let area = attachment.area(attachment.side ^ 1, place % WINDOW);
        let at = active.address.wrapping_add(active.moved);
        let Some(memory) = active.region.memory().range(at, len as u32) else {
            return Step::Refused(number, active.reading);
        };
        copy(active.reading, memory, area, len as usize);
        active.moved += len;
        let position = active.base.wrapping_add(active.moved);
        let all = active.moved == active.len;
        // SYNC: the initiator sees the bytes when it sees the position.
        direction.reader.store(words::R_POSITION, position);
        if all {
            self.finish(attachment, number, Status::empty());
        } else {
            attachment.tell_room();
        }
        Step::Moved
    }

    fn finish(&mut self, attachment: &Attachment, number: u32, status: Status) {
        self.active = None;
        self.finished = number;
        let value = u64::from(number) | u64::from(status.bits()) << 32;
        attachment.back().reader.store(words::R_FINISHED, value);
        attachment.tell_room();
    }
}

/// Whether what is staged is allowed; if not, whether it was a read.
fn look_up(
    nic: &Card,
    attachment: &Attachment,
    direction: &Direction,
    number: u32,
    rights: &Rights,
) -> Result<Active, bool> {
    let load = |i: usize| direction.writer.0[i].load(Ordering::Relaxed);
    let what = load(words::W_WHAT);
    let (len, reading) = (what & 0xffff_ffff, what >> 32 & 1 != 0);
    let (address, base) = (load(words::W_ADDRESS), load(words::W_BASE));
    // Before the region is looked up: a change after that is one more.
    let count = attachment.link.regions_of(attachment.side);
    let region = nic.table.find(load(words::W_HANDLE) as u32).ok_or(reading)?;
    let of_region = region.attributes();
    let of_vi = &rights.attributes;
    let write = of_region.enable_rdma_write && of_vi.enable_rdma_write;
    let read = of_region.enable_rdma_read && of_vi.enable_rdma_read;
    let allowed = if reading { read } else { write };
    let range = region.memory().range(address, u32::try_from(len).unwrap_or(u32::MAX));
    if !allowed || region.ptag() != rights.ptag || range.is_none() {
        return Err(reading);
    }
    let words = &direction.reader;
    let state = u64::from(if write { MAY_WRITE } else { 0 } | if read { MAY_READ } else { 0 });
    let state = u64::from(count) | state << 32;
    words.0[words::R_REGION].store(region.memory().address(0), Ordering::Relaxed);
    words.0[words::R_REGION_LEN].store(region.memory().len() as u64, Ordering::Relaxed);
    words.0[words::R_REGION_STATE].store(state, Ordering::Relaxed);
    // The initiator ignores what is below its base, or was there before.
    words.0[words::R_POSITION].store(base, Ordering::Relaxed);
    Ok(Active { number, reading, region, address, base, len, moved: 0 })
}

/// Between the area and the program's memory: out of the latter, or into it. What is written ends
/// with its last bytes: a program may look at them to see whether it has the others.
fn copy(reading: bool, memory: NonNull<u8>, area: NonNull<u8>, len: usize) {
    let (from, to) = if reading { (memory, area) } else { (area, memory) };
    let last = len.saturating_sub(LAST);
    // SAFETY: a step lies within the window, and so within the area; the region's range was just
    // checked and the region is live, which `quiesce` waits for; the one is shared memory and the
    // other is not. The program may use the bytes meanwhile: that is what it allows its peer to do.
    unsafe {
        access::copy_valid(to.as_ptr(), from.as_ptr(), last);
        // SYNC: a thread that sees the last bytes sees those before them.
        fence(Ordering::Release);
        let (from, to) = (from.add(last), to.add(last));
        access::copy_valid(to.as_ptr(), from.as_ptr(), len - last);
    }
}
