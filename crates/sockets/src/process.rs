//! This process, and how it is told from children that run on its memory or on a copy of it.
//!
//! A child that libc forks, or that one of libc's calls makes ([`crate::fork`]), is told at once. Others:
//!
//! - A child of vfork runs on this memory, on its parent's thread, which waits: the thread is marked as
//!   *lent* ([`sovia_sync::thread`]).
//! - A child of clone with CLONE_VM runs on this memory as well, and goes on. Once there has been one,
//!   the kernel is asked for the caller's process.
//! - A child that an inline system call makes has a copy of this memory and knows nothing of it. A page
//!   that the kernel wipes in such copies shows it (`is_elsewhere`).

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering, fence};
use sovia_sync::thread;
use sovia_sys::{call, mapping};

/// The process whose tables these are.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// A page of its own.
#[repr(align(4096))]
struct Page {
    /// [`HERE`] in the process that has marked it, [`SHARED_HERE`] once children have run on its memory; 0 in
    /// an unknown copy.
    here: AtomicU32,
    _rest: [AtomicU32; 1023],
}

const HERE: u32 = 1;
const SHARED_HERE: u32 = 2;

sovia_sys::tables! {
    static PAGE: Page = Page { here: AtomicU32::new(0), _rest: [const { AtomicU32::new(0) }; 1023] };
}

/// Whether the kernel wipes the page.
static WIPED: AtomicBool = AtomicBool::new(false);

/// Whether there has been a child that shares this memory for longer than its parent waits.
static SHARED: AtomicBool = AtomicBool::new(false);

/// What a process does that finds itself to be an unknown copy.
static ADOPT: AtomicUsize = AtomicUsize::new(0);

/// Whether a thread is just changing this process's credentials: meanwhile nothing new is shared.
static CHANGING: AtomicBool = AtomicBool::new(false);

/// A change of this process's credentials begins, once no other one is under way.
pub(crate) fn begin_change() {
    while CHANGING.swap(true, Ordering::SeqCst) {
        call::sched_yield();
    }
}

/// It is over.
pub(crate) fn end_change() {
    CHANGING.store(false, Ordering::SeqCst);
}

/// Whether one is under way.
pub(crate) fn is_changing() -> bool {
    CHANGING.load(Ordering::SeqCst)
}

/// Whether the program has put this process under a filter of system calls.
static CONFINED: AtomicBool = AtomicBool::new(false);

/// Whether the program has put this process under a filter of system calls: only the program knows
/// what that lets through. From then on Sovia makes none of its own.
#[inline]
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}

/// In the place of an error: the call is libc's to make. The process has come under a filter of system calls
/// while it waited.
pub const PLAIN: crate::Errno = crate::Errno::MAX;

/// Threads that wait for several descriptors, in a call that makes system calls of Sovia's own.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// Counts the calling thread among those until this is dropped.
pub(crate) struct Waiting(());

/// The calling thread begins to wait for several descriptors.
///
/// # Errors
/// [`PLAIN`] if the process is, or is just being put, under a filter.
pub(crate) fn begin_waiting() -> Result<Waiting, crate::Errno> {
    let waiting = Waiting(());
    WAITING.fetch_add(1, Ordering::SeqCst);
    // SYNC: with `confine` and `has_waiting`: this thread sees the filter coming, or the thread that
    // sets it up sees this one and waits for it.
    fence(Ordering::SeqCst);
    if is_confined() { Err(PLAIN) } else { Ok(waiting) }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // In a forked child the count has begun anew.
        let less = |count: u32| Some(count.saturating_sub(1));
        let _ = WAITING.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }
}

/// Whether a thread does.
pub(crate) fn has_waiting() -> bool {
    WAITING.load(Ordering::SeqCst) != 0
}

/// It is about to do so.
pub(crate) fn confine() {
    CONFINED.store(true, Ordering::SeqCst);
}

/// This process has been forked for a relay, by one that is about to leave everything: it leaves nothing itself.
pub(crate) fn become_relay() {
    CONFINED.store(false, Ordering::SeqCst);
    end_change();
}

/// Whether the caller is a child that runs on this process's memory: it may use what is known, but has
/// descriptors of its own.
#[inline]
pub fn is_borrowed() -> bool {
    thread::is_lent()
        || SHARED.load(Ordering::Relaxed) && OWNER.load(Ordering::Relaxed) != call::getpid()
}

/// Whether the caller is the process whose tables these are, for certain. Two loads of lines that nothing
/// writes.
#[inline(always)]
pub(crate) fn is_at_home() -> bool {
    PAGE.here.load(Ordering::Relaxed) == HERE && !thread::is_lent()
}

/// Whether the caller is another process than the one whose tables these are.
#[inline]
pub(crate) fn is_elsewhere() -> bool {
    !is_at_home() && find_out()
}

/// The same, found out. An unknown copy becomes a process of the family first.
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

/// Has `function` make an unknown copy of a process one of the family. Said once, at the start.
pub(crate) fn adopt_by(function: fn()) {
    ADOPT.store(function as usize, Ordering::Release);
}

/// A child is about to be made that shares this memory and does not end at once.
pub fn shares_memory() {
    SHARED.store(true, Ordering::Relaxed);
    PAGE.here.store(SHARED_HERE, Ordering::Relaxed);
}

/// Whether there has been one.
pub(crate) fn has_shared() -> bool {
    SHARED.load(Ordering::Relaxed)
}

/// This process's id, as it was noted at its start: no system call.
#[inline]
pub fn owner() -> i32 {
    OWNER.load(Ordering::Relaxed)
}

/// Notes that the tables are this process's: at its start, and in a forked child.
pub(crate) fn own() {
    own_as(call::getpid());
}

/// The same in a forked child under a filter, whose only thread has its id: no system call.
pub(crate) fn own_quietly() {
    own_as(thread::thread_id());
}

fn own_as(id: i32) {
    WAITING.store(0, Ordering::Relaxed);
    OWNER.store(id, Ordering::Relaxed);
    SHARED.store(false, Ordering::Relaxed);
    PAGE.here.store(HERE, Ordering::Relaxed);
}

/// At the start of the process.
pub(crate) fn start() {
    WIPED.store(mapping::wipe_in_copies(&raw const PAGE as usize, 4096), Ordering::Relaxed);
    own();
}

/// Ends the process with that status, at once.
pub fn exit(status: i32) -> ! {
    call::exit_with(status)
}
