//! The calling thread's signal mask: the kernel's, and what the program believes of it.

use super::MEMORY_FAULTS;
use crate::thread::state;
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use syscalls::Sysno;

const _: () = assert!(MEMORY_FAULTS <= u32::MAX as u64);

/// Replaces the calling thread's signal mask.
pub(crate) fn set_mask(mask: u64) {
    kernel_mask(libc::SIG_SETMASK, Some(mask), None);
}

/// The kernel's signal mask of the calling thread, past everything that is noted here.
pub fn kernel_mask(how: c_int, new: Option<u64>, old: Option<&mut u64>) {
    let new = new.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let old = old.map_or(core::ptr::null_mut(), core::ptr::from_mut);
    // SAFETY: a system call that reads and writes eight bytes, or nothing, of live locals.
    let _ = unsafe { syscalls::syscall!(Sysno::rt_sigprocmask, how, new, old, size_of::<u64>()) };
}

/// What the kernel is told of such a change of the program's: no more than that faults of memory are never blocked. They
/// are unblocked, where the kernel has blocked one for its handler, and that has been left.
pub fn passed_on(how: c_int, set: u64) -> u64 {
    if how == libc::SIG_UNBLOCK { set } else { set & !MEMORY_FAULTS }
}

/// Notes what the program has asked for; `set` is its argument. The mask that it is shown is then
/// [`believed`]'s.
pub fn believe(how: c_int, set: u64) {
    let believed = &state().believed;
    let faults = (set & MEMORY_FAULTS) as u32;
    let before = believed.load(Ordering::Relaxed);
    let now = match how {
        libc::SIG_BLOCK => before | faults,
        libc::SIG_UNBLOCK => before & !faults,
        _ => faults,
    };
    believed.store(now, Ordering::Relaxed);
}

/// The signals that the program believes blocked on this thread beyond those that are.
pub fn believed() -> u64 {
    u64::from(state().believed.load(Ordering::Relaxed))
}
