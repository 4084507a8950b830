//! Bad addresses are errors, and the program's handlers for faults stay in use.

use sovia_signal::access::{self, BadAddress, Fault};
use sovia_signal::chain;
use sovia_sync::critical_section;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// Lets one test run at a time, because dispositions belong to the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[expect(clippy::disallowed_methods, reason = "a test is no part of the engine")]
fn guards() -> bool {
    chain::start(libc::sigaction);
    chain::guards()
}

/// Maps two pages. The second page is inaccessible.
fn pages() -> *mut u8 {
    // SAFETY: the mapping is new, and `mprotect` changes only its second page.
    unsafe {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let base = libc::mmap(core::ptr::null_mut(), 8192, prot, flags, -1, 0).cast::<u8>();
        assert_eq!(libc::mprotect(base.add(4096).cast(), 4096, libc::PROT_NONE), 0);
        base
    }
}

#[test]
fn bad_addresses_are_reported_by_every_way_to_copy() {
    let _one = ONE_AT_A_TIME.lock();
    assert!(guards());
    let base = pages();
    let mut bytes = vec![1u8; 4096];
    let bad = [8 as *mut u8, base.wrapping_add(4096), 0xdead_0000_0000_0000usize as *mut u8];
    for len in [1, 3, 4, 8, 16, 40, 64, 100, 2048, 4000] {
        for bad in bad {
            // SAFETY: one range is live. The other is no memory of this process.
            unsafe {
                assert_eq!(access::copy(bad, bytes.as_ptr(), len), Err(BadAddress));
                assert_eq!(access::copy(bytes.as_mut_ptr(), bad, len), Err(BadAddress));
            }
        }
        // SAFETY: the first range is partly inaccessible, and the second is live.
        unsafe {
            assert_eq!(access::copy(base.add(4096 - len), bytes.as_ptr(), len), Ok(()));
            assert_eq!(access::copy(base.add(4097 - len), bytes.as_ptr(), len), Err(BadAddress));
        }
    }
    let mut fault = Fault::none();
    // SAFETY: `bytes` is live and longer than a word.
    let word: u64 = unsafe { access::load_word(bytes.as_ptr().cast(), &mut fault) };
    assert_eq!((word, fault.check()), (0x0101_0101_0101_0101, Ok(())));
    for bad in bad {
        let mut fault = Fault::none();
        // SAFETY: the address is no memory of this process, so no reference points there.
        let _: u8 = unsafe { access::load_word(bad.cast_const(), &mut fault) };
        assert_eq!(fault.check(), Err(BadAddress));
        let mut fault = Fault::none();
        // SAFETY: the address is no memory of this process, so no reference points there.
        unsafe { access::store_word(bad.cast::<u32>(), 1, &mut fault) };
        assert_eq!(fault.check(), Err(BadAddress));
    }
}

/// A program's thread may write to a byte of a buffer while another thread receives into the bytes before it.
#[test]
fn probed_bytes_keep_the_stores_of_other_threads() {
    let _one = ONE_AT_A_TIME.lock();
    assert!(guards());
    let base = pages();
    // SAFETY: the page is live, and both threads access the byte as an atomic.
    let byte = unsafe { core::sync::atomic::AtomicU8::from_ptr(base.add(7)) };
    let is_over = core::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let mut fault = Fault::none();
                // SAFETY: the page belongs to this test.
                unsafe { access::probe_byte(byte.as_ptr(), &mut fault) };
                assert_eq!(fault.check(), Ok(()));
            }
        });
        for n in 0..200_000u32 {
            byte.store(n as u8, Ordering::Relaxed);
            assert_eq!(byte.load(Ordering::Relaxed), n as u8, "store {n} is lost");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    // SAFETY: the range is one page of the mapping.
    assert_eq!(unsafe { libc::mprotect(base.cast(), 4096, libc::PROT_READ) }, 0);
    for bad in [base, base.wrapping_add(4096), 8 as *mut u8] {
        let mut fault = Fault::none();
        // SAFETY: no reference points to the address.
        unsafe { access::probe_byte(bad, &mut fault) };
        assert_eq!(fault.check(), Err(BadAddress));
    }
}

static SEEN: AtomicU32 = AtomicU32::new(0);
static VALUE: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_signal(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: `queue` sends this signal with a value, so the kernel passes valid details.
    VALUE.store(unsafe { (*info).si_value().sival_ptr } as usize as i32, Ordering::Relaxed);
    assert!(!critical_section::is_inside(), "a handler never interrupts a section");
    SEEN.fetch_add(1, Ordering::Relaxed);
}

#[expect(clippy::disallowed_methods, reason = "a test is no part of the engine")]
fn handle(signal: i32, flags: i32) {
    // SAFETY: `sigaction` is plain data, for which all-zero bytes are valid.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = on_signal as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | flags;
    chain::start(libc::sigaction);
    assert!(chain::change(signal, Some(&action), None, false));
    SEEN.store(0, Ordering::Relaxed);
}

fn queue(signal: i32, value: usize) {
    let value = libc::sigval { sival_ptr: value as *mut libc::c_void };
    // SAFETY: the signal goes to this thread, which has a handler for it.
    unsafe { libc::pthread_sigqueue(libc::pthread_self(), signal, value) };
}

#[test]
fn a_signal_in_a_critical_section_is_handled_at_its_end() {
    let _one = ONE_AT_A_TIME.lock();
    for flags in [0, libc::SA_NODEFER, libc::SA_RESETHAND] {
        for signal in [libc::SIGUSR1, libc::SIGRTMIN() + 3] {
            handle(signal, flags);
            let outer = critical_section::inside();
            let inner = critical_section::inside();
            queue(signal, 4711);
            assert_eq!(SEEN.load(Ordering::Relaxed), 0);
            drop(inner);
            assert_eq!(SEEN.load(Ordering::Relaxed), 0);
            drop(outer);
            assert_eq!((SEEN.load(Ordering::Relaxed), VALUE.load(Ordering::Relaxed)), (1, 4711));
        }
    }
}

/// Sets RLIMIT_SIGPENDING to 0. The kernel reserves room for a timer's own signal when the timer is made.
#[test]
fn a_timers_signal_in_a_critical_section_is_handled_where_no_more_may_be_pending() {
    let _one = ONE_AT_A_TIME.lock();
    let signal = libc::SIGRTMIN() + 4;
    handle(signal, 0);
    // SAFETY: the calls take live locals, and the timer's signal goes to this thread.
    unsafe {
        let mut event: libc::sigevent = core::mem::zeroed();
        (event.sigev_notify, event.sigev_signo) = (libc::SIGEV_THREAD_ID, signal);
        event.sigev_value = libc::sigval { sival_ptr: 4711 as *mut libc::c_void };
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer: libc::timer_t = core::mem::zeroed();
        let clock = libc::CLOCK_MONOTONIC;
        assert_eq!(libc::timer_create(clock, &raw mut event, &raw mut timer), 0);
        let mut before: libc::rlimit = core::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_SIGPENDING, &raw mut before);
        let none = libc::rlimit { rlim_cur: 0, ..before };
        assert_eq!(libc::setrlimit(libc::RLIMIT_SIGPENDING, &raw const none), 0);
        let critical_section = critical_section::inside();
        let mut soon: libc::itimerspec = core::mem::zeroed();
        soon.it_value.tv_nsec = 1_000_000;
        libc::timer_settime(timer, 0, &raw const soon, core::ptr::null_mut());
        // After the signal was deferred, all signals are blocked.
        let mut mask: libc::sigset_t = core::mem::zeroed();
        while libc::sigismember(&raw const mask, libc::SIGUSR1) != 1 {
            libc::pthread_sigmask(libc::SIG_BLOCK, core::ptr::null(), &raw mut mask);
        }
        let early = SEEN.load(Ordering::Relaxed);
        drop(critical_section);
        let came = (SEEN.load(Ordering::Relaxed), VALUE.load(Ordering::Relaxed));
        libc::setrlimit(libc::RLIMIT_SIGPENDING, &raw const before);
        libc::timer_delete(timer);
        assert_eq!((early, came), (0, (1, 4711)));
    }
}

#[test]
fn several_signals_at_once_wait_for_the_same_end() {
    let _one = ONE_AT_A_TIME.lock();
    let signals = [libc::SIGUSR1, libc::SIGUSR2, libc::SIGRTMIN() + 3];
    for signal in signals {
        handle(signal, 0);
    }
    // SAFETY: the calls take signal masks that are live locals.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        for signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        let critical_section = critical_section::inside();
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, core::ptr::null_mut());
        for signal in signals {
            queue(signal, 1);
        }
        // All signals arrive at once, each at the beginning of the handler of another.
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, core::ptr::null_mut());
        assert_eq!(SEEN.load(Ordering::Relaxed), 0);
        drop(critical_section);
        assert_eq!(SEEN.load(Ordering::Relaxed), 3);
        let mut now: libc::sigset_t = core::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, core::ptr::null(), &raw mut now);
        assert!((1..65).all(|signal| libc::sigismember(&raw const now, signal) != 1));
    }
}

#[test]
fn program_reads_back_the_disposition_that_was_set() {
    let _one = ONE_AT_A_TIME.lock();
    handle(libc::SIGUSR2, libc::SA_RESTART | libc::SA_RESETHAND);
    // SAFETY: `sigaction` is plain data, for which all-zero bytes are valid.
    let mut seen: libc::sigaction = unsafe { core::mem::zeroed() };
    assert!(chain::change(libc::SIGUSR2, None, Some(&mut seen), false));
    assert_eq!(seen.sa_sigaction, on_signal as *const () as usize);
    assert_eq!(
        seen.sa_flags & (libc::SA_RESTART | libc::SA_RESETHAND),
        libc::SA_RESTART | libc::SA_RESETHAND
    );
    queue(libc::SIGUSR2, 1);
    assert!(chain::change(libc::SIGUSR2, None, Some(&mut seen), false));
    assert_eq!((SEEN.load(Ordering::Relaxed), seen.sa_sigaction), (1, libc::SIG_DFL));
}

static REACHED: AtomicU32 = AtomicU32::new(0);

/// Makes the page accessible.
extern "C" fn on_fault(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    REACHED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the fault lies in a page of this test, so the kernel passes its address and `mprotect` changes only
    // this page.
    unsafe {
        let page = ((*info).si_addr() as usize & !4095) as *mut libc::c_void;
        assert_eq!(libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_WRITE), 0);
    }
}

#[test]
fn bad_addresses_are_reported_after_a_handler_for_one_fault() {
    let _one = ONE_AT_A_TIME.lock();
    assert!(guards());
    let (first, second) = (pages(), pages());
    // SAFETY: `sigaction` is plain data, and the handler makes the page accessible.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESETHAND;
        assert!(chain::change(libc::SIGSEGV, Some(&action), None, false));
        first.add(4096).write_volatile(1);
    }
    assert_eq!(REACHED.load(Ordering::Relaxed), 1);
    let bytes = [1u8; 16];
    // SAFETY: one range is live, and the other is inaccessible.
    let copied = unsafe { access::copy(second.add(4096), bytes.as_ptr(), bytes.len()) };
    assert_eq!(copied, Err(BadAddress));
    // SAFETY: `sigaction` is plain data, for which all-zero bytes are valid.
    let mut seen: libc::sigaction = unsafe { core::mem::zeroed() };
    assert!(chain::change(libc::SIGSEGV, None, Some(&mut seen), false));
    assert_eq!(seen.sa_sigaction, libc::SIG_DFL);
    assert_eq!(REACHED.load(Ordering::Relaxed), 1);
    seen.sa_sigaction = libc::SIG_DFL;
    assert!(chain::change(libc::SIGSEGV, Some(&seen), None, false));
}
