//! Sleeping system calls, and the program's handlers that interrupt them.
//!
//! When a handler runs, the kernel makes a sleeping system call fail with `EINTR`. The kernel restarts the call
//! if the handler was installed with `SA_RESTART` and no data has moved yet. A call of Sovia takes several steps:
//! it checks, spins, and finally sleeps in a system call. A handler that runs before the sleep must also
//! interrupt the call. So Sovia counts handlers, and makes the system call only if no handler has begun since a
//! [`Moment`].
//!
//! No handler is missed between the check of the count and the system call. A handler that interrupts the thread
//! there makes the thread continue after the system call, as if the system call had been interrupted. A handler
//! after which the kernel would restart the system call does the same, because Sovia's caller decides what to
//! restart.
//!
//! ppoll and similar calls replace the signal mask before they check for events (ppoll(2)). To the kernel, a
//! handler of a signal that such a mask blocks has run before the call. So the handler does not interrupt the
//! call.

use crate::thread::{State, state};
use core::sync::atomic::{AtomicU32, Ordering};
use libc::{sigset_t, ucontext_t};
use sovia_sys::call::{Errno, Prepared, Result};

/// The calling thread's handler counts at the beginning of a call.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Signals that the call's mask blocks.
    blocked: u64,
    handlers: u32,
    kept_out: u32,
    interruptions: u32,
}

impl Moment {
    /// Returns the present moment, at which a call without a signal mask begins.
    #[inline]
    pub fn now() -> Moment {
        Moment::under(None)
    }

    /// Like [`Moment::now`], for a call with this signal mask. A call in a handler has its own mask, so
    /// [`Moment::make`] sets the mask again.
    #[inline]
    pub fn under(mask: Option<&sigset_t>) -> Moment {
        // SAFETY: a `sigset_t` begins with the mask of the first 64 signals.
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

    /// Returns true if a handler has interrupted this thread since this moment. Handlers that the call's mask
    /// blocks do not count.
    pub fn is_interrupted(&self) -> bool {
        Moment::current().handlers != self.expected()
    }

    /// Returns true if a handler without `SA_RESTART` has interrupted this thread since this moment.
    pub fn is_not_to_restart(&self) -> bool {
        Moment::current().interruptions != self.interruptions
    }

    /// Returns the count of handlers that is expected if no handler has interrupted the call.
    fn expected(&self) -> u32 {
        let kept_out = Moment::current().kept_out.wrapping_sub(self.kept_out);
        self.handlers.wrapping_add(kept_out)
    }

    /// Makes a system call, unless a handler has interrupted this thread since this moment.
    ///
    /// # Errors
    /// `EINTR` if a handler interrupts the thread before or during the call; otherwise the errors of the call.
    pub fn make(&self, call: Prepared) -> Result<usize> {
        let (number, arguments) = call.parts();
        loop {
            // Set the mask again, because a handler's own call may have replaced it. Set it twice: a handler may run
            // between the first store and the read of `since`. A handler that runs after `since` is read makes
            // `code::make` return EINTR without a system call, and the loop tries again.
            state().blocked_by_call.store(self.blocked, Ordering::Relaxed);
            let since = self.expected();
            state().blocked_by_call.store(self.blocked, Ordering::Relaxed);
            let handlers = state().handlers.as_ptr();
            let call = Call { number, arguments, handlers, since: since as usize };
            // SAFETY: a [`Prepared`] call has valid arguments while its function runs. `handlers` points to the
            // calling thread's own count.
            let result = unsafe { code::make(&call) };
            if result == -libc::EINTR as isize && !self.is_interrupted() && self.expected() != since
            {
                // A handler that the call's mask blocks has prevented the system call, so try again.
                continue;
            }
            return usize::try_from(result).map_err(|_| Errno::new(-result as i32));
        }
    }
}

/// Argument of `sovia_interruptible`, which reads the fields at fixed offsets.
#[derive(Debug)]
#[repr(C)]
struct Call {
    number: usize,
    arguments: [usize; 6],
    handlers: *const u32,
    since: usize,
}

/// Counts a handler of the program that begins. `signal`: the bit of its signal in a mask.
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

/// Moves a thread past its system call after a handler of the program has returned. Applies if the thread was
/// about to make the call, or if the kernel would restart the call.
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

    /// Type of an instruction's address in a context.
    pub(super) type Place = i64;

    /// Returns the address at which the thread continues.
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

    /// Type of an instruction's address in a context.
    pub(super) type Place = u64;

    /// Returns the address at which the thread continues.
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
        // SAFETY: by contract the system call has valid arguments. A thread that is cancelled in the call unwinds
        // through this frame, which has no cleanup.
        unsafe { sovia_interruptible(call) }
    }

    pub(super) fn land(context: &mut ucontext_t) {
        let at = machine::instruction(context);
        let place = |label: *const [u8; 0]| label as usize as machine::Place;
        // The range includes the call's own instruction, to which the kernel returns when it restarts the call.
        let between =
            place(&raw const sovia_interruptible_look)..=place(&raw const sovia_interruptible_call);
        if between.contains(at) {
            *at = place(&raw const sovia_interruptible_landing);
        }
    }
}

/// For processors without this code: a handler that runs just before the system call does not interrupt it.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod code {
    use super::Call;
    use core::sync::atomic::{Ordering, compiler_fence};
    use libc::ucontext_t;

    pub(super) unsafe fn make(call: &Call) -> isize {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `handlers` points to the calling thread's own count.
        if unsafe { call.handlers.read_volatile() } as usize != call.since {
            return -libc::EINTR as isize;
        }
        let [a, b, c, d, e, f] = call.arguments;
        let number = syscalls::Sysno::from(call.number as i32);
        // SAFETY: by contract the system call has valid arguments.
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
        // SAFETY: all-zero bytes are a valid sigset_t, and `mask` is live.
        unsafe {
            let mut mask: sigset_t = core::mem::zeroed();
            libc::sigaddset(&raw mut mask, signal);
            mask
        }
    }

    /// Sleeps until the word changes, but no thread changes it.
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
    fn handler_before_the_call_interrupts_the_call() {
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

    /// Executes the check and the call step by step, with a handler at each step. The thread never sleeps.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test is no part of the engine")]
    #[cfg(target_arch = "x86_64")]
    fn handler_between_the_check_and_the_call_interrupts_the_call() {
        extern "C" fn step(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
            // SAFETY: the kernel passes this context to the handler, and it is valid until the handler returns.
            let context = unsafe { &mut *context.cast::<ucontext_t>() };
            let flags = &mut context.uc_mcontext.gregs[libc::REG_EFL as usize];
            *flags |= 0x100;
            let before = context.uc_mcontext.gregs[libc::REG_RIP as usize];
            land(context);
            if before != context.uc_mcontext.gregs[libc::REG_RIP as usize] {
                // The thread is at the landing, so end the single steps.
                context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !0x100;
            }
        }
        // SAFETY: the handler writes only to its own context, and only this test raises the signal.
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
