//! Fences between a thread that does something often and a thread that does the counterpart rarely.
//!
//! The frequent thread writes one word and reads another word. The rare thread does the same in the opposite
//! order. At least one of them must see the other's store, so each needs a full fence between its store and its
//! load. Here the rare thread lets the kernel execute the fence in the frequent threads (`membarrier`). So the
//! frequent thread needs no fence of its own (`light`, `heavy`). If the kernel does not support this, or the
//! process must not ask any more, each frequent thread executes a fence itself.
//!
//! The kernel copies a process's registration for membarrier to forked children, and drops the registration at
//! exec.

use crate::shim::{AtomicU32, Ordering, fence};
use core::sync::atomic::compiler_fence;
use sovia_sys::process;

const UNKNOWN: u32 = 0;
const USERS_FENCE: u32 = 1;
const KERNEL_FENCES: u32 = 2;
/// Threads fence themselves, and some threads may not have seen this change yet.
const BOTH: u32 = 3;

/// Source of the fences: the kernel or each thread.
#[cfg(not(loom))]
static FENCES: AtomicU32 = AtomicU32::new(UNKNOWN);
#[cfg(loom)]
loom::lazy_static! {
    static ref FENCES: AtomicU32 = AtomicU32::new(USERS_FENCE);
}

/// The threads that a fence must reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The threads of this process.
    Process,
    /// The threads of every process in which [`find_out`] has found that the kernel executes the fences.
    Host,
}

/// Returns true if this process knows whether the kernel executes the fences.
pub fn are_known() -> bool {
    FENCES.load(Ordering::Relaxed) != UNKNOWN
}

/// Finds out whether the kernel executes the fences, unless this is known already. In a process with several
/// threads the kernel takes tens of milliseconds to answer. So no call waits for the answer, and until then each
/// thread fences itself. A process that never calls this asks the kernel nothing.
pub fn find_out() {
    if !are_known() {
        ask();
    }
}

#[cold]
fn ask() -> u32 {
    let works = process::enable_barrier()
        && process::barrier().is_ok()
        && process::enable_barrier_of_all()
        && process::barrier_of_all().is_ok();
    let found = if works { KERNEL_FENCES } else { USERS_FENCE };
    match FENCES.compare_exchange(UNKNOWN, found, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => found,
        Err(first) => first,
    }
}

/// Stops the use of the kernel's fences: from here on each thread of this process fences itself.
pub fn without_kernel() {
    let (from, to) = (KERNEL_FENCES, BOTH);
    if FENCES.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        // SYNC: the kernel's last fence. A thread that fences itself does so after this fence. For every other
        // thread this was the fence. Until then `heavy` also asks the kernel.
        let _ = process::barrier();
    }
    FENCES.store(USERS_FENCE, Ordering::SeqCst);
}

/// Returns true if the kernel executes the fences at this moment, for any [`Reach`].
#[inline(always)]
pub fn are_from_kernel() -> bool {
    FENCES.load(Ordering::Relaxed) == KERNEL_FENCES
}

/// Orders a store before a later load, in the frequent thread.
#[inline(always)]
pub fn light() {
    if are_from_kernel() {
        // SYNC: `heavy` makes the kernel execute a full fence in this thread.
        compiler_fence(Ordering::SeqCst);
    } else {
        light_by_users();
    }
}

#[cold]
#[inline(never)]
fn light_by_users() {
    // SYNC: pairs with the fence in `heavy`.
    fence(Ordering::SeqCst);
}

/// Orders a store before a later load, in the rare thread. Takes a few microseconds. Returns false if the fence
/// failed: a frequent thread may then miss the caller's store, or the caller may miss the frequent thread's
/// store.
#[must_use]
pub fn heavy(reach: Reach) -> bool {
    // SYNC: pairs with the fence of a thread that fences itself.
    fence(Ordering::SeqCst);
    let fences = match FENCES.load(Ordering::SeqCst) {
        UNKNOWN => ask(),
        found => found,
    };
    match (fences, reach) {
        // Threads of other processes may still depend on the kernel's fences.
        (USERS_FENCE, reach) => reach == Reach::Process,
        (_, Reach::Process) => process::barrier().is_ok(),
        (_, Reach::Host) => process::barrier_of_all().is_ok(),
    }
}

/// Like [`heavy`], for cases in which a missing fence only causes a delay. Does not ask the kernel before it is
/// known that the kernel executes the fences.
pub(crate) fn heavy_if_known(reach: Reach) {
    if matches!(FENCES.load(Ordering::SeqCst), KERNEL_FENCES | BOTH) {
        let _ = heavy(reach);
    } else {
        // SYNC: pairs with the fence of a thread that fences itself.
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    /// Lets two threads write one word each and read the other's, many times. At least one of them must see the
    /// other's store.
    fn one_of_two_sees_the_other(reach: Reach) {
        const ROUNDS: u32 = 20_000;
        if !heavy(reach) {
            println!("skipped: this kernel puts no fences into other threads");
            return;
        }
        let (mine, theirs, go) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let frequent_saw = AtomicBool::new(false);
        let done = AtomicU32::new(0);
        std::thread::scope(|s| {
            s.spawn(|| {
                for round in 1..=ROUNDS {
                    while go.load(Ordering::Acquire) != round {
                        std::thread::yield_now();
                    }
                    mine.store(round, Ordering::Relaxed);
                    light();
                    frequent_saw.store(theirs.load(Ordering::Relaxed) == round, Ordering::Relaxed);
                    done.store(round, Ordering::Release);
                }
            });
            for round in 1..=ROUNDS {
                go.store(round, Ordering::Release);
                theirs.store(round, Ordering::Relaxed);
                assert!(heavy(reach));
                let rare_saw = mine.load(Ordering::Relaxed) == round;
                while done.load(Ordering::Acquire) != round {
                    std::thread::yield_now();
                }
                assert!(rare_saw || frequent_saw.load(Ordering::Relaxed), "round {round}");
            }
        });
    }

    #[test]
    fn one_of_two_threads_sees_the_other() {
        one_of_two_sees_the_other(Reach::Process);
        one_of_two_sees_the_other(Reach::Host);
    }
}
