//! Keeps threads out of libfabric when the process ends.
//!
//! When a process calls `exit`, libfabric frees data that its providers share. Other threads may still run until the
//! kernel ends them. The `shm` provider of libfabric 1.17 then follows pointers into freed memory. So other threads are
//! kept out before libfabric frees its data: each call of an endpoint first calls [`enter`], which fails from then on.
//! The thread that ends the process may still enter, because the program's exit handlers may close NICs. The files of
//! open endpoints in `/dev/shm` are removed at the end.

use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Number of calls of [`enter`], by all threads, that have not left.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// Number of the thread that ends the process; 0 before that.
static LEAVING: AtomicUsize = AtomicUsize::new(0);
/// ID of the process that has loaded libfabric. A forked child has none of the other threads, but inherits their share
/// of the count.
static PROCESS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Number of calls of [`enter`] by this thread that have not left.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Returns this thread's number, which is never 0.
fn me() -> usize {
    DEPTH.with(|depth| core::ptr::from_ref(depth).addr())
}

/// Proof that this thread has entered libfabric. Dropping it leaves.
#[derive(Debug)]
pub(crate) struct Inside(());

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Shared-memory files of the open endpoints. libfabric leaves the files behind if a process ends without closing its
/// endpoints.
static FILES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A shared-memory file, on the list while its endpoint is open.
#[derive(Debug)]
pub(crate) struct File(String);

impl File {
    /// Adds the file of the endpoint with this address to the list; `None` if the provider is not `shm`.
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

/// Enters libfabric. Returns `None` if another thread is ending the process.
pub(crate) fn enter() -> Option<Inside> {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let inside = Inside(());
    let leaving = LEAVING.load(Ordering::SeqCst);
    (leaving == 0 || leaving == me()).then_some(inside)
}

/// Registers the exit handler that keeps threads out. libfabric must be loaded before this call: then its own exit
/// handler runs after this one.
pub(crate) fn watch() {
    PROCESS.store(std::process::id() as usize, Ordering::Relaxed);
    // SAFETY: atexit may be called at any time. It fails only if the process is out of memory.
    let _ = unsafe { libc::atexit(leave) };
}

extern "C" fn leave() {
    if PROCESS.load(Ordering::Relaxed) != std::process::id() as usize {
        return;
    }
    LEAVING.store(me(), Ordering::SeqCst);
    // The count may contain calls of this thread itself, if a signal handler ends the process.
    while INSIDE.load(Ordering::SeqCst) > DEPTH.with(Cell::get) {
        std::thread::yield_now();
    }
    // Threads use the list only after they have entered. So only this thread itself can hold the lock.
    if let Ok(mut files) = FILES.try_lock() {
        files.drain(..).for_each(|path| drop(std::fs::remove_file(path)));
    }
}
