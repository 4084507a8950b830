//! Chooses between the processor's atomics and futexes and those of loom. No other module does.

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

/// Number of tries before a thread sleeps on a lock. Under loom every try lets other threads run, so a thread
/// would never sleep.
pub(crate) const SPINS: u32 = if cfg!(loom) { 0 } else { 200 };

/// Sleeps while the word holds `expected`, at most `ns` nanoseconds.
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
    /// Set in a model whose sleeps end only by a wake-up. Belongs to the thread that runs the model.
    pub static ENDLESS: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

/// Wakes up to `sleepers` sleeping threads.
#[cfg(not(loom))]
pub(crate) fn wake_some(word: &AtomicU32, sleepers: u32) {
    sovia_sys::futex::wake(word, sleepers);
}

#[cfg(loom)]
pub(crate) fn wake_some(_: &AtomicU32, _: u32) {}

/// Returns nanoseconds of a monotonic clock.
#[cfg(not(loom))]
pub(crate) fn now_ns() -> u64 {
    sovia_sys::clock::now_ns()
}

/// Returns the latest time, so under loom every limited wait has expired.
#[cfg(loom)]
pub(crate) fn now_ns() -> u64 {
    u64::MAX
}
