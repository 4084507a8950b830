//! Owners that end in every way, and threads that get their ids.

#![cfg(not(loom))]

use crate::common::{fork, reap};
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sync::{Acquired, Family, RobustLock, record, thread};
use std::sync::OnceLock;

struct Shared {
    threads: record::Table<{ record::SHARED }>,
    lock: RobustLock<Family>,
    step: AtomicU32,
}

/// Memory that children share with this process.
fn shared() -> &'static Shared {
    static AT: OnceLock<usize> = OnceLock::new();
    let at = *AT.get_or_init(|| {
        record::start();
        let mapping = sovia_sys::Mapping::for_family(size_of::<Shared>()).unwrap();
        let at = mapping.base() as usize;
        std::mem::forget(mapping);
        // SAFETY: zeroed memory that stays for good, of which each field may be all zero.
        record::share(unsafe { &(*(at as *const Shared)).threads });
        at
    });
    // SAFETY: as above.
    unsafe { &*(at as *const Shared) }
}

/// The same, of which libc knows nothing.
#[expect(clippy::disallowed_methods, reason = "a test is no part of the engine")]
fn fork_past_libc(f: impl FnOnce()) -> i32 {
    // SAFETY: a plain fork by clone, in which the child uses locks and system calls only.
    match unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } {
        0 => {
            f();
            sovia_sys::call::exit_now();
        }
        pid => i32::try_from(pid).expect("a process id"),
    }
}

/// One after the other: they share a lock.
#[test]
fn locks_are_taken_over_from_the_dead_alone() {
    let s = shared();
    let taken_over = || {
        assert_eq!(s.lock.lock(), Acquired::FromTheDead);
        s.lock.unlock();
    };

    // A thread that leaves by a bare system call.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            assert_eq!(s.lock.lock(), Acquired::Clean);
            s.step.store(1, Ordering::Release);
            std::thread::park();
        });
        while s.step.load(Ordering::Acquire) != 1 {
            std::thread::yield_now();
        }
        // It lives.
        assert_eq!(s.lock.lock_within(5_000_000), None);
        thread.thread().unpark();
    });
    taken_over();

    // A child that leaves, one that is killed, one that becomes another program.
    reap(fork(|| assert_eq!(s.lock.lock(), Acquired::Clean)));
    taken_over();
    let pid = fork(|| {
        let _ = s.lock.lock();
        s.step.store(2, Ordering::Release);
        loop {
            sovia_sys::call::sched_yield();
        }
    });
    while s.step.load(Ordering::Acquire) != 2 {
        std::thread::yield_now();
    }
    assert_eq!(s.lock.lock_within(5_000_000), None);
    // SAFETY: a child of this test's.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    // While it is a zombie still.
    taken_over();
    reap(pid);
    let pid = fork(|| {
        let _ = s.lock.lock();
        let path = c"/bin/sleep";
        let arguments = [path.as_ptr(), c"100".as_ptr(), std::ptr::null()];
        // SAFETY: C strings, and the list ends with null.
        unsafe { libc::execv(path.as_ptr(), arguments.as_ptr()) };
    });
    while !s.lock.is_locked() {
        std::thread::yield_now();
    }
    taken_over();
    // SAFETY: a child of this test's.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    reap(pid);

    // A child that the kernel has made behind libc's back.
    let pid = fork_past_libc(|| {
        thread::forked_without_libc();
        assert_eq!(s.lock.lock(), Acquired::Clean);
    });
    sovia_sys::call::reap(pid);
    taken_over();
}

/// The same id again, in a PID namespace of its own each time: the first process there is number 1.
#[test]
fn an_owner_in_another_pid_namespace_is_itself() {
    static LOCK: OnceLock<&'static Second> = OnceLock::new();
    struct Second {
        lock: RobustLock<Family>,
        step: AtomicU32,
    }
    let _ = shared();
    let s = LOCK.get_or_init(|| {
        let mapping = sovia_sys::Mapping::for_family(size_of::<Second>()).unwrap();
        let at = mapping.base().cast::<Second>();
        std::mem::forget(mapping);
        // SAFETY: zeroed memory that stays for good.
        unsafe { &*at }
    });
    // SAFETY: a number only; the child is not in the new namespace, its children are.
    let init = |f: &dyn Fn()| {
        fork(|| {
            // SAFETY: a number only.
            if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
                s.step.store(u32::MAX, Ordering::Release);
                return;
            }
            reap(fork(f));
        })
    };
    let holder = init(&|| {
        assert_eq!(sovia_sys::call::getpid(), 1);
        assert_eq!(s.lock.lock(), Acquired::Clean);
        s.step.store(1, Ordering::Release);
        while s.step.load(Ordering::Acquire) == 1 {
            sovia_sys::call::sched_yield();
        }
    });
    while s.step.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    if s.step.load(Ordering::Acquire) == u32::MAX {
        reap(holder);
        eprintln!("skipped: no right to make PID namespaces");
        return;
    }
    // Here a process 1 lives, but it is another; there, this process is called nothing at all.
    assert_eq!(s.lock.lock_within(10_000_000), None);
    let other = init(&|| {
        // The other's 1 is not this 1.
        assert_eq!(s.lock.lock_within(10_000_000), None);
        s.step.store(2, Ordering::Release);
        assert_eq!(s.lock.lock(), Acquired::FromTheDead);
        s.step.store(3, Ordering::Release);
        s.lock.unlock();
    });
    reap(holder);
    reap(other);
    assert_eq!(s.step.load(Ordering::Acquire), 3);
    assert_eq!(s.lock.lock(), Acquired::Clean);
    s.lock.unlock();
}
