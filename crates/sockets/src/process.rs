//! This process. The library must distinguish it from children that run on its memory or on a copy of its memory.
//!
//! The library notices at once a child that libc forks, or that a libc call makes ([`crate::fork`]). The library
//! detects other children as follows:
//!
//! - A child of vfork runs on this process's memory, on its parent's thread, while the parent waits. The thread is
//!   marked as *lent* ([`sovia_sync::thread`]).
//! - A child of clone with CLONE_VM also runs on this process's memory, and the parent does not wait. Once such a
//!   child has been made, the library asks the kernel for the caller's process id.
//! - A child made by an inline system call has a copy of this process's memory, and the library is not notified.
//!   The kernel wipes one page in such a copy (`is_elsewhere`).

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering, fence};
use sovia_control::Reason;
use sovia_sync::{Held, Local, RobustLock, rank, thread};
use sovia_sys::{call, mapping};

/// Process that owns this module's tables.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// A memory page that holds only the word `here`.
#[repr(align(4096))]
struct Page {
    /// [`HERE`] in the process that has marked the page. [`SHARED_HERE`] once children that do not make the parent
    /// wait run on this process's memory. 0 in a copy made by an inline system call.
    here: AtomicU32,
    _rest: [AtomicU32; 1023],
}

const HERE: u32 = 1;
const SHARED_HERE: u32 = 2;

sovia_sys::tables! {
    static PAGE: Page = Page { here: AtomicU32::new(0), _rest: [const { AtomicU32::new(0) }; 1023] };
}

/// Set if the kernel wipes `PAGE` in copies of this process's memory.
static WIPED: AtomicBool = AtomicBool::new(false);

/// Set once a child has shared this process's memory without making its parent wait.
static SHARED: AtomicBool = AtomicBool::new(false);

/// Function that a process runs when it finds that it is a copy made by an inline system call.
static ADOPT: AtomicUsize = AtomicUsize::new(0);

/// Set while a thread changes this process's credentials. Meanwhile this process shares nothing new.
static CHANGING: AtomicBool = AtomicBool::new(false);

/// Begins a change of this process's credentials, after any other change has ended.
pub(crate) fn begin_change() {
    while CHANGING.swap(true, Ordering::SeqCst) {
        call::sched_yield();
    }
}

/// Ends the change of credentials.
pub(crate) fn end_change() {
    CHANGING.store(false, Ordering::SeqCst);
}

/// Returns true while a thread changes this process's credentials.
pub(crate) fn is_changing() -> bool {
    CHANGING.load(Ordering::SeqCst)
}

/// A lock on a cache line of its own.
#[repr(align(64))]
struct Padded(RobustLock<Local, { rank::STEP }>);

/// Locks that threads hold while they record a new connection. Threads are spread over the locks by their ids. A thread
/// that dies in this section leaves no lock behind.
static RECORDING: [Padded; 16] = [const { Padded(RobustLock::new()) }; 16];

/// While this process leaves the memory that it shares with its relatives: number of the [`Reason`], plus 1. Else 0.
static LEAVING: AtomicU32 = AtomicU32::new(0);

/// Guard: while this value lives, the calling thread records a new connection, and this process keeps its shared memory.
pub(crate) type Recording = Held<'static, Local, { rank::STEP }>;

/// Begins to record a new connection.
///
/// # Errors
/// Returns the reason while this process leaves its shared memory: the connection's record would lie in memory that other
/// memory replaces.
pub(crate) fn begin_recording() -> Result<Recording, Reason> {
    let recording = RECORDING[thread::thread_id() as usize % RECORDING.len()].0.guard();
    // SYNC: pairs with `begin_leaving`. Either this thread sees that the process leaves, or the leaving thread waits for
    // this thread's lock.
    if UNDER_SECCOMP.load(Ordering::SeqCst) {
        return Err(Reason::Filter);
    }
    match LEAVING.load(Ordering::SeqCst).checked_sub(1) {
        None => Ok(recording),
        Some(number) => Err(Reason::of(number).unwrap_or(Reason::FallbackCredentials)),
    }
}

/// Begins to leave the shared memory: waits until no thread records a connection, and lets none begin. Called only
/// during a change ([`begin_change`]).
pub(crate) fn begin_leaving(reason: Reason) {
    LEAVING.store(reason as u32 + 1, Ordering::SeqCst);
    RECORDING.iter().for_each(|lock| drop(lock.0.guard()));
}

/// Lets threads record connections again.
pub(crate) fn end_leaving() {
    LEAVING.store(0, Ordering::Release);
}

/// Called before fork: waits until no thread records a connection, and lets none begin until [`release_recording`].
pub(crate) fn hold_recording() {
    RECORDING.iter().for_each(|lock| lock.0.hold());
}

/// Called after fork, in parent and child: releases what [`hold_recording`] locked.
pub(crate) fn release_recording() {
    RECORDING.iter().for_each(|lock| lock.0.release());
}

/// Set once the program has put this process under a seccomp filter, or is about to.
static UNDER_SECCOMP: AtomicBool = AtomicBool::new(false);

/// Returns true if the program has put this process under a seccomp filter, or is about to. Only the program knows
/// which calls the filter allows, so Sovia then makes no system calls of its own.
#[inline]
pub fn is_under_seccomp() -> bool {
    UNDER_SECCOMP.load(Ordering::Relaxed)
}

/// Returned instead of an errno if the process has come under a seccomp filter during a wait. The caller then makes
/// libc's call.
pub const PLAIN: crate::Errno = crate::Errno::MAX;

/// Number of threads that wait for several descriptors and may make system calls that the program does not ask for.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// Keeps the calling thread counted in `WAITING` until this value is dropped.
pub(crate) struct Waiting(());

/// Counts the calling thread in `WAITING`, as waiting for several descriptors.
///
/// # Errors
/// [`PLAIN`] if the process is under a seccomp filter, or is about to be.
pub(crate) fn begin_waiting() -> Result<Waiting, crate::Errno> {
    let waiting = Waiting(());
    WAITING.fetch_add(1, Ordering::SeqCst);
    // SYNC: pairs with `enter_seccomp` and `has_waiting`. Either this thread sees `UNDER_SECCOMP`, or the thread that
    // sets the filter up sees this thread's count and waits.
    fence(Ordering::SeqCst);
    if is_under_seccomp() { Err(PLAIN) } else { Ok(waiting) }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Stop at 0, because a forked child's count has begun again at 0.
        let less = |count: u32| Some(count.saturating_sub(1));
        let _ = WAITING.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }
}

/// Returns true if a thread waits for several descriptors.
pub(crate) fn has_waiting() -> bool {
    WAITING.load(Ordering::SeqCst) != 0
}

/// Records that the program is about to put this process under a seccomp filter.
pub(crate) fn enter_seccomp() {
    UNDER_SECCOMP.store(true, Ordering::SeqCst);
}

/// Set in a relay.
static IS_RELAY: AtomicBool = AtomicBool::new(false);

/// Returns true if this process is a relay.
pub(crate) fn is_relay() -> bool {
    IS_RELAY.load(Ordering::Relaxed)
}

/// Prepares this forked process to become a relay. Its parent is about to leave all shared memory, but the relay
/// keeps the shared memory.
pub(crate) fn become_relay() {
    IS_RELAY.store(true, Ordering::Relaxed);
    UNDER_SECCOMP.store(false, Ordering::SeqCst);
    end_change();
}

/// Returns true if the caller is a child that runs on this process's memory. The child may use this memory, but has
/// its own table of descriptors.
#[inline]
pub fn is_borrowed() -> bool {
    thread::is_lent()
        || SHARED.load(Ordering::Relaxed) && OWNER.load(Ordering::Relaxed) != call::getpid()
}

/// Returns true if the caller certainly is the process that owns these tables. May return false for the owner.
/// Costs two loads of cache lines that are almost never written.
#[inline(always)]
pub(crate) fn is_at_home() -> bool {
    PAGE.here.load(Ordering::Relaxed) == HERE && !thread::is_lent()
}

/// Returns true if the caller is a child that runs on this process's memory, and so not the owner of the tables.
#[inline]
pub(crate) fn is_elsewhere() -> bool {
    !is_at_home() && find_out()
}

/// The slow path of [`is_elsewhere`]. A copy made by an inline system call first joins the family.
#[cold]
#[inline(never)]
fn find_out() -> bool {
    if thread::is_lent() {
        return true;
    }
    if PAGE.here.load(Ordering::Relaxed) == 0 && WIPED.load(Ordering::Relaxed) {
        let adopt = ADOPT.load(Ordering::Acquire);
        if adopt != 0 && OWNER.load(Ordering::Relaxed) != call::getpid() {
            // SAFETY: only `adopt_by` stores here, and only functions of this type.
            let adopt = unsafe { core::mem::transmute::<usize, fn()>(adopt) };
            adopt();
        }
        own();
    }
    is_borrowed()
}

/// Sets the function by which a copy made by an inline system call joins the family. Called once, at the start.
pub(crate) fn adopt_by(function: fn()) {
    ADOPT.store(function as usize, Ordering::Release);
}

/// Records a coming child that shares this process's memory and does not make the parent wait. Called before the
/// child is made.
pub fn shares_memory() {
    SHARED.store(true, Ordering::Relaxed);
    PAGE.here.store(SHARED_HERE, Ordering::Relaxed);
}

/// Returns true once [`shares_memory`] has been called.
pub(crate) fn has_shared() -> bool {
    SHARED.load(Ordering::Relaxed)
}

/// Returns this process's id as stored at its start, without a system call.
#[inline]
pub fn owner() -> i32 {
    OWNER.load(Ordering::Relaxed)
}

/// Makes this process the owner of the tables, at its start and in a forked child.
pub(crate) fn own() {
    own_as(call::getpid());
}

/// Like [`own`], but makes no system call, for a forked child under a seccomp filter. The child's only thread has
/// the process's id.
pub(crate) fn own_quietly() {
    own_as(thread::thread_id());
}

fn own_as(id: i32) {
    WAITING.store(0, Ordering::Relaxed);
    end_leaving();
    OWNER.store(id, Ordering::Relaxed);
    SHARED.store(false, Ordering::Relaxed);
    PAGE.here.store(HERE, Ordering::Relaxed);
}

/// Makes the kernel wipe `PAGE` in copies, and makes this process the owner. Called at the start of the process.
pub(crate) fn start() {
    WIPED.store(mapping::wipe_in_copies(&raw const PAGE as usize, 4096), Ordering::Relaxed);
    own();
}

/// Ends the process at once, with exit status `status`.
pub fn exit(status: i32) -> ! {
    call::exit_with(status)
}

/// Returns the calling thread's `errno`.
pub(crate) fn errno() -> i32 {
    // SAFETY: glibc returns a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() }
}

/// Stores the calling thread's `errno`.
pub(crate) fn set_errno(e: i32) {
    // SAFETY: glibc returns a valid pointer to this thread's errno, which only this thread accesses.
    unsafe { *libc::__errno_location() = e };
}
