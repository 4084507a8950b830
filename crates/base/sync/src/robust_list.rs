//! Reports of the kernel that a thread has ended.
//!
//! For each thread, glibc registers a list with the kernel, which contains the robust mutexes that the thread
//! holds. At the thread's end the kernel goes through this list. The kernel stores FUTEX_OWNER_DIED in the word
//! of each entry that holds the thread's id. This happens at every kind of end: a return, a signal, a bare system
//! call, an exec of the process. Sovia links one entry of its own into each thread's list. The entry stays there
//! as long as the thread lives.
//!
//! An entry has the layout of a `pthread_mutex_t`, because glibc links and unlinks its own mutexes beside the
//! entry. The mutex word is at offset 0, and the pointers back and forward are at 24 and 32. Both pointers lead
//! to the `forth` field of the neighbour. In the thread's own block, the pointer back lies before the list's
//! head.

use crate::shim::{AtomicU64, AtomicUsize as Shared};
#[cfg(not(loom))]
use core::sync::atomic::compiler_fence;
use core::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use sovia_sys::call;

/// Entry of the list, in a cache line of its own because its thread writes there often.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Entry {
    /// The word that the kernel marks. The low half holds the thread's id, and the high half holds the
    /// generation.
    pub(crate) word: AtomicU64,
    _mutex: [AtomicUsize; 2],
    back: AtomicUsize,
    forth: AtomicUsize,
    /// Address of the lock that the thread holds by bias; 0 for none ([`crate::biased`]). Only the thread itself
    /// writes here.
    pub(crate) inside: Shared,
}

/// Mask of the thread id in the low half of the word.
pub(crate) const TID: u64 = 0x3fff_ffff;
/// The kernel's mark: the thread has ended.
pub(crate) const OWNER_DIED: u64 = 0x4000_0000;

const _: () = assert!(core::mem::offset_of!(Entry, forth) == 32);
const _: () = assert!(core::mem::offset_of!(Entry, back) == 24);
/// The end of a `pthread_mutex_t`.
#[cfg(not(loom))]
const _: () = assert!(core::mem::offset_of!(Entry, inside) == 40);

/// Offset from a list pointer to its mutex word, as glibc gives it to the kernel.
const WORD_OFFSET: isize = -32;

/// The kernel's `struct robust_list_head`.
#[repr(C)]
struct Head {
    list: usize,
    offset: isize,
    pending: usize,
}

/// Offset of the list head from the thread pointer; 0 if unknown.
static HEAD: AtomicIsize = AtomicIsize::new(0);
/// Set after [`discover`] has searched for the lists.
static LOOKED: AtomicBool = AtomicBool::new(false);
/// Not 0 if the thread's id lies 16 bytes before the head, as in every glibc so far.
static TID_KNOWN: AtomicIsize = AtomicIsize::new(0);

#[cfg(target_arch = "x86_64")]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the first word of a thread's control block holds the block's own address (x86-64 ABI), and `fs`
    // points to this block.
    unsafe {
        core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(pure, nomem, nostack, preserves_flags));
    }
    pointer
}

#[cfg(target_arch = "aarch64")]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reading `tpidr_el0` has no side effects and touches no memory.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(pure, nomem, nostack, preserves_flags));
    }
    pointer
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn thread_pointer() -> usize {
    0
}

/// Largest distance of glibc's thread block from the thread pointer.
const NEAR: isize = 16 << 10;

/// Finds the place of glibc's lists. Called once, early. Before this call, and if the lists are not at the
/// expected place, threads are known by their thread ids.
pub(crate) fn discover() {
    find_lists();
    LOOKED.store(true, Ordering::Release);
}

fn find_lists() {
    if thread_pointer() == 0 || cfg!(miri) {
        return;
    }
    let Some((head, len)) = call::robust_list() else { return };
    let from = head.wrapping_sub(thread_pointer()) as isize;
    if len != size_of::<Head>() || from == 0 || !(-NEAR..NEAR).contains(&from) || head % 8 != 0 {
        return;
    }
    let head = head as *const Head;
    // SAFETY: the kernel reports that the calling thread's list begins here and has this length. The word 16
    // bytes before it lies in the same block, which glibc allocates.
    let (offset, id) = unsafe { ((*head).offset, head.byte_sub(16).cast::<i32>().read()) };
    if offset == WORD_OFFSET {
        TID_KNOWN.store(isize::from(id == call::gettid()), Ordering::Relaxed);
        HEAD.store(from, Ordering::Release);
    }
}

/// Calls `claim` only, because the kernel has no lists of loom's threads. The loom tests mark entries themselves.
#[cfg(loom)]
pub(crate) fn link(_: &Entry, claim: impl FnOnce() -> bool) -> Linked {
    if claim() { Linked::Yes } else { Linked::Taken }
}

/// Returns the calling thread's list; `None` if its place is unknown.
fn head() -> Option<*mut Head> {
    let from = HEAD.load(Ordering::Acquire);
    if from == 0 {
        return None;
    }
    let head = thread_pointer().wrapping_add_signed(from) as *mut Head;
    // SAFETY: glibc puts each thread's list at the same offset from the thread pointer as the first thread's
    // list.
    let offset = unsafe { (*head).offset };
    (offset == WORD_OFFSET).then_some(head)
}

/// Returns the calling thread's id, without a system call if the place of glibc's copy is known.
pub(crate) fn thread_id() -> i32 {
    if TID_KNOWN.load(Ordering::Relaxed) != 0
        && let Some(head) = head()
    {
        // SAFETY: `find_lists` found the id 16 bytes before the head, in the block that glibc allocates for each
        // thread.
        let id = unsafe { head.byte_sub(16).cast::<i32>().read() };
        if id > 0 {
            return id;
        }
    }
    call::gettid()
}

impl Entry {
    /// Copies the links of `old`, unless this entry has got links in the meantime.
    #[cfg(not(loom))]
    pub(crate) fn relink_as(&self, old: &Entry) {
        for (new, old) in [(&self.back, &old.back), (&self.forth, &old.forth)] {
            let seen = old.load(Ordering::Relaxed);
            let _ = new.compare_exchange(0, seen, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    #[cfg(not(loom))]
    pub(crate) const fn new() -> Entry {
        Entry {
            word: AtomicU64::new(0),
            _mutex: [const { AtomicUsize::new(0) }; 2],
            back: AtomicUsize::new(0),
            forth: AtomicUsize::new(0),
            inside: Shared::new(0),
        }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Entry {
        Entry {
            word: AtomicU64::new(0),
            _mutex: [const { AtomicUsize::new(0) }; 2],
            back: AtomicUsize::new(0),
            forth: AtomicUsize::new(0),
            inside: Shared::new(0),
        }
    }
}

/// Result of [`link`].
#[cfg_attr(loom, allow(dead_code, reason = "loom's threads are not the kernel's"))]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Linked {
    /// The entry belongs to the calling thread.
    Yes,
    /// Another thread has taken the entry first.
    Taken,
    /// The caller is a signal handler that has interrupted glibc in a change of the list. Or [`discover`] has not
    /// run yet.
    NotNow,
    /// The place of the list is unknown.
    Unknown,
}

/// Calls `claim`, which puts the calling thread's id into the entry's word, and links the entry if `claim`
/// returns true.
#[cfg(not(loom))]
pub(crate) fn link(entry: &'static Entry, claim: impl FnOnce() -> bool) -> Linked {
    let looked = LOOKED.load(Ordering::Acquire);
    let Some(head) = head() else {
        return if looked { Linked::Unknown } else { Linked::NotNow };
    };
    let node = entry.forth.as_ptr() as usize;
    // SAFETY: only the calling thread changes its own list. Each pointer in the list leads to the `forth` of an
    // entry or to the head, and the pointer back lies 8 bytes before. The lowest bit only marks another kind of
    // mutex, and is masked.
    unsafe {
        let pending = &raw mut (*head).pending;
        let list = &raw mut (*head).list;
        if pending.read_volatile() != 0 {
            return Linked::NotNow;
        }
        // From here on the kernel also examines this entry, which is in no list yet.
        pending.write_volatile(node);
        compiler_fence(Ordering::SeqCst);
        let claimed = claim();
        if claimed {
            let next = list.read_volatile();
            entry.forth.store(next, Ordering::Relaxed);
            entry.back.store(list as usize, Ordering::Relaxed);
            ((next & !1) as *mut usize).sub(1).write_volatile(node);
            compiler_fence(Ordering::SeqCst);
            list.write_volatile(node);
        }
        compiler_fence(Ordering::SeqCst);
        pending.write_volatile(0);
        if claimed { Linked::Yes } else { Linked::Taken }
    }
}

/// Empties the calling thread's list and registers it with the kernel. For a child that the kernel has made
/// without libc's knowledge, whose list is still its parent's.
pub(crate) fn begin_anew() {
    let Some(head) = head() else { return };
    // SAFETY: only the calling thread changes its own list, whose head `head` returns. An empty list leads to
    // itself.
    unsafe {
        let list = &raw mut (*head).list;
        list.write_volatile(list as usize);
        list.sub(1).write_volatile(list as usize);
        (&raw mut (*head).pending).write_volatile(0);
        call::set_robust_list(head as usize, size_of::<Head>());
    }
}
