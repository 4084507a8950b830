//! The calling thread's words, in one place, so that a lock finds all of them by one look-up.
//!
//! The words lie in the initial-exec part of thread-local storage, at a constant distance from the thread
//! pointer. So a look-up takes two instructions and no call. A look-up allocates nothing in a new thread, and a
//! signal handler may make one.

use crate::shim::AtomicUsize;
use core::cell::Cell;

/// Words of one thread. A signal handler of the same thread may read them between any two instructions.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct State {
    /// The thread's owner word for locks in this process's memory; 0 before the first lock.
    pub(crate) local: Cell<u32>,
    /// The thread's owner word for locks in memory that processes share; 0 before the first lock.
    pub(crate) family: Cell<u32>,
    /// Number of critical sections that the thread is in.
    pub(crate) depth: Cell<u32>,
    /// Not 0 if the thread must call the function of `critical_section::on_leave` when it leaves its last section.
    pub(crate) pending: Cell<u32>,
    /// The thread's id; 0 before the first use.
    pub(crate) tid: Cell<i32>,
    /// Number of nested children that run on the thread's memory (vfork).
    pub(crate) lent: Cell<u32>,
    /// Not 0 while the thread takes an entry of a table.
    pub(crate) registering: Cell<u32>,
    /// Number of consecutive refusals ([`crate::thread::count_refusal`]).
    pub(crate) refusals: Cell<u32>,
    /// Bits of the thread's hazard words that are taken ([`crate::hazard`]).
    pub(crate) noted: Cell<u32>,
    /// Bits of the ranks of the locks that the thread holds, in a debug build ([`crate::rank`]).
    pub(crate) ranks: Cell<u32>,
    /// The word of the thread's entry in this process's memory that names the lock held by bias
    /// ([`crate::biased`]). Null before the thread has an entry.
    pub(crate) local_inside: Cell<*const AtomicUsize>,
    /// Like `local_inside`, for the entry in memory that processes share.
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

/// Returns the calling thread's words, which are all zero in a new thread. The reference never leaves the thread,
/// because `State` is not `Sync`. So the words outlive the reference.
#[cfg(all(not(loom), not(miri), target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn here() -> &'static State {
    let state: *const State;
    // SAFETY: the instructions only read the thread pointer and the linker's constant for the symbol above.
    // Neither changes while the thread runs.
    unsafe {
        core::arch::asm!(
            "mov {state}, qword ptr fs:[0]",
            "add {state}, qword ptr [rip + sovia_thread_state@GOTTPOFF]",
            state = out(reg) state,
            options(pure, nomem, nostack),
        );
    }
    // SAFETY: these 64 aligned bytes belong to the calling thread, and all-zero bytes are a valid State.
    unsafe { &*state }
}

/// Returns the calling thread's words, which are all zero in a new thread. The reference never leaves the thread,
/// because `State` is not `Sync`. So the words outlive the reference.
#[cfg(all(not(loom), not(miri), target_arch = "aarch64"))]
#[inline(always)]
pub(crate) fn here() -> &'static State {
    let state: *const State;
    // SAFETY: the instructions only read the thread pointer and the linker's constant for the symbol above.
    // Neither changes while the thread runs.
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
    // SAFETY: these 64 aligned bytes belong to the calling thread, and all-zero bytes are a valid State.
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

    /// Returns the calling thread's words, which are all zero in a new thread.
    pub(crate) fn here() -> &'static State {
        // SAFETY: `State` has no destructor, so the thread-local value stays valid until the thread has ended.
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
