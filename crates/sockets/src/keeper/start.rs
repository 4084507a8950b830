//! How a keeper comes to be.
//!
//! Its maker forks a child, which forks the keeper, waits until that is ready and ends: the keeper is an orphan, which no
//! `wait` of the program's finds. The maker waits for the child's end. The child waits for a pipe of its own, which only
//! the keeper has as well, so it finds the end of one that is killed. Were it a pipe of the maker's, any other child that
//! a thread of the program's forks meanwhile would have it, and the wait would last for as long as that child lives.
//!
//! The keeper waits for its maker by a record lock, which the kernel takes from a process that ends or becomes another
//! program, and passes to no child.

use super::Candidate;
use super::life::Life;
use super::shared::Shared;
use crate::members::MEMBERS;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sys::poll::{PollFd, ppoll};
use sovia_sys::{call, process as processes, record_lock};

/// The lock that a maker holds until it has moved the rests.
pub(super) struct Lock {
    /// The file with the family's locks.
    pub(super) file: i32,
    /// Its byte there, which no other thread of the family uses, nor this one for another keeper.
    pub(super) byte: u64,
}

impl Lock {
    pub(super) fn take(file: i32) -> Option<Lock> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed) as u64;
        // Processes' places are the first ones; thread ids have 22 bits.
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

/// Starts a keeper that waits until the lock is given back; its id.
pub(super) fn start(candidates: &[Candidate], shared: &Shared, lock: &Lock) -> Option<i32> {
    let mut life = Life::new(candidates, shared, lock);
    let child = processes::without_signals(|| {
        // SAFETY: the copies make system calls, and end by one.
        let child = unsafe { processes::copy() };
        if child == Ok(0) {
            start_orphan(&mut life);
        }
        child
    });
    let _ = call::reap(child.ok()?);
    // Without it the keeper is none: it finds that nothing has been moved to it, and ends.
    Some(shared.keeper().load(Ordering::Acquire)).filter(|&id| id != 0)
}

/// The child that starts the keeper, and waits until that is ready or has ended.
fn start_orphan(life: &mut Life<'_>) -> ! {
    // First: there are numbers for a pipe then.
    life.keep_only();
    if let Ok([ready, tells]) = call::pipe() {
        // SAFETY: as for this one, and the other copy ends by a system call, too.
        let copy = unsafe { processes::copy() };
        let _ = call::close(if copy == Ok(0) { ready } else { tells });
        match copy {
            Ok(0) => life.live(tells),
            Ok(_) => {
                // The other end is closed when the keeper is ready, or has ended.
                let mut fds = [PollFd { fd: ready, events: libc::POLLIN, revents: 0 }];
                while ppoll(&mut fds, None, None) == Err(call::Errno::EINTR) {}
            }
            Err(_) => {}
        }
    }
    call::exit_now();
}
