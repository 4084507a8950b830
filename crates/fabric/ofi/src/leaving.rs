//! What keeps threads out of libfabric once the process ends.
//!
//! When a process ends by `exit`, libfabric frees what its providers share, and threads that are still there may go on until the kernel ends
//! them: the `shm` provider of libfabric 1.17 then follows pointers in memory that it has freed. So before libfabric does that, those threads
//! are kept out: each call of the endpoint's enters first, and is told that it may not. The thread that ends the process is let in, since
//! what the program has registered to be run at its end may close NICs.

use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};

/// How many times threads are inside.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// The thread that ends the process, once one does.
static LEAVING: AtomicUsize = AtomicUsize::new(0);
/// The process that has loaded libfabric: a child of it has none of the other threads, but their share of the count.
static PROCESS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// How many times this thread is inside.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A thread's own number, never 0.
fn me() -> usize {
    DEPTH.with(|depth| core::ptr::from_ref(depth).addr())
}

/// A thread is inside.
#[derive(Debug)]
pub(crate) struct Inside(());

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Enters libfabric; `None` if another thread ends the process.
pub(crate) fn enter() -> Option<Inside> {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let inside = Inside(());
    let leaving = LEAVING.load(Ordering::SeqCst);
    (leaving == 0 || leaving == me()).then_some(inside)
}

/// Has threads kept out when this process ends. libfabric is loaded: its own end comes after what is registered here.
pub(crate) fn watch() {
    PROCESS.store(std::process::id() as usize, Ordering::Relaxed);
    // SAFETY: the function may be called at any time. Where it cannot be registered, the process has no memory left to work with.
    let _ = unsafe { libc::atexit(leave) };
}

extern "C" fn leave() {
    if PROCESS.load(Ordering::Relaxed) != std::process::id() as usize {
        return;
    }
    LEAVING.store(me(), Ordering::SeqCst);
    // This thread itself is inside where a handler of a signal ends the process.
    while INSIDE.load(Ordering::SeqCst) > DEPTH.with(Cell::get) {
        std::thread::yield_now();
    }
}
