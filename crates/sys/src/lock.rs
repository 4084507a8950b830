//! A lock for state that forked processes share, which survives its holder's death.
//!
//! The word holds the owner's thread id. Somebody who finds it held spins for a moment, then
//! yields, then sleeps in short steps, and at each step asks the kernel whether the owner still
//! exists; a dead owner's lock is taken over and the new owner is told to repair what it guards.

use crate::{call, clock, futex};
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};

const CONTENDED: u32 = 1 << 31;

thread_local! {
    static TID: Cell<(i32, u32)> = const { Cell::new((0, 0)) };
}

/// Increased in a forked child, so that cached thread ids are asked for again.
static FORK_GENERATION: AtomicU32 = AtomicU32::new(1);

/// To be called in a forked child before it uses any lock.
pub fn forked() {
    FORK_GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Another number in a forked child than in its parent.
#[inline]
pub fn fork_generation() -> u32 {
    FORK_GENERATION.load(Ordering::Relaxed)
}

/// The calling thread's id, cached.
#[inline]
pub fn thread_id() -> i32 {
    let generation = FORK_GENERATION.load(Ordering::Relaxed);
    TID.with(|tid| {
        let (id, seen) = tid.get();
        if seen == generation {
            return id;
        }
        let id = call::gettid();
        tid.set((id, generation));
        id
    })
}

/// How a lock was come by.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Acquired {
    /// The state is as its last owner left it on purpose.
    Clean,
    /// The last owner died, or left by `longjmp`, in the middle: repair the state first.
    FromTheDead,
}

/// The lock word. All-zero memory is an unlocked lock.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct RobustLock(AtomicU32);

impl RobustLock {
    /// An unlocked lock.
    pub const fn new() -> RobustLock {
        RobustLock(AtomicU32::new(0))
    }

    /// Takes the lock.
    ///
    /// A thread that finds itself to be the owner got here from a signal handler, or left the
    /// critical section by `longjmp`; it gets the lock as [`Acquired::FromTheDead`].
    #[inline]
    pub fn lock(&self) -> Acquired {
        let me = thread_id() as u32;
        match self.0.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Acquired::Clean,
            // Without a limit it is taken in the end.
            Err(_) => self.lock_slow(me, None).unwrap_or(Acquired::Clean),
        }
    }

    /// Like [`RobustLock::lock`], but waits for so many nanoseconds at most; `None` if others hold it
    /// for longer.
    pub fn lock_within(&self, ns: u64) -> Option<Acquired> {
        let me = thread_id() as u32;
        match self.0.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Some(Acquired::Clean),
            Err(_) => self.lock_slow(me, Some(clock::now_ns().saturating_add(ns))),
        }
    }

    /// Takes the lock if nobody holds it.
    #[inline]
    pub fn try_lock(&self) -> bool {
        let me = thread_id() as u32;
        self.0.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives the lock back.
    #[inline]
    pub fn unlock(&self) {
        if self.0.swap(0, Ordering::Release) & CONTENDED != 0 {
            futex::wake(&self.0, 1);
        }
    }

    /// Whether the calling thread holds the lock: it is in a signal handler that has interrupted the
    /// critical section, or has left that by `longjmp`.
    #[inline]
    pub fn is_mine(&self) -> bool {
        self.0.load(Ordering::Relaxed) & !CONTENDED == thread_id() as u32
    }

    /// Whether somebody holds the lock just now.
    pub fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    #[cold]
    fn lock_slow(&self, me: u32, until: Option<u64>) -> Option<Acquired> {
        const SPINS: u32 = 200;
        const STEP_NS: u64 = 2_000_000;
        let mut spins = 0;
        let mut asked = 0;
        loop {
            let held = self.0.load(Ordering::Relaxed);
            if held == 0 {
                // Others may still sleep on the word: keep them from being forgotten.
                let mine = if spins >= SPINS { me | CONTENDED } else { me };
                if self.0.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return Some(Acquired::Clean);
                }
                continue;
            }
            let owner = held & !CONTENDED;
            if owner == me {
                return Some(Acquired::FromTheDead);
            }
            if spins < SPINS {
                spins += 1;
                core::hint::spin_loop();
                continue;
            }
            let now = clock::now_ns();
            if now - asked > STEP_NS {
                asked = now;
                if !call::task_exists(owner as i32)
                    && self
                        .0
                        .compare_exchange(
                            held,
                            me | CONTENDED,
                            Ordering::Acquire,
                            Ordering::Relaxed,
                        )
                        .is_ok()
                {
                    return Some(Acquired::FromTheDead);
                }
            }
            if until.is_some_and(|until| now >= until) {
                return None;
            }
            if held & CONTENDED == 0
                && self
                    .0
                    .compare_exchange(held, held | CONTENDED, Ordering::Relaxed, Ordering::Relaxed)
                    .is_err()
            {
                continue;
            }
            let left = until.map_or(STEP_NS, |until| until - now);
            let _ = futex::wait(&self.0, held | CONTENDED, Some(left.min(STEP_NS)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_owners_lock_is_taken_over() {
        let lock = RobustLock::default();
        std::thread::scope(|s| {
            s.spawn(|| assert_eq!(lock.lock(), Acquired::Clean));
        });
        assert!(lock.is_locked());
        assert_eq!(lock.lock(), Acquired::FromTheDead);
        lock.unlock();
        assert_eq!(lock.lock(), Acquired::Clean);
    }

    #[test]
    fn who_waits_for_a_while_only_gives_up_or_gets_it() {
        let lock = RobustLock::default();
        lock.lock();
        std::thread::scope(|s| {
            s.spawn(|| assert_eq!(lock.lock_within(1_000_000), None));
        });
        std::thread::scope(|s| {
            s.spawn(|| assert_eq!(lock.lock_within(600_000_000_000), Some(Acquired::Clean)));
            std::thread::yield_now();
            lock.unlock();
        });
        // Its owner has ended with it.
        assert_eq!(lock.lock_within(600_000_000_000), Some(Acquired::FromTheDead));
        lock.unlock();
    }

    #[test]
    fn it_excludes() {
        let lock = RobustLock::default();
        let shared = AtomicU32::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..10_000 {
                        lock.lock();
                        let v = shared.load(Ordering::Relaxed);
                        shared.store(v + 1, Ordering::Relaxed);
                        lock.unlock();
                    }
                });
            }
        });
        assert_eq!(shared.load(Ordering::Relaxed), 40_000);
    }
}
