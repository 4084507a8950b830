//! System calls that sleep, and the handlers of the program that interrupt them.
//!
//! The kernel has a call that sleeps fail with `EINTR` when a handler runs, or makes it anew if the handler
//! was installed with `SA_RESTART` and nothing has been moved yet. A call of Sovia's is more than one system
//! call: it looks, spins, and sleeps in the end. A handler that runs before the sleep must count as well. So
//! handlers are counted, and the system call is made only if none has begun since a [`Moment`]. Between the
//! look at the count and the system call nothing can slip in: a handler that interrupts the thread there
//! has it go on behind the system call, as if that had been interrupted. So does one after which the kernel
//! would make the system call anew: the caller decides what is made anew.
//!
//! ppoll and its relatives replace the signal mask before they look (ppoll(2)). A handler of a signal that such a mask blocks has run
//! before the call, in the kernel's eyes, and does not interrupt it.

use crate::thread::{State, state};
use core::sync::atomic::{AtomicU32, Ordering};
use libc::{sigset_t, ucontext_t};
use sovia_sys::call::{Errno, Prepared, Result};

/// A moment of the calling thread.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Signals that the mask of the call blocks.
    blocked: u64,
    handlers: u32,
    kept_out: u32,
    interruptions: u32,
}

impl Moment {
    /// This one, at which a call begins.
    #[inline]
    pub fn now() -> Moment {
        Moment::under(None)
    }

    /// Likewise, of a call with that signal mask. A call in a handler has another one, and [`Moment::make`] sets it again.
    #[inline]
    pub fn under(mask: Option<&sigset_t>) -> Moment {
        // SAFETY: a signal mask begins with its first 64 signals.
        let blocked =
            mask.map_or(0, |mask| unsafe { core::ptr::from_ref(mask).cast::<u64>().read() });
        state().blocked_by_call.store(blocked, Ordering::Relaxed);
        Moment { blocked, ..Moment::current() }
    }

    #[inline]
    fn current() -> Moment {
        let state = state();
        Moment {
            blocked: 0,
            handlers: state.handlers.load(Ordering::Relaxed),
            kept_out: state.kept_out.load(Ordering::Relaxed),
            interruptions: state.interruptions.load(Ordering::Relaxed),
        }
    }

    /// Whether a handler has begun on this thread since then.
    pub fn is_interrupted(&self) -> bool {
        Moment::current().handlers != self.expected()
    }

    /// Whether one has that was installed without `SA_RESTART`.
    pub fn is_not_to_restart(&self) -> bool {
        Moment::current().interruptions != self.interruptions
    }

    /// The count of handlers if none has interrupted.
    fn expected(&self) -> u32 {
        let kept_out = Moment::current().kept_out.wrapping_sub(self.kept_out);
        self.handlers.wrapping_add(kept_out)
    }

    /// Makes a system call, unless a handler has begun since then.
    ///
    /// # Errors
    /// `EINTR` if one has, or does during the call; otherwise the kernel's.
    pub fn make(&self, call: Prepared) -> Result<usize> {
        let (number, arguments) = call.parts();
        loop {
            // A handler that comes after this and has a call of its own has this go on behind the system call.
            state().blocked_by_call.store(self.blocked, Ordering::Relaxed);
            let since = self.expected();
            let handlers = state().handlers.as_ptr();
            let call = Call { number, arguments, handlers, since: since as usize };
            // SAFETY: the system call may be made: that is what a prepared one is. The count is the calling
            // thread's own.
            let result = unsafe { code::make(&call) };
            if result == -libc::EINTR as isize && !self.is_interrupted() && self.expected() != since
            {
                // Such a handler had it go on behind the call.
                continue;
            }
            return usize::try_from(result).map_err(|_| Errno::new(-result as i32));
        }
    }
}

/// What `sovia_interruptible` is given.
#[derive(Debug)]
#[repr(C)]
struct Call {
    number: usize,
    arguments: [usize; 6],
    handlers: *const u32,
    since: usize,
}

/// A handler of the program begins, for the signal with that bit of a mask.
pub(crate) fn count(state: &State, signal: u64, restarts: bool) {
    let one_more = |count: &AtomicU32| {
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    };
    one_more(&state.handlers);
    if state.blocked_by_call.load(Ordering::Relaxed) & signal != 0 {
        one_more(&state.kept_out);
    } else if !restarts {
        one_more(&state.interruptions);
    }
}

/// A handler of the program has returned: a thread that was about to make a system call, or was in one
/// that the kernel would make anew, goes on behind it.
pub(crate) fn land(context: &mut ucontext_t) {
    code::land(context);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod machine {
    use libc::ucontext_t;

    core::arch::global_asm!(
        ".pushsection .text.sovia_interruptible,\"ax\",@progbits",
        ".hidden sovia_interruptible, sovia_interruptible_look, sovia_interruptible_call",
        ".hidden sovia_interruptible_landing",
        ".globl sovia_interruptible, sovia_interruptible_look, sovia_interruptible_call",
        ".globl sovia_interruptible_landing",
        ".type sovia_interruptible, @function",
        ".p2align 4",
        "sovia_interruptible:",
        ".cfi_startproc",
        "mov rax, [rdi]",
        "mov rsi, [rdi + 16]",
        "mov rdx, [rdi + 24]",
        "mov r10, [rdi + 32]",
        "mov r8, [rdi + 40]",
        "mov r9, [rdi + 48]",
        "mov rcx, [rdi + 56]",
        "mov r11, [rdi + 64]",
        "mov rdi, [rdi + 8]",
        "sovia_interruptible_look:",
        "cmp dword ptr [rcx], r11d",
        "jne sovia_interruptible_landing",
        "sovia_interruptible_call:",
        "syscall",
        "ret",
        "sovia_interruptible_landing:",
        "mov rax, -4",
        "ret",
        ".cfi_endproc",
        ".size sovia_interruptible, . - sovia_interruptible",
        ".popsection",
    );

    /// Where a place in the code is kept.
    pub(super) type Place = i64;

    /// The instruction that the thread goes on at.
    pub(super) fn instruction(context: &mut ucontext_t) -> &mut Place {
        &mut context.uc_mcontext.gregs[libc::REG_RIP as usize]
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod machine {
    use libc::ucontext_t;

    core::arch::global_asm!(
        ".pushsection .text.sovia_interruptible,\"ax\",@progbits",
        ".hidden sovia_interruptible",
        ".hidden sovia_interruptible_look",
        ".hidden sovia_interruptible_call",
        ".hidden sovia_interruptible_landing",
        ".globl sovia_interruptible",
        ".globl sovia_interruptible_look",
        ".globl sovia_interruptible_call",
        ".globl sovia_interruptible_landing",
        ".type sovia_interruptible, @function",
        ".p2align 4",
        "sovia_interruptible:",
        ".cfi_startproc",
        "ldp x8, x9, [x0]",
        "ldp x1, x2, [x0, #16]",
        "ldp x3, x4, [x0, #32]",
        "ldp x5, x6, [x0, #48]",
        "ldr x7, [x0, #64]",
        "mov x0, x9",
        "sovia_interruptible_look:",
        "ldr w9, [x6]",
        "cmp w9, w7",
        "b.ne sovia_interruptible_landing",
        "sovia_interruptible_call:",
        "svc #0",
        "ret",
        "sovia_interruptible_landing:",
        "mov x0, #-4",
        "ret",
        ".cfi_endproc",
        ".size sovia_interruptible, . - sovia_interruptible",
        ".popsection",
    );

    /// Where a place in the code is kept.
    pub(super) type Place = u64;

    /// The instruction that the thread goes on at.
    pub(super) fn instruction(context: &mut ucontext_t) -> &mut Place {
        &mut context.uc_mcontext.pc
    }
}

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod code {
    use super::{Call, machine};
    use libc::ucontext_t;

    unsafe extern "C" {
        fn sovia_interruptible(call: *const Call) -> isize;

        static sovia_interruptible_look: [u8; 0];
        static sovia_interruptible_call: [u8; 0];
        static sovia_interruptible_landing: [u8; 0];
    }

    pub(super) unsafe fn make(call: &Call) -> isize {
        // SAFETY: the caller's; a thread that is cancelled in the system call unwinds through here, past no cleanup.
        unsafe { sovia_interruptible(call) }
    }

    pub(super) fn land(context: &mut ucontext_t) {
        let at = machine::instruction(context);
        let place = |label: *const [u8; 0]| label as usize as machine::Place;
        // The kernel has the instruction before the system call's end made anew: that is the call's.
        let between =
            place(&raw const sovia_interruptible_look)..=place(&raw const sovia_interruptible_call);
        if between.contains(at) {
            *at = place(&raw const sovia_interruptible_landing);
        }
    }
}

/// Where there is no such code, a handler that comes just before the system call does not interrupt it.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod code {
    use super::Call;
    use core::sync::atomic::{Ordering, compiler_fence};
    use libc::ucontext_t;

    pub(super) unsafe fn make(call: &Call) -> isize {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the count is the calling thread's own.
        if unsafe { call.handlers.read_volatile() } as usize != call.since {
            return -libc::EINTR as isize;
        }
        let [a, b, c, d, e, f] = call.arguments;
        let number = syscalls::Sysno::from(call.number as i32);
        // SAFETY: the caller's.
        match unsafe { syscalls::syscall!(number, a, b, c, d, e, f) } {
            Ok(result) => result as isize,
            Err(errno) => -errno.into_raw() as isize,
        }
    }

    pub(super) fn land(_: &mut ucontext_t) {}
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use sovia_sys::futex;

    fn bit(signal: i32) -> u64 {
        1 << (signal - 1)
    }

    fn mask_of(signal: i32) -> sigset_t {
        // SAFETY: plain data.
        unsafe {
            let mut mask: sigset_t = core::mem::zeroed();
            libc::sigaddset(&raw mut mask, signal);
            mask
        }
    }

    /// Sleeps until the word changes, which it does not.
    fn sleep(since: &Moment) -> Result<()> {
        futex::wait_by(|call| since.make(call), &AtomicU32::new(7), 7, None)
    }

    #[test]
    fn a_call_is_made_if_no_handler_has_begun() {
        let wait = |expected, ns| {
            let word = AtomicU32::new(7);
            futex::wait_by(|call| Moment::now().make(call), &word, expected, Some(ns))
        };
        assert_eq!(wait(8, 1), Err(Errno::EAGAIN));
        assert_eq!(wait(7, 1), Err(Errno::ETIMEDOUT));
    }

    #[test]
    fn a_handler_before_the_call_interrupts_it() {
        let since = Moment::now();
        assert!(!since.is_interrupted());
        count(state(), bit(libc::SIGUSR1), true);
        assert!(since.is_interrupted() && !since.is_not_to_restart());
        assert_eq!(sleep(&since), Err(Errno::EINTR));
        count(state(), bit(libc::SIGUSR1), false);
        assert!(since.is_not_to_restart());
    }

    #[test]
    fn a_handler_kept_out_by_the_calls_mask_does_not_interrupt_the_call() {
        let since = Moment::under(Some(&mask_of(libc::SIGUSR1)));
        count(state(), bit(libc::SIGUSR1), false);
        assert!(!since.is_interrupted() && !since.is_not_to_restart());
        let word = AtomicU32::new(7);
        assert_eq!(
            futex::wait_by(|call| since.make(call), &word, 7, Some(1)),
            Err(Errno::ETIMEDOUT)
        );
        count(state(), bit(libc::SIGUSR2), true);
        assert!(since.is_interrupted());
        assert_eq!(sleep(&since), Err(Errno::EINTR));
        let since = Moment::now();
        count(state(), bit(libc::SIGUSR1), true);
        assert!(since.is_interrupted(), "the mask outlives its call");
    }

    #[test]
    fn a_call_within_a_handler_leaves_the_interrupted_one_its_mask() {
        let outer = Moment::under(Some(&mask_of(libc::SIGUSR1)));
        count(state(), bit(libc::SIGUSR1), true);
        let _inner = Moment::under(Some(&mask_of(libc::SIGUSR2)));
        let word = AtomicU32::new(7);
        let wait = || futex::wait_by(|call| outer.make(call), &word, 7, Some(1));
        assert_eq!(wait(), Err(Errno::ETIMEDOUT));
        count(state(), bit(libc::SIGUSR1), true);
        assert_eq!(wait(), Err(Errno::ETIMEDOUT));
        count(state(), bit(libc::SIGUSR2), true);
        assert_eq!(wait(), Err(Errno::EINTR));
    }

    /// Single steps through the look and the call, with a handler at each: the thread never sleeps.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test is no part of the engine")]
    #[cfg(target_arch = "x86_64")]
    fn a_handler_between_the_look_and_the_call_interrupts_it() {
        extern "C" fn step(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
            // SAFETY: the kernel's own context of this signal.
            let context = unsafe { &mut *context.cast::<ucontext_t>() };
            let flags = &mut context.uc_mcontext.gregs[libc::REG_EFL as usize];
            *flags |= 0x100;
            let before = context.uc_mcontext.gregs[libc::REG_RIP as usize];
            land(context);
            if before != context.uc_mcontext.gregs[libc::REG_RIP as usize] {
                // It has landed: no more steps.
                context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !0x100;
            }
        }
        // SAFETY: a handler that only writes to its own context, for a signal that this test alone raises.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = step as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, core::ptr::null_mut()), 0);
            let since = Moment::now();
            libc::raise(libc::SIGTRAP);
            assert_eq!(sleep(&since), Err(Errno::EINTR));
        }
    }
}
