//! A thread that exists at most once in each process.

use crate::lock::RobustLock;
use crate::owners::Local;
use crate::rank;
use crate::shim::{AtomicI32, AtomicU32, Ordering};
use crate::thread;
use sovia_sys::call;

/// A thread that exists at most once in each process. The first use starts the thread. A forked child does not
/// have its parent's thread.
#[derive(Debug)]
pub struct OncePerProcess {
    /// Id of the process that the thread runs in. Any other id means that this process has no such thread.
    owner: AtomicI32,
    /// Value of [`thread::generation`] when the thread was started.
    generation: AtomicU32,
    start: RobustLock<Local, { rank::THREAD }>,
}

impl Default for OncePerProcess {
    fn default() -> OncePerProcess {
        OncePerProcess::new()
    }
}

impl OncePerProcess {
    /// Returns an object without a started thread.
    #[cfg(not(loom))]
    pub const fn new() -> OncePerProcess {
        OncePerProcess {
            owner: AtomicI32::new(0),
            generation: AtomicU32::new(0),
            start: RobustLock::new(),
        }
    }

    /// Returns an object without a started thread.
    #[cfg(loom)]
    pub fn new() -> OncePerProcess {
        OncePerProcess {
            owner: AtomicI32::new(0),
            generation: AtomicU32::new(0),
            start: RobustLock::new(),
        }
    }

    /// Calls `spawn` to start the thread if this process has none. Returns false if the thread cannot be started.
    pub fn ensure(&self, spawn: impl FnOnce() -> bool) -> bool {
        let pid = call::getpid();
        if self.is_here(pid) {
            return true;
        }
        let start = self.start.guard();
        if !start.acquired().is_held() {
            // A caller further up this thread's stack is about to start the thread.
            return false;
        }
        let generation = thread::generation();
        let started = self.is_here(pid) || spawn();
        if started {
            self.generation.store(generation, Ordering::Relaxed);
            // SYNC: pairs with the load in `is_here`: a thread that reads this process's id also reads the
            // generation.
            self.owner.store(pid, Ordering::Release);
        }
        started
    }

    /// Returns true if this process certainly has the thread.
    pub fn runs(&self) -> bool {
        self.is_here(call::getpid())
    }

    fn is_here(&self, pid: i32) -> bool {
        self.owner.load(Ordering::Acquire) == pid
            && self.generation.load(Ordering::Relaxed) == thread::generation()
    }

    /// Blocks the start before a fork, so that a child cannot inherit a half-started thread.
    pub fn hold(&self) {
        self.start.hold();
    }

    /// Allows the start again after a fork, in parent and child.
    pub fn release(&self) {
        self.start.release();
    }

    /// Makes [`OncePerProcess::is_missing`] return true until the thread is started. Called at the start of a process
    /// that needs the thread, but need not start it yet.
    pub fn miss(&self) {
        self.generation.store(thread::generation().wrapping_sub(1), Ordering::Relaxed);
        self.owner.store(-1, Ordering::Release);
    }

    /// Returns true if the thread was started and no longer runs here: it has stayed with a forked child's
    /// parent, or has ended. Makes no system call.
    pub fn is_missing(&self) -> bool {
        self.owner.load(Ordering::Relaxed) != 0
            && self.generation.load(Ordering::Relaxed) != thread::generation()
    }
}
