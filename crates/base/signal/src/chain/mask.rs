//! Signal mask of the calling thread: the kernel's mask, and the mask that the program believes to be set.

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

/// Changes or reads the kernel's signal mask of the calling thread, without a change of the records here.
pub fn kernel_mask(how: c_int, new: Option<u64>, old: Option<&mut u64>) {
    let new = new.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let old = old.map_or(core::ptr::null_mut(), core::ptr::from_mut);
    // SAFETY: the system call reads and writes eight bytes of live locals, or nothing.
    let _ = unsafe { syscalls::syscall!(Sysno::rt_sigprocmask, how, new, old, size_of::<u64>()) };
}

/// Returns the part of a program's change of the mask that the kernel must get. Faults of memory are never
/// blocked. An unblocking passes unchanged, because the kernel may have blocked a fault for a handler that was
/// left since.
pub fn passed_on(how: c_int, set: u64) -> u64 {
    if how == libc::SIG_UNBLOCK { set } else { set & !MEMORY_FAULTS }
}

/// Records the change of the mask that the program has asked for. `set` is the program's argument. The program
/// then sees the kernel's mask with the signals of [`believed`].
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

/// Returns the signals that the program believes to be blocked on this thread, although the kernel does not block
/// them.
pub fn believed() -> u64 {
    u64::from(state().believed.load(Ordering::Relaxed))
}
