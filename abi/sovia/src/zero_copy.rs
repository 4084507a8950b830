//! Buffers that are lent: [`sovia_sockets::loan`] for C, which has pointers only.
//!
//! What is out is kept in a table of fixed size, found by its pointer: whatever a program passes, it is
//! looked up and never followed. A slot's state says which thread may touch the loan in it.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use libc::{c_int, c_void, size_t, ssize_t};
use sovia_calls::boundary::{finish, is_bad};
use sovia_sockets::loan::Loan;
use sovia_sockets::native;
use std::sync::OnceLock;

/// Buffers that can be out at a time, in one process; twice as many slots, so that one is near.
const MOST: usize = 4096;
const SLOTS: usize = 2 * MOST;
/// Slots in which a loan is looked for first, from its pointer's own on.
const WINDOW: usize = 64;

/// Buffers that are out, or may be in a moment.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// A loan had to be put outside its window: from then on all slots are looked at.
static SPILT: AtomicBool = AtomicBool::new(false);
/// Where the next loan goes whose place does not matter.
static NEXT: AtomicUsize = AtomicUsize::new(0);

const FREE: u32 = 0;
/// A thread is at work on the loan.
const BUSY: u32 = 1;
const OUT: u32 = 2;

struct Slot {
    state: AtomicU32,
    pointer: AtomicUsize,
    loan: UnsafeCell<Loan>,
}

impl Slot {
    fn take(&self) -> bool {
        self.state.compare_exchange(FREE, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

// SAFETY: only the thread that has made the state BUSY touches the loan.
unsafe impl Sync for Slot {}

fn slots() -> &'static [Slot] {
    static TABLE: OnceLock<Box<[Slot]>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let slot = |_| Slot {
            state: AtomicU32::new(FREE),
            pointer: AtomicUsize::new(0),
            loan: UnsafeCell::new(Loan::default()),
        };
        (0..SLOTS).map(slot).collect()
    })
}

/// The slot from which on a loan with that pointer is put, and looked for.
fn home(pointer: usize) -> usize {
    let slots = slots();
    // A loan without memory of its own is in its slot, and so is its pointer.
    let offset = pointer.wrapping_sub(slots.as_ptr() as usize);
    if offset < size_of_val(slots) {
        return offset / size_of::<Slot>();
    }
    (pointer >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - SLOTS.ilog2())
}

fn from(first: usize, count: usize) -> impl Iterator<Item = &'static Slot> {
    (first..first + count).map(move |i| &slots()[i % SLOTS])
}

/// Room for one more loan, until dropped; a loan that is kept has it until its slot is free again.
struct Room;

impl Room {
    fn reserve() -> Result<Room, c_int> {
        let room = Room;
        if TAKEN.fetch_add(1, Ordering::AcqRel) < MOST { Ok(room) } else { Err(libc::ENOBUFS) }
    }

    /// Keeps a loan, and says where its bytes are.
    fn keep(self, loan: Loan) -> *mut c_void {
        let first = match loan.is_small() {
            true => NEXT.fetch_add(1, Ordering::Relaxed),
            false => home(loan.memory() as usize),
        };
        let near = from(first, WINDOW).find(|slot| slot.take());
        let slot = near.unwrap_or_else(|| {
            SPILT.fetch_or(!loan.is_small(), Ordering::AcqRel);
            // Half of all slots are free.
            loop {
                if let Some(slot) = from(first, SLOTS).find(|slot| slot.take()) {
                    break slot;
                }
            }
        });
        let mut held = Held(slot);
        *held.loan() = loan;
        let memory = held.loan().memory();
        slot.pointer.store(memory as usize, Ordering::Release);
        held.leave();
        core::mem::forget(self);
        memory.cast()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        TAKEN.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A loan that no other thread can touch meanwhile.
struct Held(&'static Slot);

impl Held {
    /// The loan that has this pointer, if it is this process's.
    fn of(pointer: *const c_void) -> Option<Held> {
        let pointer = pointer as usize;
        let count = if SPILT.load(Ordering::Acquire) { SLOTS } else { WINDOW };
        from(home(pointer), count).find_map(|slot| {
            if slot.pointer.load(Ordering::Acquire) != pointer {
                return None;
            }
            let mine = slot.state.compare_exchange(OUT, BUSY, Ordering::AcqRel, Ordering::Relaxed);
            mine.ok()?;
            let mut held = Held(slot);
            // It may have come to be another's since the look.
            if slot.pointer.load(Ordering::Acquire) == pointer && native::is_ours_here(held.loan())
            {
                return Some(held);
            }
            held.leave();
            None
        })
    }

    fn loan(&mut self) -> &mut Loan {
        // SAFETY: the thread that has made the state BUSY is alone with the loan.
        unsafe { &mut *self.0.loan.get() }
    }

    /// Lets go of the loan, which stays out.
    fn leave(self) {
        self.0.state.store(OUT, Ordering::Release);
    }

    /// The loan is spent, and the slot free.
    fn free(self) {
        self.0.state.store(FREE, Ordering::Release);
        drop(Room);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn sov_lend(fd: c_int, len: size_t) -> *mut c_void {
    let lent = Room::reserve().and_then(|room| Ok((room, native::lend_here(fd, len)?)));
    match lent {
        Ok((room, loan)) => room.keep(loan),
        Err(e) => {
            sovia_calls::set_errno(e);
            core::ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn sov_commit(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    let Some(mut held) = Held::of(buffer) else { return finish(Err(libc::EINVAL)) };
    let sent = native::commit_here(fd, held.loan(), len, flags);
    if held.loan().is_spent() {
        held.free();
    } else {
        held.leave();
    }
    finish(sent)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sov_borrow(
    fd: c_int,
    buffer: *mut *const c_void,
    flags: c_int,
) -> ssize_t {
    if is_bad(buffer) {
        return finish(Err(libc::EFAULT));
    }
    // Nothing is received for which there is no room.
    let borrowed = Room::reserve().and_then(|room| {
        let mut loan = native::borrow_here(fd, flags)?;
        let n = loan.len();
        if n == 0 {
            native::give_back_here(&mut loan);
            return Ok((core::ptr::null_mut(), 0));
        }
        Ok((room.keep(loan), n))
    });
    let (memory, outcome) = match borrowed {
        Ok((memory, n)) => (memory, Ok(n)),
        Err(e) => (core::ptr::null_mut(), Err(e)),
    };
    // SAFETY: the caller vouches for the place of the pointer.
    unsafe { *buffer = memory };
    finish(outcome)
}

#[unsafe(no_mangle)]
pub extern "C" fn sov_return(buffer: *const c_void) -> c_int {
    let Some(mut held) = Held::of(buffer) else { return finish(Err(libc::EINVAL)) as c_int };
    native::give_back_here(held.loan());
    held.free();
    0
}

/// Whether a buffer lies where nothing needs to be copied: 1, 0, or -1 if it is not out.
#[unsafe(no_mangle)]
pub extern "C" fn sov_in_place(buffer: *const c_void) -> c_int {
    let Some(mut held) = Held::of(buffer) else { return finish(Err(libc::EINVAL)) as c_int };
    let in_place = held.loan().is_in_place();
    held.leave();
    c_int::from(in_place)
}
