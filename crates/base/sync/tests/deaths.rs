//! Owners that end in every way, and threads that get the ids of dead owners.

#![cfg(not(loom))]

use crate::common::{fork, reap};
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sync::{Acquired, Family, RobustLock, robust_entry, thread};
use std::sync::OnceLock;

struct Shared {
    threads: robust_entry::Table<{ robust_entry::SHARED }>,
    lock: RobustLock<Family>,
    step: AtomicU32,
}

/// Returns memory that children share with this process.
fn shared() -> &'static Shared {
    static AT: OnceLock<usize> = OnceLock::new();
    let at = *AT.get_or_init(|| {
        robust_entry::start();
        let mapping = sovia_sys::Mapping::for_family(size_of::<Shared>()).unwrap();
        let at = mapping.base() as usize;
        std::mem::forget(mapping);
        // SAFETY: the mapping is never unmapped, and all-zero memory is valid for each field.
        robust_entry::share(unsafe { &(*(at as *const Shared)).threads });
        at
    });
    // SAFETY: `at` is the base of a mapping of this size that is never unmapped. All-zero memory is valid for
    // each field.
    unsafe { &*(at as *const Shared) }
}

/// Like [`fork`], but without libc's knowledge.
#[expect(clippy::disallowed_methods, reason = "a test is no part of the engine")]
fn fork_past_libc(f: impl FnOnce()) -> i32 {
    // SAFETY: this is a plain fork by clone. The child only uses locks and system calls.
    match unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } {
        0 => {
            f();
            sovia_sys::call::exit_now();
        }
        pid => i32::try_from(pid).expect("a process id"),
    }
}

/// One test for all kinds of death, because they share a lock.
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
        // The thread lives.
        assert_eq!(s.lock.lock_within(5_000_000), None);
        thread.thread().unpark();
    });
    taken_over();

    // A child that exits, a child that is killed, and a child that executes another program.
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
    // SAFETY: `pid` is a child of this test that the test has not reaped yet.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    // The dead child is still a zombie.
    taken_over();
    reap(pid);
    let pid = fork(|| {
        let _ = s.lock.lock();
        let path = c"/bin/sleep";
        let arguments = [path.as_ptr(), c"100".as_ptr(), std::ptr::null()];
        // SAFETY: the arguments are C strings, and null ends the list.
        unsafe { libc::execv(path.as_ptr(), arguments.as_ptr()) };
    });
    while !s.lock.is_locked() {
        std::thread::yield_now();
    }
    taken_over();
    // SAFETY: `pid` is a child of this test that the test has not reaped yet.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    reap(pid);

    // A child that the kernel has made without libc's knowledge.
    let pid = fork_past_libc(|| {
        thread::forked_without_libc();
        assert_eq!(s.lock.lock(), Acquired::Clean);
    });
    sovia_sys::call::reap(pid);
    taken_over();
}

/// Two owners have the same id 1, each as the first process of its own PID namespace.
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
        // SAFETY: the mapping is never unmapped, and all-zero memory is valid for each field.
        unsafe { &*at }
    });
    // The child itself stays in the old namespace. Only the children of the child are in the new namespace.
    let init = |f: &dyn Fn()| {
        fork(|| {
            // SAFETY: `unshare` takes a number and touches no memory.
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
    // A process 1 also lives in this namespace, but is not the owner. The new namespace has no id for this
    // process.
    assert_eq!(s.lock.lock_within(10_000_000), None);
    let other = init(&|| {
        // The owner's id 1 belongs to another namespace than this process's id 1.
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
