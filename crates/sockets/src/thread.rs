//! Threads of the library's own, which the program does not notice.

use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use sovia_sys::{RobustLock, call, lock};

/// What a thread of the library runs.
pub(crate) type Main = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

/// Stack of a thread: the program's thread-local storage comes out of it.
const STACK: usize = 256 << 10;

/// Starts a thread that the program does not notice. False if it cannot be had.
pub(crate) fn start(main: Main, argument: *mut libc::c_void) -> bool {
    // SAFETY: plain pthread calls on local, initialised objects; `argument` is passed
    // on as it is. All signals are blocked around its creation, so that it inherits the
    // block and the program's handlers never run on it.
    unsafe {
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        let mut all: libc::sigset_t = core::mem::zeroed();
        let mut before: libc::sigset_t = core::mem::zeroed();
        let mut thread: libc::pthread_t = core::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(&raw mut attributes, STACK);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let result = libc::pthread_create(&raw mut thread, &raw const attributes, main, argument);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut());
        libc::pthread_attr_destroy(&raw mut attributes);
        result == 0
    }
}

/// A thread that each process has once, from when it is first needed. A forked child has none of its
/// parent's.
#[derive(Debug)]
pub(crate) struct OncePerProcess {
    /// The process that the thread runs in; another number: not in this one.
    owner: AtomicI32,
    /// What [`lock::fork_generation`] is in that process.
    generation: AtomicU32,
    start: RobustLock,
}

impl OncePerProcess {
    /// None has been started.
    pub(crate) const fn new() -> OncePerProcess {
        OncePerProcess {
            owner: AtomicI32::new(0),
            generation: AtomicU32::new(0),
            start: RobustLock::new(),
        }
    }

    /// Has `spawn` start the thread if this process has none. False if it cannot be had.
    pub(crate) fn ensure(&self, spawn: impl FnOnce() -> bool) -> bool {
        let pid = call::getpid();
        if self.owner.load(Ordering::Acquire) == pid {
            return true;
        }
        self.start.lock();
        let started = self.owner.load(Ordering::Acquire) == pid || spawn();
        if started {
            self.generation.store(lock::fork_generation(), Ordering::Relaxed);
            self.owner.store(pid, Ordering::Release);
        }
        self.start.unlock();
        started
    }

    /// Around fork: nobody is just starting it.
    pub(crate) fn hold(&self) {
        self.start.lock();
    }

    /// After fork, in both.
    pub(crate) fn release(&self) {
        self.start.unlock();
    }

    /// In a forked child: the thread has stayed with the parent. Without a system call.
    pub(crate) fn is_missing(&self) -> bool {
        self.owner.load(Ordering::Relaxed) != 0
            && self.generation.load(Ordering::Relaxed) != lock::fork_generation()
    }
}
