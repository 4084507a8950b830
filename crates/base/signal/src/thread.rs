//! What belongs to the calling thread.
//!
//! It lies at a fixed distance from the thread pointer (the initial-exec model), so reading it neither
//! allocates nor calls the loader: a signal handler may do it anywhere, and it costs two loads.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use libc::siginfo_t;

/// A thread's part in signals. All fields are read and written by their own thread only: by its code
/// and by handlers that interrupt that code.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct State {
    /// The signal mask to put back when the section ends that a signal was put off in.
    pub(crate) mask: AtomicU64,
    /// Handlers of the program that have begun on this thread.
    pub(crate) handlers: AtomicU32,
    /// Those among them that were installed without SA_RESTART.
    pub(crate) interruptions: AtomicU32,
    /// Where the stack was when the outermost handler began; 0 outside.
    pub(crate) handler_stack: AtomicUsize,
    /// The alternate stack on which handlers run, if they do: its lowest address and its length.
    pub(crate) alternate: AtomicUsize,
    pub(crate) alternate_len: AtomicUsize,
    /// The handler that `swapcontext` has gone on from elsewhere, and that has not ended since; 0: none.
    pub(crate) away: AtomicUsize,
    /// SIGSEGV and SIGBUS as far as the program believes that this thread blocks them.
    pub(crate) believed: AtomicU32,
    /// Of `handlers`, those whose signals the mask of the call in progress blocks.
    pub(crate) kept_out: AtomicU32,
    /// Bits of the first 64 signals in that mask; 0: the call has none.
    pub(crate) blocked_by_call: AtomicU64,
    /// Those of the signal that was put off last.
    pub(crate) details: Details,
}

const _: () = assert!(size_of::<State>() == 192);

/// Details of a signal, while the kernel has no room for them.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Details(UnsafeCell<siginfo_t>);

impl Details {
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    const fn none() -> Details {
        // SAFETY: all zeros are a `siginfo_t`.
        Details(UnsafeCell::new(unsafe { core::mem::zeroed() }))
    }

    /// Keeps a copy. For a thread that has all signals blocked.
    pub(crate) fn keep(&self, info: &siginfo_t) {
        // SAFETY: the thread's own, and no handler interrupts this.
        unsafe { self.0.get().write(*info) };
    }

    /// Returns the details that are kept, once, if they are of that signal. No handler that interrupts this changes those.
    pub(crate) fn take(&self, signal: i32) -> Option<siginfo_t> {
        let kept = self.0.get();
        // SAFETY: the thread's own. What is kept is of a signal that is blocked in its own handler.
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

/// The calling thread's state.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub fn state() -> &'static State {
    let at: *const State;
    // SAFETY: computes the address of the calling thread's zeroed block, which is as large and as
    // aligned as a `State` and lives as long as the thread.
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

/// The calling thread's state.
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
    // SAFETY: the state lives as long as the thread, and references to it do not leave the thread's
    // own calls.
    STATE.with(|state| unsafe { &*core::ptr::from_ref(state) })
}
