//! Stalls of threads at hand-overs, in a build that searches for code that depends on timing.
//!
//! The kernel may suspend a thread for a minute at any instruction. Such a pause is rare, so a build with `--cfg
//! sovia_stall` causes pauses. Where one thread hands something over to another ([`point`]), a schedule suspends
//! the thread now and then. `SOVIA_STALL=SEED,COUNT,MILLISECONDS` sets the schedule of each process: at most
//! COUNT stalls of at most MILLISECONDS each. The points follow from SEED, from the program's name and from its
//! first argument. With `SOVIA_STALL_LOG=FILE`, each stall is appended to a file. In every other build, a point
//! does nothing.

/// Last or next action of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum At {
    /// The thread has taken a lock.
    Locked,
    /// The thread is about to release a lock.
    Unlocking,
    /// The thread has released a lock.
    Unlocked,
    /// The thread is about to publish something to another thread.
    Publishing,
    /// The thread has published something, and is about to check for sleeping threads.
    Published,
    /// The thread has found sleeping threads, and is about to wake them.
    Waking,
    /// The thread has announced its sleep, and is about to check once more.
    Sleeping,
    /// The thread has looked up an object that another thread may free.
    LookedUp,
    /// The thread has chosen a slot, and is about to announce this.
    Taking,
    /// The thread is about to free a slot.
    GivingBack,
    /// The thread is about to unmap memory.
    Unmapping,
}

/// Number of kinds of points.
pub const KINDS: usize = At::Unmapping as usize + 1;

/// Marks a point at which the calling thread may stall.
#[cfg(not(sovia_stall))]
#[inline(always)]
pub fn point(_: At) {}

#[cfg(sovia_stall)]
pub use schedule::point;

#[cfg(sovia_stall)]
mod schedule;
