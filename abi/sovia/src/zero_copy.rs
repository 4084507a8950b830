//! Lent buffers: [`sovia_sockets::loan`] for C, which has only pointers.
//!
//! A table of fixed size holds all buffers that are lent out. A program's pointer is looked up in the table and never
//! dereferenced. A slot's state says which thread may use the loan in the slot.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use libc::{c_int, c_void, size_t, ssize_t};
use sovia_calls::boundary::{finish, is_bad};
use sovia_sockets::loan::Loan;
use sovia_sockets::native;
use std::sync::OnceLock;

/// Largest number of buffers that a process can have on loan at a time. There are twice as many slots, so that a search
/// finds a free slot nearby.
const MOST: usize = 4096;
const SLOTS: usize = 2 * MOST;
/// Number of slots that a search checks first, beginning at the home slot of the loan's pointer.
const WINDOW: usize = 64;

/// Number of slots in use or reserved.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// Set once a loan had to be put outside its window. From then on a search checks all slots.
static SPILT: AtomicBool = AtomicBool::new(false);
/// Slot for the next loan that can be in any slot.
static NEXT: AtomicUsize = AtomicUsize::new(0);

const FREE: u32 = 0;
/// State of a slot whose loan a thread is using.
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

// SAFETY: only the thread that has changed the state to BUSY touches the loan.
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

/// Returns the slot where the search for a loan with this pointer begins.
fn home(pointer: usize) -> usize {
    let slots = slots();
    // A small loan has no memory of its own. Its bytes, and so its pointer, are in its slot.
    let offset = pointer.wrapping_sub(slots.as_ptr() as usize);
    if offset < size_of_val(slots) {
        return offset / size_of::<Slot>();
    }
    (pointer >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - SLOTS.ilog2())
}

fn from(first: usize, count: usize) -> impl Iterator<Item = &'static Slot> {
    (first..first + count).map(move |i| &slots()[i % SLOTS])
}

/// Reservation of room for one more loan. Dropping the reservation frees the room. A kept loan holds the room until its
/// slot is free again.
struct Room;

impl Room {
    fn reserve() -> Result<Room, c_int> {
        let room = Room;
        if TAKEN.fetch_add(1, Ordering::AcqRel) < MOST { Ok(room) } else { Err(libc::ENOBUFS) }
    }

    /// Stores a loan in the table, and returns the address of its bytes.
    fn keep(self, loan: Loan) -> *mut c_void {
        let first = match loan.is_small() {
            true => NEXT.fetch_add(1, Ordering::Relaxed),
            false => home(loan.memory() as usize),
        };
        let near = from(first, WINDOW).find(|slot| slot.take());
        let slot = near.unwrap_or_else(|| {
            SPILT.fetch_or(!loan.is_small(), Ordering::AcqRel);
            // This loop ends, because at least half of all slots are free.
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

/// A loan that this thread has locked against other threads.
struct Held(&'static Slot);

impl Held {
    /// Locks the loan with this pointer. Returns `None` if this process has no such loan.
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
            // Another loan may have taken the slot since the first check.
            if slot.pointer.load(Ordering::Acquire) == pointer && native::is_ours_here(held.loan())
            {
                return Some(held);
            }
            held.leave();
            None
        })
    }

    fn loan(&mut self) -> &mut Loan {
        // SAFETY: the thread that has changed the state to BUSY has exclusive access to the loan.
        unsafe { &mut *self.0.loan.get() }
    }

    /// Unlocks the loan, which stays on loan.
    fn leave(self) {
        self.0.state.store(OUT, Ordering::Release);
    }

    /// Frees the slot after the loan has been returned.
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
    // Reserves the room first: bytes must not be received if no slot can hold them.
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
    // SAFETY: the C caller passes a `buffer` to which a pointer can be written.
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

/// Returns 1 if the buffer is in shared memory, so that no byte needs to be copied, and 0 if not. Returns -1 if the
/// buffer is not on loan.
#[unsafe(no_mangle)]
pub extern "C" fn sov_in_place(buffer: *const c_void) -> c_int {
    let Some(mut held) = Held::of(buffer) else { return finish(Err(libc::EINVAL)) as c_int };
    let in_place = held.loan().is_in_place();
    held.leave();
    c_int::from(in_place)
}
