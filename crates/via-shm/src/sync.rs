//! The one place that chooses between the machine's atomics and loom's, and has the points at which a
//! thread stalls in a build that is made to.

pub(crate) use sovia_sys::stall::{At, point};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
