//! A thread that each process has once.

use crate::lock::RobustLock;
use crate::owners::Local;
use crate::rank;
use crate::shim::{AtomicI32, AtomicU32, Ordering};
use crate::thread;
use sovia_sys::call;

/// A thread that each process has once, from when it is first needed. A forked child has none of its
/// parent's.
#[derive(Debug)]
pub struct OncePerProcess {
    /// The process that the thread runs in; another number: not in this one.
    owner: AtomicI32,
    /// What [`thread::generation`] was when it was started.
    generation: AtomicU32,
    start: RobustLock<Local, { rank::THREAD }>,
}

impl Default for OncePerProcess {
    fn default() -> OncePerProcess {
        OncePerProcess::new()
    }
}

impl OncePerProcess {
    /// None has been started.
    #[cfg(not(loom))]
    pub const fn new() -> OncePerProcess {
        OncePerProcess {
            owner: AtomicI32::new(0),
            generation: AtomicU32::new(0),
            start: RobustLock::new(),
        }
    }

    /// None has been started.
    #[cfg(loom)]
    pub fn new() -> OncePerProcess {
        OncePerProcess {
            owner: AtomicI32::new(0),
            generation: AtomicU32::new(0),
            start: RobustLock::new(),
        }
    }

    /// Has `spawn` start the thread if this process has none. False if it cannot be had.
    pub fn ensure(&self, spawn: impl FnOnce() -> bool) -> bool {
        let pid = call::getpid();
        if self.is_here(pid) {
            return true;
        }
        let start = self.start.guard();
        if !start.acquired().is_held() {
            // It is just being started further up this thread's stack.
            return false;
        }
        let generation = thread::generation();
        let started = self.is_here(pid) || spawn();
        if started {
            self.generation.store(generation, Ordering::Relaxed);
            // SYNC: a thread that finds the process here finds the generation as well.
            self.owner.store(pid, Ordering::Release);
        }
        started
    }

    /// Returns true if this process has the thread, for certain.
    pub fn runs(&self) -> bool {
        self.is_here(call::getpid())
    }

    fn is_here(&self, pid: i32) -> bool {
        self.owner.load(Ordering::Acquire) == pid
            && self.generation.load(Ordering::Relaxed) == thread::generation()
    }

    /// Fork prepare: blocks the start, so that a child cannot inherit a half-started thread.
    pub fn hold(&self) {
        self.start.hold();
    }

    /// After fork, in both.
    pub fn release(&self) {
        self.start.release();
    }

    /// Whether the thread has been there and is not any more: in a forked child it has stayed with the
    /// parent, or it has ended. Without a system call.
    pub fn is_missing(&self) -> bool {
        self.owner.load(Ordering::Relaxed) != 0
            && self.generation.load(Ordering::Relaxed) != thread::generation()
    }
}
