//! Tests that a program sees the same signal dispositions and masks as without Sovia.

use super::kernel::{Differences, Scratch, of_c};
use super::{by_number, start};
use crate::signals;
use core::sync::atomic::{AtomicI32, Ordering};
use libc::{c_int, sighandler_t};
use std::thread;

/// Compares the hook of `syscall` with the kernel, for calls that are refused and calls that change nothing.
#[test]
fn raw_masks_and_dispositions_are_asked_for_as_from_the_kernel() {
    start();
    let mut scratch = Scratch::new();
    let mut differences = Differences::default();
    let calls: &[super::kernel::Case] = &[
        ("the mask", |s, _| (libc::SYS_rt_sigprocmask, [0, 0, s.put(u64::MAX), 8, 0, 0])),
        ("an unknown change", |s, _| (libc::SYS_rt_sigprocmask, [99, s.put(0u64), 0, 8, 0, 0])),
        ("an unknown change of nothing", |s, _| {
            (libc::SYS_rt_sigprocmask, [99, 0, s.put(0u64), 8, 0, 0])
        }),
        ("a mask of 16 bytes", |s, _| {
            (libc::SYS_rt_sigprocmask, [0, s.put([0u64; 2]), 0, 16, 0, 0])
        }),
        ("a mask of no size", |s, _| (libc::SYS_rt_sigprocmask, [0, s.put(0u64), 0, 0, 0, 0])),
        ("signal 0", |s, _| (libc::SYS_rt_sigaction, [0, 0, s.put([0u64; 4]), 8, 0, 0])),
        ("signal 65", |s, _| (libc::SYS_rt_sigaction, [65, 0, s.put([0u64; 4]), 8, 0, 0])),
        ("signal -1", |s, _| (libc::SYS_rt_sigaction, [usize::MAX, 0, s.put([0u64; 4]), 8, 0, 0])),
        ("SIGKILL's", |s, _| (libc::SYS_rt_sigaction, [9, 0, s.put([0u64; 4]), 8, 0, 0])),
        ("a new one of SIGKILL", |s, _| {
            (libc::SYS_rt_sigaction, [9, s.put([0u64; 4]), 0, 8, 0, 0])
        }),
        ("a disposition with a mask of 16 bytes", |s, _| {
            (libc::SYS_rt_sigaction, [10, 0, s.put([0u64; 4]), 16, 0, 0])
        }),
        ("SIGWINCH's, never set", |s, _| {
            (libc::SYS_rt_sigaction, [28, 0, s.put([0u64; 4]), 8, 0, 0])
        }),
    ];
    for &case in calls {
        differences.compare(&mut scratch, case, [-1; 2], super::kernel::kernel, by_number);
    }
    differences.assert_none();
}

#[test]
fn numbers_that_are_no_signals_are_refused() {
    start();
    let none = core::ptr::null_mut();
    for signal in [0, -1, 65, c_int::MAX, c_int::MIN] {
        // SAFETY: the calls take numbers and null pointers.
        unsafe {
            let action = || signals::sigaction(signal, core::ptr::null(), none) as isize;
            assert_eq!(of_c(action), Err(libc::EINVAL), "sigaction {signal}");
            let set: [(&str, unsafe extern "C" fn(c_int, sighandler_t) -> sighandler_t); 4] = [
                ("signal", signals::signal),
                ("bsd_signal", signals::bsd_signal),
                ("sysv_signal", signals::sysv_signal),
                ("sigset", signals::sigset),
            ];
            for (name, set) in set {
                let set = || set(signal, libc::SIG_IGN) as isize;
                assert_eq!(of_c(set), Err(libc::EINVAL), "{name} {signal}");
            }
            assert_eq!(of_c(|| signals::sighold(signal) as isize), Err(libc::EINVAL));
            assert_eq!(of_c(|| signals::sigrelse(signal) as isize), Err(libc::EINVAL));
            assert_eq!(of_c(|| signals::sigignore(signal) as isize), Err(libc::EINVAL));
            assert_eq!(of_c(|| signals::siginterrupt(signal, 1) as isize), Err(libc::EINVAL));
        }
    }
}

#[test]
fn sigaction_shows_the_handler_that_was_set() {
    static CALLED: AtomicI32 = AtomicI32::new(0);
    extern "C" fn handler(signal: c_int) {
        CALLED.store(signal, Ordering::Relaxed);
    }
    start();
    let own = handler as *const () as sighandler_t;
    // SAFETY: the handler only stores a number.
    unsafe {
        assert_eq!(signals::signal(libc::SIGURG, own), libc::SIG_DFL);
        let mut shown: libc::sigaction = core::mem::zeroed();
        assert_eq!(signals::sigaction(libc::SIGURG, core::ptr::null(), &raw mut shown), 0);
        assert_eq!(shown.sa_sigaction, own);
        assert_ne!(shown.sa_flags & libc::SA_RESTART, 0);
        assert_eq!(signals::siginterrupt(libc::SIGURG, 1), 0);
        assert_eq!(signals::__sigaction(libc::SIGURG, core::ptr::null(), &raw mut shown), 0);
        assert_eq!(shown.sa_flags & libc::SA_RESTART, 0);
        assert_eq!(libc::raise(libc::SIGURG), 0);
        assert_eq!(CALLED.load(Ordering::Relaxed), libc::SIGURG);
        assert_eq!(signals::siginterrupt(libc::SIGURG, 0), 0);
        assert_eq!(signals::signal(libc::SIGURG, libc::SIG_DFL), own);
    }
}

#[test]
fn blocked_faults_are_shown_as_blocked_and_stay_unblocked() {
    start();
    // The test uses a new thread, because it changes the signal mask of its thread.
    thread::spawn(|| {
        let fault = 1u64 << (libc::SIGSEGV - 1);
        let wanted = fault | 1 << (libc::SIGURG - 1);
        let (mut shown, mut kernels) = (0u64, 0u64);
        let ask = |at: *mut u64| (libc::SYS_rt_sigprocmask, [0, 0, at as usize, 8, 0, 0]);
        let set = (&raw const wanted) as usize;
        let change = [libc::SIG_SETMASK as usize, set, 0, 8, 0, 0];
        assert_eq!(by_number((libc::SYS_rt_sigprocmask, change)), Ok(0));
        assert_eq!(by_number(ask(&raw mut shown)), Ok(0));
        assert_eq!(super::kernel::kernel(ask(&raw mut kernels)), Ok(0));
        assert_eq!(shown, wanted);
        assert_eq!(kernels, wanted & !fault);
        // SAFETY: all zeros are a valid `sigset_t`.
        let mut set: libc::sigset_t = unsafe { core::mem::zeroed() };
        // SAFETY: the set is a variable of this function.
        let asked =
            unsafe { signals::pthread_sigmask(libc::SIG_BLOCK, core::ptr::null(), &raw mut set) };
        // SAFETY: the set is a variable of this function.
        let is_shown = unsafe { libc::sigismember(&raw const set, libc::SIGSEGV) };
        assert_eq!((asked, is_shown), (0, 1));
    })
    .join()
    .unwrap();
}
