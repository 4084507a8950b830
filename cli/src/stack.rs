//! A stack with room for our own work, where the limit that the user has set leaves little (`ulimit -s 64`).

use std::mem;
use std::num::NonZero;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect};
use nix::sys::resource::{Resource, getrlimit};

/// From this limit on the stack that the kernel has given does.
const ENOUGH_BYTES: u64 = 1 << 20;
/// Bytes of our own. The kernel gives pages as they are touched.
const OWN_BYTES: usize = 4 << 20;
/// Below them, so that an overflow ends the program and damages nothing. As large as the largest page.
const GUARD_BYTES: usize = 64 << 10;

/// Does work that may need more stack than the limit allows, on the calling thread: what is the thread's (its id, its signals, what a
/// program that it becomes inherits) stays as it is, and so does the limit.
///
/// To be called once, first of all.
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
    // There is no other stack.
    match job.work {
        Some(work) => work(),
        None => unreachable!("it returns when it is done"),
    }
}

struct Job<W, R> {
    work: Option<W>,
    result: Option<R>,
}

/// What is to be done on the other stack: that stack's first function has no arguments.
static JOB: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

extern "C" fn begin<W: FnOnce() -> R, R>() {
    let job: *mut Job<W, R> = JOB.swap(ptr::null_mut(), Ordering::Relaxed).cast();
    // SAFETY: `on_own_stack` has put a job of these types there, which lives until this returns, and which it does not touch meanwhile.
    if let Some(job) = unsafe { job.as_mut() }
        && let Some(work) = job.work.take()
    {
        job.result = Some(work());
    }
}

/// Does a job on a stack that is made for it; false if there is none, and the job is not done.
fn on_own_stack<W: FnOnce() -> R, R>(job: &mut Job<W, R>) -> bool {
    let Some(all) = NonZero::new(GUARD_BYTES + OWN_BYTES) else { return false };
    let (access, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
    let flags = flags | MapFlags::MAP_NORESERVE | MapFlags::MAP_STACK;
    // SAFETY: memory where the kernel chooses, which nothing else has. It stays until the process ends.
    let Ok(memory) = (unsafe { mmap_anonymous(None, all, access, flags) }) else { return false };
    // SAFETY: its lowest part, which nothing uses.
    let _ = unsafe { mprotect(memory, GUARD_BYTES, ProtFlags::PROT_NONE) };
    // SAFETY: plain structures of numbers and pointers, for which zeros are values; `getcontext` fills them.
    let (mut here, mut there): (libc::ucontext_t, libc::ucontext_t) = unsafe { mem::zeroed() };
    // SAFETY: there is room for a context.
    if unsafe { libc::getcontext(&raw mut there) } != 0 {
        return false;
    }
    // Within the memory.
    there.uc_stack.ss_sp = memory.as_ptr().cast::<u8>().wrapping_add(GUARD_BYTES).cast();
    there.uc_stack.ss_size = OWN_BYTES;
    there.uc_link = &raw mut here;
    JOB.store(ptr::from_mut(job).cast(), Ordering::Relaxed);
    // SAFETY: the context has been filled, and its stack is memory of our own. The function takes no arguments, and unwinds into
    // nothing: a panic in it ends the process. `here` lives until the function has returned to it.
    unsafe {
        libc::makecontext(&raw mut there, begin::<W, R>, 0);
        libc::swapcontext(&raw mut here, &raw const there) == 0
    }
}
