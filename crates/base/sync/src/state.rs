//! The calling thread's words, in one place: a lock finds all it needs by one look-up.
//!
//! The words lie in the initial-exec part of thread-local storage: the linker puts them at a constant
//! distance from the thread pointer, so a look-up is two instructions without a call, allocates
//! nothing in a new thread, and may be made in a signal handler.

use crate::shim::AtomicUsize;
use core::cell::Cell;

/// One thread's words. A signal handler of the same thread may find each of them between any two
/// instructions.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct State {
    /// The word by which it owns locks in memory of this process; 0 before the first.
    pub(crate) local: Cell<u32>,
    /// The word by which it owns locks in memory that processes share.
    pub(crate) family: Cell<u32>,
    /// How many sections it is inside of.
    pub(crate) depth: Cell<u32>,
    /// Something is to be done when it has left the last of them.
    pub(crate) pending: Cell<u32>,
    /// Its id; 0 before it was asked for.
    pub(crate) tid: Cell<i32>,
    /// How many children that have borrowed its memory (vfork) run on it, one inside the other.
    pub(crate) lent: Cell<u32>,
    /// It is entering a record into the table.
    pub(crate) registering: Cell<u32>,
    /// How often in a row it was refused what it is in the middle of.
    pub(crate) refusals: Cell<u32>,
    /// Which of its words for what it uses are taken, a bit for each ([`crate::hazard`]).
    pub(crate) noted: Cell<u32>,
    /// The ranks of the locks that it holds, a bit for each, in a debug build ([`crate::rank`]).
    pub(crate) ranks: Cell<u32>,
    /// The word in which its record in this process's memory says which lock it has taken as the one that
    /// the lock favours ([`crate::biased`]); null before there is a record.
    pub(crate) local_inside: Cell<*const AtomicUsize>,
    /// The same in memory that processes share.
    pub(crate) family_inside: Cell<*const AtomicUsize>,
}

#[cfg(all(not(loom), not(miri), target_arch = "x86_64"))]
core::arch::global_asm!(
    ".pushsection .tbss.sovia_thread_state,\"awT\",@nobits",
    ".globl sovia_thread_state",
    ".hidden sovia_thread_state",
    ".type sovia_thread_state, @object",
    ".balign 64",
    "sovia_thread_state:",
    ".zero 64",
    ".size sovia_thread_state, 64",
    ".popsection",
);

#[cfg(all(not(loom), not(miri), target_arch = "aarch64"))]
core::arch::global_asm!(
    ".pushsection .tbss.sovia_thread_state,\"awT\",%nobits",
    ".globl sovia_thread_state",
    ".hidden sovia_thread_state",
    ".type sovia_thread_state, %object",
    ".balign 64",
    "sovia_thread_state:",
    ".zero 64",
    ".size sovia_thread_state, 64",
    ".popsection",
);

const _: () = assert!(size_of::<State>() == 64);

/// The calling thread's words. All zero in a new thread. The reference stays with the thread, as a `State` may be touched
/// by no other, and so do the words.
#[cfg(all(not(loom), not(miri), target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn here() -> &'static State {
    let state: *const State;
    // SAFETY: reads the thread pointer and the linker's constant for the symbol above, which no
    // instruction of the thread ever changes.
    unsafe {
        core::arch::asm!(
            "mov {state}, qword ptr fs:[0]",
            "add {state}, qword ptr [rip + sovia_thread_state@GOTTPOFF]",
            state = out(reg) state,
            options(pure, nomem, nostack),
        );
    }
    // SAFETY: 64 bytes of the calling thread's own, aligned; all-zero bytes are a valid State.
    unsafe { &*state }
}

/// The calling thread's words. All zero in a new thread. The reference stays with the thread, as a `State` may be touched
/// by no other, and so do the words.
#[cfg(all(not(loom), not(miri), target_arch = "aarch64"))]
#[inline(always)]
pub(crate) fn here() -> &'static State {
    let state: *const State;
    // SAFETY: reads the thread pointer and the linker's constant for the symbol above, which no
    // instruction of the thread ever changes.
    unsafe {
        core::arch::asm!(
            "mrs {state}, tpidr_el0",
            "adrp {offset}, :gottprel:sovia_thread_state",
            "ldr {offset}, [{offset}, :gottprel_lo12:sovia_thread_state]",
            "add {state}, {state}, {offset}",
            state = out(reg) state,
            offset = out(reg) _,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    // SAFETY: 64 bytes of the calling thread's own, aligned; all-zero bytes are a valid State.
    unsafe { &*state }
}

#[cfg(any(loom, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod fallback {
    use super::State;
    use core::cell::Cell;

    const NEW: State = State {
        local: Cell::new(0),
        family: Cell::new(0),
        depth: Cell::new(0),
        pending: Cell::new(0),
        tid: Cell::new(0),
        lent: Cell::new(0),
        registering: Cell::new(0),
        refusals: Cell::new(0),
        noted: Cell::new(0),
        ranks: Cell::new(0),
        local_inside: Cell::new(core::ptr::null()),
        family_inside: Cell::new(core::ptr::null()),
    };

    #[cfg(not(loom))]
    thread_local! {
        static STATE: State = const { NEW };
    }
    #[cfg(loom)]
    loom::thread_local! {
        static STATE: State = NEW;
    }

    /// The calling thread's words. All zero in a new thread.
    pub(crate) fn here() -> &'static State {
        // SAFETY: what has no destructor lies there until the thread has ended.
        STATE.with(|state| unsafe { &*core::ptr::from_ref(state) })
    }
}

#[cfg(any(loom, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(crate) use fallback::here;

/// Calls `f` with the calling thread's words.
#[inline(always)]
pub(crate) fn current<R>(f: impl FnOnce(&State) -> R) -> R {
    f(here())
}
