//! Stalls at hand-overs, in a build made to find what depends on patience.
//!
//! A thread may stand still for a minute at any instruction. That is rare, so a build with
//! `--cfg sovia_stall` makes it happen: at the points where one thread hands something over to another
//! ([`point`]), a schedule lets the thread sleep now and then. `SOVIA_STALL=SEED,COUNT,MILLISECONDS` sets
//! the schedule of each process: at most COUNT stalls of at most MILLISECONDS each, at points that follow
//! from SEED, from the program's name and from its first argument. `SOVIA_STALL_LOG=FILE` has each stall
//! appended to a file. In any other build, a point is nothing.

/// What the thread is about to do, or has just done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum At {
    /// It has taken a lock.
    Locked,
    /// It is about to give a lock back.
    Unlocking,
    /// It has given a lock back.
    Unlocked,
    /// It is about to make something visible to another thread.
    Publishing,
    /// It has made it visible, and is about to look for sleepers.
    Published,
    /// It has seen sleepers, and is about to wake them.
    Waking,
    /// It has announced its sleep, and is about to look once more.
    Sleeping,
    /// It has looked up what another thread may give back.
    LookedUp,
    /// It has taken a place, and is about to say so.
    Taking,
    /// It is about to give a place back.
    GivingBack,
    /// It is about to unmap memory.
    Unmapping,
}

/// How many kinds of points there are.
pub const KINDS: usize = At::Unmapping as usize + 1;

/// A point at which the calling thread may stall.
#[cfg(not(sovia_stall))]
#[inline(always)]
pub fn point(_: At) {}

#[cfg(sovia_stall)]
pub use schedule::point;

#[cfg(sovia_stall)]
mod schedule;
