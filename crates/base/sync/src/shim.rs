//! The one place that chooses between the machine's atomics and futexes and loom's.

#[cfg(not(loom))]
pub(crate) use core::{
    hint::spin_loop,
    sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

/// Tries before a thread sleeps on a lock. Loom lets other threads run first at each of them, so none would sleep.
pub(crate) const SPINS: u32 = if cfg!(loom) { 0 } else { 200 };

/// Sleeps while the word holds `expected`, for so many nanoseconds at most.
#[cfg(not(loom))]
pub(crate) fn sleep_on(word: &AtomicU32, expected: u32, ns: u64) {
    let _ = sovia_sys::futex::wait(word, expected, Some(ns));
}

#[cfg(loom)]
pub(crate) fn sleep_on(word: &AtomicU32, expected: u32, _: u64) {
    loom::thread::yield_now();
    while ENDLESS.get() && word.load(Ordering::Relaxed) == expected {
        loom::thread::yield_now();
    }
}

#[cfg(loom)]
std::thread_local! {
    /// Whether sleeps end only when the sleeper is woken, in the model that this thread runs.
    pub static ENDLESS: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

/// Wakes so many sleepers.
#[cfg(not(loom))]
pub(crate) fn wake_some(word: &AtomicU32, sleepers: u32) {
    sovia_sys::futex::wake(word, sleepers);
}

#[cfg(loom)]
pub(crate) fn wake_some(_: &AtomicU32, _: u32) {}

/// Nanoseconds of a clock that only runs forward.
#[cfg(not(loom))]
pub(crate) fn now_ns() -> u64 {
    sovia_sys::clock::now_ns()
}

/// Time passes with each look at it.
#[cfg(loom)]
pub(crate) fn now_ns() -> u64 {
    u64::MAX
}
