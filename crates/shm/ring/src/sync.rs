//! Chooses between the atomics of `core`, of loom, and of a fuzzing build. Also has the points at which a thread stalls
//! in a `make stall` build.

pub(crate) use sovia_sys::stall::{At, point};

#[cfg(all(not(loom), not(fuzzing)))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(fuzzing)]
pub(crate) use core::sync::atomic::{Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(fuzzing)]
pub(crate) use seen::{AtomicU32, AtomicU64};

#[cfg(fuzzing)]
pub(crate) mod seen;
