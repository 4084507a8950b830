//! Executes the peer's RDMAs at their target; see [`super::rdma`].

use crate::card::Card;
use crate::link::Attachment;
use crate::link::LAST;
use crate::vi::inner::Core;
use crate::vi::rdma::{MAY_READ, MAY_WRITE, STEP, WINDOW};
use crate::words;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering, fence};
use sovia_ring::layout::Direction;
use sovia_signal::access;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use via::error::{Cause, ErrorCode};
use via::memory::{Ptag, Region};
use via::{AsyncError, Control, Reliability, Status, ViAttributes};

/// Number of looks for more staged bytes before the target stops waiting; a few microseconds.
const PATIENCE: u32 = 2000;

/// State of the peer's RDMAs that access this process's memory.
#[derive(Debug, Default)]
pub(crate) struct Target {
    serving: Mutex<Serving>,
    /// Set by a thread that found `serving` locked when it wanted to execute an RDMA. The lock's holder may have
    /// looked for RDMAs before, so it looks once more after it has released the lock.
    again: AtomicBool,
}

#[derive(Debug, Default)]
struct Serving {
    connection: Option<(Arc<Attachment>, Rights)>,
    /// Number of the last finished RDMA.
    finished: u32,
    active: Option<Box<Active>>,
}

/// An RDMA that the target is executing.
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

/// Rights that a VI grants to its peer while it is connected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rights {
    pub(crate) ptag: Ptag,
    pub(crate) attributes: ViAttributes,
}

impl Target {
    fn serving(&self) -> MutexGuard<'_, Serving> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks `serving`. Returns `None` if another thread holds the lock; that thread then looks for RDMAs once
    /// more.
    fn try_serving(&self) -> Option<MutexGuard<'_, Serving>> {
        // SYNC: an exchange, not a store, so that this thread reads the value that another thread has set. It then
        // synchronizes with that thread, and sees the RDMA for which that thread set `again`.
        self.again.swap(true, Ordering::SeqCst);
        // SYNC: pairs with the fence in `is_wanted`: either this thread finds the lock free, or the lock's holder
        // sees that `again` is set.
        fence(Ordering::SeqCst);
        let serving = match self.serving.try_lock() {
            Ok(serving) => serving,
            Err(TryLockError::WouldBlock) => return None,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        // SYNC: an exchange, so that this thread reads the value of the last thread that found the lock taken. It
        // then sees the RDMA for which that thread set `again`.
        self.again.swap(false, Ordering::SeqCst);
        Some(serving)
    }

    /// Returns true if another thread has found `serving` locked. Call it after releasing the lock.
    fn is_wanted(&self) -> bool {
        fence(Ordering::SeqCst);
        self.again.load(Ordering::Relaxed)
    }

    /// Resets the state for a new connection, or (with `None`) at the end of a connection.
    pub(crate) fn attach(&self, connection: Option<(Arc<Attachment>, Rights)>) {
        *self.serving() = Serving { connection, ..Serving::default() };
    }

    /// Waits until no thread uses a region that it looked up before this call. Returns true if another thread has
    /// found `serving` locked meanwhile. In this case the caller must call [`Core::serve`].
    pub(crate) fn quiesce(&self) -> bool {
        drop(self.serving());
        self.is_wanted()
    }
}

impl Core {
    /// Executes the peer's staged RDMA, if there is one.
    #[inline]
    pub(crate) fn serve_if_staged(&self) {
        // Do not hold the receive queue's lock in `serve`: a thread must take the lock of `serving` before the
        // queue's lock.
        if self.has_staged() {
            self.serve();
        }
    }

    /// Returns true if the peer has staged an RDMA that is not finished.
    #[inline]
    pub(crate) fn has_staged(&self) -> bool {
        self.recv.lock().lane().is_some_and(|lane| is_staged(lane.direction()))
    }

    /// Executes the RDMAs that the peer has staged.
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
                ServeOutcome::Idle => return,
                ServeOutcome::Moved => waited = 0,
                ServeOutcome::Waiting if waited < PATIENCE && !attachment.link.is_dead() => {
                    waited += 1;
                    core::hint::spin_loop();
                }
                ServeOutcome::Waiting => return,
                ServeOutcome::Refused(number, reading) => {
                    let what = &attachment.back().writer.0[words::W_WHAT];
                    let has_message = what.load(Ordering::Relaxed) >> 33 & 1 != 0;
                    let broken = self.refuse(&attachment, reading, has_message);
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

    /// Reports an RDMA that is not allowed to this process's program. Breaks the connection if it is reliable, and
    /// then returns true. Call it before the peer learns of the refusal. So the program sees this error, and not an
    /// error that the peer's reaction causes.
    #[cold]
    fn refuse(&self, attachment: &Attachment, reading: bool, has_message: bool) -> bool {
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
            // The program has disconnected the VI.
            return false;
        }
        recv.refuse_write(&self.nic, has_message, Cause::Rdma(code));
        self.mark_broken(Cause::Rdma(code));
        true
    }
}

/// Returns true if the peer has staged an RDMA that is not finished.
#[inline]
pub(crate) fn is_staged(direction: &Direction) -> bool {
    let staged = direction.writer.0[words::W_RDMA].load(Ordering::Relaxed) as u32;
    let finished = direction.reader.0[words::R_FINISHED].load(Ordering::Relaxed) as u32;
    staged != finished
}

enum ServeOutcome {
    /// No RDMA is staged.
    Idle,
    Moved,
    /// The target waits for the initiator to move bytes.
    Waiting,
    /// The RDMA with this number is not allowed. The flag is true for a read.
    Refused(u32, bool),
}

impl Serving {
    fn step(&mut self, nic: &Card, attachment: &Attachment, rights: &Rights) -> ServeOutcome {
        let direction = attachment.back();
        let number = direction.writer.load(words::W_RDMA) as u32;
        if self.active.as_ref().is_none_or(|active| active.number != number) {
            self.active = None;
            if number == self.finished {
                return ServeOutcome::Idle;
            }
            match look_up(nic, attachment, direction, number, rights) {
                Ok(active) => self.active = Some(Box::new(active)),
                Err(reading) => return ServeOutcome::Refused(number, reading),
            }
        }
        let Some(active) = &mut self.active else { return ServeOutcome::Idle };
        if !active.region.is_live() {
            return ServeOutcome::Refused(number, active.reading);
        }
        let theirs = direction.writer.load(words::W_POSITION);
        let theirs = theirs.wrapping_sub(active.base);
        if theirs > active.len {
            return ServeOutcome::Refused(number, active.reading);
        }
        if active.moved == active.len {
            self.finish(attachment, number, Status::empty());
            return ServeOutcome::Moved;
        }
        let ready = if active.reading {
            let ahead = active.moved.saturating_sub(theirs);
            WINDOW.saturating_sub(ahead).min(active.len - active.moved)
        } else {
            theirs.saturating_sub(active.moved)
        };
        if ready == 0 {
            return ServeOutcome::Waiting;
        }
        let place = active.base.wrapping_add(active.moved);
        let len = ready.min(STEP - place % STEP);
        let overflow_buffer = attachment.overflow_buffer(attachment.side ^ 1, place % WINDOW);
        let at = active.address.wrapping_add(active.moved);
        let Some(memory) = active.region.memory().range(at, len as u32) else {
            return ServeOutcome::Refused(number, active.reading);
        };
        copy(active.reading, memory, overflow_buffer, len as usize);
        active.moved += len;
        let position = active.base.wrapping_add(active.moved);
        let all = active.moved == active.len;
        // SYNC: this Release store pairs with the initiator's Acquire load, so an initiator that sees the position
        // also sees the bytes.
        direction.reader.store(words::R_POSITION, position);
        if all {
            self.finish(attachment, number, Status::empty());
        } else {
            attachment.notify_writer();
        }
        ServeOutcome::Moved
    }

    fn finish(&mut self, attachment: &Attachment, number: u32, status: Status) {
        self.active = None;
        self.finished = number;
        let value = u64::from(number) | u64::from(status.bits()) << 32;
        attachment.back().reader.store(words::R_FINISHED, value);
        attachment.notify_writer();
    }
}

/// Checks a staged RDMA and starts it. If it is not allowed, returns `Err(true)` for a read and `Err(false)` for a
/// write.
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
    // Load the count of changes before the lookup. If the region changes after the lookup, the initiator finds that
    // the count differs.
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
    // A relaxed store is enough. Until the initiator sees it, the initiator treats the older position as `base`.
    words.0[words::R_POSITION].store(base, Ordering::Relaxed);
    Ok(Active { number, reading, region, address, base, len, moved: 0 })
}

/// Copies between the overflow buffer and the program's memory: into the buffer for a read, out of the buffer for a
/// write. Stores the last [`LAST`] bytes after all others. A program may poll the last bytes to see if all bytes
/// have arrived.
fn copy(reading: bool, memory: NonNull<u8>, overflow_buffer: NonNull<u8>, len: usize) {
    let (from, to) = if reading { (memory, overflow_buffer) } else { (overflow_buffer, memory) };
    let last = len.saturating_sub(LAST);
    // SAFETY: a step lies within the window, and so within the overflow buffer. `range` has checked the program's
    // memory. The region is live, and `quiesce` waits for this thread before the region is freed. The ranges do not
    // overlap: only one is in a segment. The program may use the bytes during the copy, as it has allowed its peer
    // to access them.
    unsafe {
        access::copy_valid(to.as_ptr(), from.as_ptr(), last);
        // SYNC: a thread that sees the last bytes also sees all earlier bytes.
        fence(Ordering::Release);
        let (from, to) = (from.add(last), to.add(last));
        access::copy_valid(to.as_ptr(), from.as_ptr(), len - last);
    }
}
