//! A stack for this program's own work, for a user with a low stack limit (`ulimit -s 64`).

use std::mem;
use std::num::NonZero;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect};
use nix::sys::resource::{Resource, getrlimit};

/// Stack limit from which on the kernel's stack is large enough.
const ENOUGH_BYTES: u64 = 1 << 20;
/// Size of the own stack in bytes. The kernel allocates pages when they are touched.
const OWN_BYTES: usize = 4 << 20;
/// Size of the guard area below the stack, on which an overflow faults. It is as large as the largest page.
const GUARD_BYTES: usize = 64 << 10;

/// Calls `work`, on a larger stack if the limit is low. The work runs on the calling thread. So the thread's ID, its
/// signals, its limit, and all that an executed program inherits stay the same.
///
/// Call this only once, before any other work.
pub fn with_room<R>(work: impl FnOnce() -> R) -> R {
    let is_enough = |(limit, _)| limit >= ENOUGH_BYTES;
    if getrlimit(Resource::RLIMIT_STACK).map_or(true, is_enough) {
        return work();
    }
    let mut job = Job { work: Some(work), result: None };
    if on_own_stack(&mut job)
        && let Some(result) = job.result
    {
        return result;
    }
    // A new stack was not available.
    match job.work {
        Some(work) => work(),
        None => unreachable!("it returns when it is done"),
    }
}

struct Job<W, R> {
    work: Option<W>,
    result: Option<R>,
}

/// Job for the other stack, whose first function has no arguments.
static JOB: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

extern "C" fn begin<W: FnOnce() -> R, R>() {
    let job: *mut Job<W, R> = JOB.swap(ptr::null_mut(), Ordering::Relaxed).cast();
    // SAFETY: `on_own_stack` has stored a pointer to a job of these types. The job lives until this function returns,
    // and `on_own_stack` does not use it meanwhile.
    if let Some(job) = unsafe { job.as_mut() }
        && let Some(work) = job.work.take()
    {
        job.result = Some(work());
    }
}

/// Runs a job on a new stack. Returns false, without running it, if the stack is not available.
fn on_own_stack<W: FnOnce() -> R, R>(job: &mut Job<W, R>) -> bool {
    let Some(all) = NonZero::new(GUARD_BYTES + OWN_BYTES) else { return false };
    let (access, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
    let flags = flags | MapFlags::MAP_NORESERVE | MapFlags::MAP_STACK;
    // SAFETY: the kernel chooses the address of the new mapping, so it replaces no other. It stays mapped until the
    // process ends.
    let Ok(memory) = (unsafe { mmap_anonymous(None, all, access, flags) }) else { return false };
    // SAFETY: the range is the lowest part of the new mapping, which no code uses.
    let _ = unsafe { mprotect(memory, GUARD_BYTES, ProtFlags::PROT_NONE) };
    // SAFETY: the structures consist of numbers and pointers, for which zeroes are valid values.
    let (mut here, mut there): (libc::ucontext_t, libc::ucontext_t) = unsafe { mem::zeroed() };
    // SAFETY: the pointer is to a live ucontext_t.
    if unsafe { libc::getcontext(&raw mut there) } != 0 {
        return false;
    }
    // The address is inside the mapping, after the guard pages.
    there.uc_stack.ss_sp = memory.as_ptr().cast::<u8>().wrapping_add(GUARD_BYTES).cast();
    there.uc_stack.ss_size = OWN_BYTES;
    there.uc_link = &raw mut here;
    JOB.store(ptr::from_mut(job).cast(), Ordering::Relaxed);
    // SAFETY: getcontext has filled the context, and its stack is memory of this function's mapping. The function takes
    // no arguments, and a panic in it ends the process. `here` lives until the function has returned to it.
    unsafe {
        libc::makecontext(&raw mut there, begin::<W, R>, 0);
        libc::swapcontext(&raw mut here, &raw const there) == 0
    }
}
