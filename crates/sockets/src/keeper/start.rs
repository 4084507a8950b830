//! Starts a keeper.
//!
//! The maker forks a child. The child forks the keeper, waits until the keeper is ready, and ends. So the keeper is
//! an orphan, and no `wait` of the program finds it. The maker waits for the child's end. The child waits on a pipe
//! that only the child and the keeper have. So the child also notices if the keeper is killed. A pipe of the maker
//! would not do: children that other threads of the program fork meanwhile would inherit the pipe. The maker would
//! then wait as long as these children live.
//!
//! The keeper waits for a record lock that its maker holds. The kernel releases a record lock when the lock's
//! process ends or executes a program, and does not pass the lock to children.

use super::Candidate;
use super::life::Life;
use super::shared::Shared;
use crate::members::MEMBERS;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sys::poll::{PollFd, ppoll};
use sovia_sys::{call, process as processes, record_lock};

/// The lock that a maker holds until the maker has moved the bytes to its keeper.
pub(super) struct Lock {
    /// File with the family's locks.
    pub(super) file: i32,
    /// The lock's byte in the file. No other thread of the family uses this byte, and this thread uses another byte
    /// for another keeper.
    pub(super) byte: u64,
}

impl Lock {
    pub(super) fn take(file: i32) -> Option<Lock> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed) as u64;
        // The first bytes of the file belong to process slots. Thread ids have 22 bits.
        let byte = (MEMBERS as u64 + count) | (call::gettid() as u64) << 33;
        record_lock::take(file, byte).ok()?;
        Some(Lock { file, byte })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = record_lock::give_back(self.file, self.byte);
    }
}

/// Starts a keeper that waits until the lock is released. Returns the keeper's id.
pub(super) fn start(candidates: &[Candidate], shared: &Shared, lock: &Lock) -> Option<i32> {
    let mut life = Life::new(candidates, shared, lock);
    let child = processes::without_signals(|| {
        // SAFETY: the copy runs `start_orphan`, which makes only system calls and ends by one.
        let child = unsafe { processes::copy() };
        if child == Ok(0) {
            start_orphan(&mut life);
        }
        child
    });
    let _ = call::reap(child.ok()?);
    // A keeper that has not stored its id is useless. Such a keeper finds that no bytes have been moved to it, and
    // ends.
    Some(shared.keeper().load(Ordering::Acquire)).filter(|&id| id != 0)
}

/// Code of the child: starts the keeper, and waits until the keeper is ready or has ended.
fn start_orphan(life: &mut Life<'_>) -> ! {
    // Close other descriptors first, so that descriptor numbers are free for a pipe.
    life.keep_only();
    if let Ok([ready, tells]) = call::pipe() {
        // SAFETY: the copy runs `Life::live`, which makes only system calls and ends by one.
        let copy = unsafe { processes::copy() };
        let _ = call::close(if copy == Ok(0) { ready } else { tells });
        match copy {
            Ok(0) => life.live(tells),
            Ok(_) => {
                // Wait until the keeper's end of the pipe is closed, because the keeper is ready or has ended.
                let mut fds = [PollFd { fd: ready, events: libc::POLLIN, revents: 0 }];
                while ppoll(&mut fds, None, None) == Err(call::Errno::EINTR) {}
            }
            Err(_) => {}
        }
    }
    call::exit_now();
}
