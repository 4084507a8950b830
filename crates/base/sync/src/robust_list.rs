//! The kernel's word of a thread's end.
//!
//! Each thread has registered with the kernel a list, glibc's, of the robust mutexes that it holds. When the
//! thread ends in whatever way (it returns, is killed, leaves by a bare system call, its process execs),
//! the kernel goes through the list and stores FUTEX_OWNER_DIED in the word of each entry that holds
//! the thread's id. Sovia links one entry of its own for each thread into that list, and it stays there
//! as long as the thread lives.
//!
//! An entry has the layout of a `pthread_mutex_t`, since glibc links and unlinks its mutexes beside it: the
//! word at 0, the pointers back and forth at 24 and 32. Both lead to the `forth` of the neighbour, and
//! in the thread's own block the pointer back lies before the list's head.

use crate::shim::{AtomicU64, AtomicUsize as Shared};
#[cfg(not(loom))]
use core::sync::atomic::compiler_fence;
use core::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use sovia_sys::call;

/// An entry of the list, in a cache line of its own: its thread writes there often.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Entry {
    /// The word that the kernel marks, with the thread's id (low half), and the entry's generation.
    pub(crate) word: AtomicU64,
    _mutex: [AtomicUsize; 2],
    back: AtomicUsize,
    forth: AtomicUsize,
    /// The lock that favours the thread and that it has taken as such, by its place; 0 for none
    /// ([`crate::biased`]). Only the thread itself writes here.
    pub(crate) inside: Shared,
}

/// What of the word's low half is a thread's id.
pub(crate) const TID: u64 = 0x3fff_ffff;
/// The kernel's mark: the thread has ended.
pub(crate) const OWNER_DIED: u64 = 0x4000_0000;

const _: () = assert!(core::mem::offset_of!(Entry, forth) == 32);
const _: () = assert!(core::mem::offset_of!(Entry, back) == 24);
/// A `pthread_mutex_t` ends there.
#[cfg(not(loom))]
const _: () = assert!(core::mem::offset_of!(Entry, inside) == 40);

/// From a word of the list to the mutex' own: what glibc tells the kernel.
const WORD_OFFSET: isize = -32;

/// `struct robust_list_head`.
#[repr(C)]
struct Head {
    list: usize,
    offset: isize,
    pending: usize,
}

/// Where the head lies, from the thread pointer on; 0 if that is not known.
static HEAD: AtomicIsize = AtomicIsize::new(0);
/// Whether [`discover`] has looked.
static LOOKED: AtomicBool = AtomicBool::new(false);
/// Whether the thread's id lies 16 bytes before the head, as in every glibc so far.
static TID_KNOWN: AtomicIsize = AtomicIsize::new(0);

#[cfg(target_arch = "x86_64")]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the first word of a thread's block is its own address (the x86-64 ABI).
    unsafe {
        core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(pure, nomem, nostack, preserves_flags));
    }
    pointer
}

#[cfg(target_arch = "aarch64")]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads the register.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(pure, nomem, nostack, preserves_flags));
    }
    pointer
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn thread_pointer() -> usize {
    0
}

/// How far from the thread pointer glibc's block can lie.
const NEAR: isize = 16 << 10;

/// Finds out where glibc has its lists. To be called once, early; before it, and where they are not as
/// expected, threads are known by their ids.
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
    // SAFETY: the kernel says that the calling thread's list begins here, and that it is so long; the
    // word 16 bytes before lies in the same block of glibc's.
    let (offset, id) = unsafe { ((*head).offset, head.byte_sub(16).cast::<i32>().read()) };
    if offset == WORD_OFFSET {
        TID_KNOWN.store(isize::from(id == call::gettid()), Ordering::Relaxed);
        HEAD.store(from, Ordering::Release);
    }
}

/// Loom has no threads of the kernel's: its tests mark records themselves.
#[cfg(loom)]
pub(crate) fn link(_: &Entry, claim: impl FnOnce() -> bool) -> Linked {
    if claim() { Linked::Yes } else { Linked::Taken }
}

/// The calling thread's list; `None` where it is not known.
fn head() -> Option<*mut Head> {
    let from = HEAD.load(Ordering::Acquire);
    if from == 0 {
        return None;
    }
    let head = thread_pointer().wrapping_add_signed(from) as *mut Head;
    // SAFETY: a thread of glibc's has its list at the same place of its block as the first thread.
    let offset = unsafe { (*head).offset };
    (offset == WORD_OFFSET).then_some(head)
}

/// The calling thread's id, without a system call where glibc's is known.
pub(crate) fn thread_id() -> i32 {
    if TID_KNOWN.load(Ordering::Relaxed) != 0
        && let Some(head) = head()
    {
        // SAFETY: as in `discover`.
        let id = unsafe { head.byte_sub(16).cast::<i32>().read() };
        if id > 0 {
            return id;
        }
    }
    call::gettid()
}

impl Entry {
    /// Has the neighbours that `old` has, unless the entry has got some in the meantime.
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

/// What has come of [`link`].
#[cfg_attr(loom, allow(dead_code, reason = "loom's threads are not the kernel's"))]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Linked {
    /// The entry is the calling thread's.
    Yes,
    /// Another thread was faster.
    Taken,
    /// glibc is just changing the list: the caller has interrupted it in a signal handler. Or nothing has looked yet
    /// where the lists are.
    NotNow,
    /// The list is not known.
    Unknown,
}

/// Has `claim` put the calling thread's id into the entry's word, and links the entry.
#[cfg(not(loom))]
pub(crate) fn link(entry: &'static Entry, claim: impl FnOnce() -> bool) -> Linked {
    let looked = LOOKED.load(Ordering::Acquire);
    let Some(head) = head() else {
        return if looked { Linked::Unknown } else { Linked::NotNow };
    };
    let node = entry.forth.as_ptr() as usize;
    // SAFETY: the calling thread's own list, which only this thread changes. Pointers in it lead to the
    // `forth` of an entry or to the head, and 8 bytes before each of those is its pointer back; the
    // lowest bit marks another kind of mutex.
    unsafe {
        let pending = &raw mut (*head).pending;
        let list = &raw mut (*head).list;
        if pending.read_volatile() != 0 {
            return Linked::NotNow;
        }
        // From here on the kernel looks at the entry as well, though it is in no list yet.
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

/// In a child that the kernel has made without libc's knowledge: the list is its parent's. Empties it
/// and tells the kernel of it.
pub(crate) fn begin_anew() {
    let Some(head) = head() else { return };
    // SAFETY: the calling thread's own list, as in `link`; an empty one leads to itself.
    unsafe {
        let list = &raw mut (*head).list;
        list.write_volatile(list as usize);
        list.sub(1).write_volatile(list as usize);
        (&raw mut (*head).pending).write_volatile(0);
        call::set_robust_list(head as usize, size_of::<Head>());
    }
}
