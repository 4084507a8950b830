//! Buffers that are lent: [`sovia_sockets::loan`] for C, which has pointers only.
//!
//! What is out is kept in a table of fixed size, found by its pointer: whatever a program passes, it is
//! looked up and never followed. A slot's state says who may touch the loan in it.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use libc::{c_int, c_void, size_t, ssize_t};
use sovia_calls::boundary::{finish, is_bad};
use sovia_sockets::loan::Loan;
use sovia_sockets::native;
use std::sync::OnceLock;

/// Buffers that can be out at a time, in one process.
const SLOTS: usize = 4096;
/// Slots in which a loan may be, from its pointer's own on.
const WINDOW: usize = 64;

const FREE: u32 = 0;
/// Somebody is at work on the loan.
const BUSY: u32 = 1;
const OUT: u32 = 2;

struct Slot {
    state: AtomicU32,
    pointer: AtomicUsize,
    loan: UnsafeCell<Loan>,
}

// SAFETY: the loan is touched by the one only who has made the state BUSY.
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

/// The slots that a pointer's loan may be in.
fn window(pointer: usize) -> impl Iterator<Item = &'static Slot> {
    let slots = slots();
    // A loan without memory of its own is in its slot, and so is its pointer.
    let offset = pointer.wrapping_sub(slots.as_ptr() as usize);
    let first = if offset < size_of_val(slots) {
        offset / size_of::<Slot>()
    } else {
        (pointer >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - 12)
    };
    (first..first + WINDOW).map(move |i| &slots[i % SLOTS])
}

/// A loan that nobody else can touch meanwhile.
struct Held(&'static Slot);

impl Held {
    /// The loan that has this pointer.
    fn of(pointer: *const c_void) -> Option<Held> {
        let pointer = pointer as usize;
        window(pointer).find_map(|slot| {
            if slot.pointer.load(Ordering::Acquire) != pointer {
                return None;
            }
            let mine = slot.state.compare_exchange(OUT, BUSY, Ordering::AcqRel, Ordering::Relaxed);
            mine.ok()?;
            let held = Held(slot);
            // It may have come to be another's since the look.
            if slot.pointer.load(Ordering::Acquire) == pointer {
                return Some(held);
            }
            held.leave(OUT);
            None
        })
    }

    fn loan(&mut self) -> &mut Loan {
        // SAFETY: whoever has made the state BUSY is alone with the loan.
        unsafe { &mut *self.0.loan.get() }
    }

    fn leave(&self, state: u32) {
        self.0.state.store(state, Ordering::Release);
    }
}

/// Keeps a loan, and says where its bytes are; gives it back if there is no slot.
fn keep(mut loan: Loan) -> Result<*mut c_void, c_int> {
    let hint = if loan.memory().is_null() { 0 } else { loan.memory() as usize };
    let free = window(hint).find(|slot| {
        slot.state.compare_exchange(FREE, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    let Some(slot) = free else {
        native::give_back_here(&mut loan);
        return Err(libc::ENOBUFS);
    };
    let mut held = Held(slot);
    *held.loan() = loan;
    let memory = held.loan().memory();
    slot.pointer.store(memory as usize, Ordering::Release);
    held.leave(OUT);
    Ok(memory.cast())
}

#[unsafe(no_mangle)]
pub extern "C" fn sov_lend(fd: c_int, len: size_t) -> *mut c_void {
    match native::lend_here(fd, len).and_then(keep) {
        Ok(memory) => memory,
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
    let spent = held.loan().is_spent();
    held.leave(if spent { FREE } else { OUT });
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
    let borrowed = native::borrow_here(fd, flags).and_then(|mut loan| {
        let n = loan.len();
        if n == 0 {
            native::give_back_here(&mut loan);
            return Ok((core::ptr::null_mut(), 0));
        }
        Ok((keep(loan)?, n))
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
    held.leave(FREE);
    0
}

/// Whether a buffer lies where nothing needs to be copied: 1, 0, or -1 if it is not out.
#[unsafe(no_mangle)]
pub extern "C" fn sov_in_place(buffer: *const c_void) -> c_int {
    let Some(mut held) = Held::of(buffer) else { return finish(Err(libc::EINVAL)) as c_int };
    let in_place = held.loan().is_in_place();
    held.leave(OUT);
    c_int::from(in_place)
}
