//! What keeps threads out of libfabric once the process ends.
//!
//! When a process ends by `exit`, libfabric frees what its providers share, and threads that are still there may go on until the kernel ends
//! them: the `shm` provider of libfabric 1.17 then follows pointers in memory that it has freed. So before libfabric does that, those threads
//! are kept out: each call of the endpoint's enters first, and is told that it may not. The thread that ends the process is let in, since
//! what the program has registered to be run at its end may close NICs. What the endpoints that are open then have in `/dev/shm` is removed.

use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

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

/// Files of shared memory of the endpoints that are open. libfabric leaves them where a process ends without closing those.
static FILES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Such a file, for as long as its endpoint is open.
#[derive(Debug)]
pub(crate) struct File(String);

impl File {
    /// That of an endpoint of that address, if it is one of `shm`.
    pub(crate) fn of(address: &[u8]) -> Option<File> {
        let text = core::str::from_utf8(address).ok()?.trim_end_matches('\0');
        let name = text.strip_prefix("fi_shm://").filter(|name| !name.contains('/'))?;
        let path = format!("/dev/shm/{name}");
        FILES.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
        Some(File(path))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        FILES.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.0);
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
    // The list is used inside alone: only this thread itself can have it locked.
    if let Ok(mut files) = FILES.try_lock() {
        files.drain(..).for_each(|path| drop(std::fs::remove_file(path)));
    }
}
