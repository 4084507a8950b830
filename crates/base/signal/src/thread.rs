//! Signal data of the calling thread.
//!
//! The data lies at a fixed distance from the thread pointer (the initial-exec model). So an access takes two
//! loads, and neither allocates nor calls the loader. A signal handler may make it anywhere.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use libc::siginfo_t;

/// Signal data of one thread. Only this thread accesses the fields, in its own code and in handlers that
/// interrupt this code.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct State {
    /// The signal mask to restore at the end of the section in which a signal was deferred.
    pub(crate) mask: AtomicU64,
    /// Number of the program's handlers that have begun on this thread.
    pub(crate) handlers: AtomicU32,
    /// Number of those handlers that were installed without SA_RESTART, and are not counted in `kept_out`.
    pub(crate) interruptions: AtomicU32,
    /// Address of the outermost handler's context, with a mark if it lies on the alternate stack; 0 outside of
    /// handlers.
    pub(crate) handler_stack: AtomicUsize,
    /// Lowest address of the alternate stack, while handlers run there. The length follows; 0 if no handler runs
    /// there.
    pub(crate) alternate: AtomicUsize,
    pub(crate) alternate_len: AtomicUsize,
    /// The handler that has switched to another context by `swapcontext` and has not ended since; 0 for none.
    pub(crate) away: AtomicUsize,
    /// Memory faults (SIGSEGV and SIGBUS) that the program believes to be blocked on this thread.
    pub(crate) believed: AtomicU32,
    /// Number of `handlers` whose signals were blocked by the mask of the call in progress.
    pub(crate) kept_out: AtomicU32,
    /// The first 64 signals in the mask of the call in progress; 0 if the call has no mask.
    pub(crate) blocked_by_call: AtomicU64,
    /// Details of a deferred signal for which the kernel had no room.
    pub(crate) details: Details,
}

const _: () = assert!(size_of::<State>() == 192);

/// Details of one signal, while the kernel has no room for them.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Details(UnsafeCell<siginfo_t>);

impl Details {
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    const fn none() -> Details {
        // SAFETY: all-zero bytes are a valid `siginfo_t`.
        Details(UnsafeCell::new(unsafe { core::mem::zeroed() }))
    }

    /// Keeps a copy of the details. The calling thread has all signals blocked.
    pub(crate) fn keep(&self, info: &siginfo_t) {
        // SAFETY: only this thread accesses the details, and no handler interrupts this write.
        unsafe { self.0.get().write(*info) };
    }

    /// Returns the kept details, once, if they belong to this signal.
    pub(crate) fn take(&self, signal: i32) -> Option<siginfo_t> {
        let kept = self.0.get();
        // SAFETY: only this thread accesses the details. A `siginfo_t` is plain data, for which all bytes are
        // valid.
        unsafe {
            if (*kept).si_signo != signal {
                return None;
            }
            let info = kept.read();
            (*kept).si_signo = 0;
            Some(info)
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
core::arch::global_asm!(
    ".pushsection .tbss.sovia_thread,\"awT\",@nobits",
    ".p2align 6",
    ".globl sovia_thread",
    ".hidden sovia_thread",
    ".type sovia_thread, @object",
    ".size sovia_thread, 192",
    "sovia_thread:",
    ".zero 192",
    ".popsection",
);

/// Returns the calling thread's data.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub fn state() -> &'static State {
    let at: *const State;
    // SAFETY: the instructions compute the address of the calling thread's zeroed block. The block has the size
    // and alignment of a `State` and lives as long as the thread.
    unsafe {
        core::arch::asm!(
            "mov {at}, qword ptr fs:[0]",
            "add {at}, qword ptr [rip + sovia_thread@GOTTPOFF]",
            at = out(reg) at,
            options(pure, nomem, nostack),
        );
        &*at
    }
}

/// Returns the calling thread's data.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
pub fn state() -> &'static State {
    thread_local! {
        static STATE: State = const {
            State {
                mask: AtomicU64::new(0),
                handlers: AtomicU32::new(0),
                interruptions: AtomicU32::new(0),
                handler_stack: AtomicUsize::new(0),
                alternate: AtomicUsize::new(0),
                alternate_len: AtomicUsize::new(0),
                away: AtomicUsize::new(0),
                believed: AtomicU32::new(0),
                kept_out: AtomicU32::new(0),
                blocked_by_call: AtomicU64::new(0),
                details: Details::none(),
            }
        };
    }
    // SAFETY: `State` has no destructor, so the value lives as long as the thread. Callers use the reference only
    // in calls of this thread.
    STATE.with(|state| unsafe { &*core::ptr::from_ref(state) })
}
