//! Start of a keeper.
//!
//! The maker forks a child. The child forks the keeper, waits until the keeper is ready, and ends. So the keeper is
//! an orphan, and no `wait` of the program finds it. The maker waits for the child's end. The child waits for a pipe
//! of its own, which only the keeper has as well. So the child also notices if the keeper is killed. A pipe of the
//! maker would also go to every child that another thread of the program forks meanwhile. The wait would then last as
//! long as that child lives.
//!
//! The keeper waits for its maker by a record lock. The kernel releases a record lock when its process ends or
//! executes a program, and does not pass it to children.

use super::Candidate;
use super::life::Life;
use super::shared::Shared;
use crate::members::MEMBERS;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sys::poll::{PollFd, ppoll};
use sovia_sys::{call, process as processes, record_lock};

/// The lock that a maker holds until it has moved the bytes.
pub(super) struct Lock {
    /// File with the family's locks.
    pub(super) file: i32,
    /// The lock's byte in the file. No other thread of the family uses this byte, nor does this thread for another
    /// keeper.
    pub(super) byte: u64,
}

impl Lock {
    pub(super) fn take(file: i32) -> Option<Lock> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed) as u64;
        // The first bytes belong to process slots. Thread ids have 22 bits.
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
    // Without an id the keeper is useless: it finds that no bytes have been moved to it, and ends.
    Some(shared.keeper().load(Ordering::Acquire)).filter(|&id| id != 0)
}

/// Code of the child: starts the keeper, and waits until the keeper is ready or has ended.
fn start_orphan(life: &mut Life<'_>) -> ! {
    // Close descriptors first, so that there are numbers for a pipe.
    life.keep_only();
    if let Ok([ready, tells]) = call::pipe() {
        // SAFETY: the copy runs `Life::live`, which makes only system calls and ends by one.
        let copy = unsafe { processes::copy() };
        let _ = call::close(if copy == Ok(0) { ready } else { tells });
        match copy {
            Ok(0) => life.live(tells),
            Ok(_) => {
                // The keeper's end of the pipe is closed when the keeper is ready, or has ended.
                let mut fds = [PollFd { fd: ready, events: libc::POLLIN, revents: 0 }];
                while ppoll(&mut fds, None, None) == Err(call::Errno::EINTR) {}
            }
            Err(_) => {}
        }
    }
    call::exit_now();
}
