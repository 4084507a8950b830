//! Fences between a thread that does something often and one that does its counterpart seldom.
//!
//! The frequent thread writes one word and reads another, the rare one the other way round, and at least
//! one of the two must see what the other has written. That takes a full fence in each of them between
//! writing and reading. Here the rare thread has the kernel put the fence into the others (`membarrier`),
//! so that the frequent one needs none (`light`, `heavy`). Where the kernel does not do that, or must not
//! be asked any more, the frequent threads fence themselves.
//!
//! The kernel keeps a process's registration for its forked children, and forgets it at exec.

use crate::shim::{AtomicU32, Ordering, fence};
use core::sync::atomic::compiler_fence;
use sovia_sys::process;

const UNKNOWN: u32 = 0;
const USERS_FENCE: u32 = 1;
const KERNEL_FENCES: u32 = 2;
/// Threads fence themselves, and some may not have seen that yet.
const BOTH: u32 = 3;

/// Whether the kernel puts the fences, or each thread its own.
#[cfg(not(loom))]
static FENCES: AtomicU32 = AtomicU32::new(UNKNOWN);
#[cfg(loom)]
loom::lazy_static! {
    static ref FENCES: AtomicU32 = AtomicU32::new(USERS_FENCE);
}

/// Whose threads a fence is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Those of this process.
    Process,
    /// Those of every process in which [`find_out`] has found that the kernel puts the fences.
    Host,
}

/// Whether it is known if the kernel puts the fences.
pub fn are_known() -> bool {
    FENCES.load(Ordering::Relaxed) != UNKNOWN
}

/// Finds out whether the kernel puts the fences, unless that is known. In a process of several threads the kernel
/// takes tens of milliseconds for it, so no call waits for that: before, every thread fences itself. A process that
/// never needs more asks the kernel nothing.
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

/// From here on no thread of this process has the kernel put fences: each fences itself.
pub fn without_kernel() {
    let (from, to) = (KERNEL_FENCES, BOTH);
    if FENCES.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        // SYNC: the last one. A thread that fences itself comes after it; for a thread that did not yet, this
        // was the fence. Until then `heavy` asks the kernel, too.
        let _ = process::barrier();
    }
    FENCES.store(USERS_FENCE, Ordering::SeqCst);
}

/// Whether the kernel puts the fences now, for whichever reach.
#[inline(always)]
pub fn are_from_kernel() -> bool {
    FENCES.load(Ordering::Relaxed) == KERNEL_FENCES
}

/// In a thread that does the frequent thing, between writing and reading.
#[inline(always)]
pub fn light() {
    if are_from_kernel() {
        // SYNC: `heavy` puts a true fence here, from outside.
        compiler_fence(Ordering::SeqCst);
    } else {
        light_by_users();
    }
}

#[cold]
#[inline(never)]
fn light_by_users() {
    // SYNC: with the one in `heavy`.
    fence(Ordering::SeqCst);
}

/// In a thread that does the rare thing, between writing and reading; a few microseconds. False if it could
/// not be had: threads that do the frequent thing may not see what the caller has written, or the caller
/// not what they have.
#[must_use]
pub fn heavy(reach: Reach) -> bool {
    // SYNC: with the fence of a thread that fences itself.
    fence(Ordering::SeqCst);
    let fences = match FENCES.load(Ordering::SeqCst) {
        UNKNOWN => ask(),
        found => found,
    };
    match (fences, reach) {
        // Others may still have the kernel do it.
        (USERS_FENCE, reach) => reach == Reach::Process,
        (_, Reach::Process) => process::barrier().is_ok(),
        (_, Reach::Host) => process::barrier_of_all().is_ok(),
    }
}

/// Like [`heavy`], for what a missing fence only delays: the kernel is asked nothing before it is known to do it.
pub(crate) fn heavy_if_known(reach: Reach) {
    if matches!(FENCES.load(Ordering::SeqCst), KERNEL_FENCES | BOTH) {
        let _ = heavy(reach);
    } else {
        // SYNC: with the fence of a thread that fences itself.
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    /// Many times over, two threads write a word each and read the other's: never does neither see it.
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
