//! The one place that chooses between the machine's atomics, loom's and those that a fuzzer sees being read, and
//! has the points at which a thread stalls in a build that is made to.

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
