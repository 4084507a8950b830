//! The library's own heap.
//!
//! The program's malloc is not used: a signal handler of the program that makes a call may have
//! interrupted it, and it may be any allocator, or a checker. Sizes up to 32 KB are rounded up to a
//! power of two and come from lists, which are refilled 64 KB at a time; what is larger is a mapping of
//! its own and goes back to the kernel. A thread that has the lock is in a section, so no handler of the
//! program meets a list half changed.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sync::section;
use sovia_sys::futex;
use syscalls::Sysno;

const SMALLEST: u32 = 4; // log2: 16 bytes
const LARGEST: u32 = 15; // 32 KB
const CLASSES: usize = (LARGEST - SMALLEST + 1) as usize;
const REFILL: usize = 64 << 10;
const PAGE: usize = 4096;

/// A free block.
struct Free {
    next: *mut Free,
}

struct Lists {
    free: [*mut Free; CLASSES],
    /// What is left of the last refill.
    fresh: *mut u8,
    left: usize,
}

struct Heap {
    /// 0 free, 1 held, 2 held and waited for.
    lock: AtomicU32,
    lists: UnsafeCell<Lists>,
}

// SAFETY: the lists are reached under the lock only.
unsafe impl Sync for Heap {}

#[cfg_attr(not(test), global_allocator)]
static HEAP: Heap = Heap {
    lock: AtomicU32::new(0),
    lists: UnsafeCell::new(Lists { free: [null_mut(); CLASSES], fresh: null_mut(), left: 0 }),
};

/// The class of a size, or `None` for a mapping of its own.
fn class(layout: Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).max(1 << SMALLEST).next_power_of_two();
    let log = size.trailing_zeros();
    (log <= LARGEST && layout.align() <= PAGE).then_some((log - SMALLEST) as usize)
}

fn map(len: usize) -> *mut u8 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choosing touches no memory of ours.
    let base = unsafe {
        syscalls::syscall!(Sysno::mmap, 0usize, len, access, flags, -1isize as usize, 0usize)
    };
    base.map_or(null_mut(), |base| base as *mut u8)
}

impl Heap {
    fn lock(&self) {
        section::enter();
        // SYNC: Acquire here and Release in `unlock`: the lists are as the last holder left them.
        if self.lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.lock.swap(2, Ordering::Acquire) != 0 {
                let _ = futex::wait(&self.lock, 2, None);
            }
        }
    }

    fn unlock(&self) {
        if self.lock.swap(0, Ordering::Release) == 2 {
            futex::wake(&self.lock, 1);
        }
        section::leave();
    }

    /// # Safety
    /// The lock is held.
    unsafe fn take(&self, class: usize) -> *mut u8 {
        // SAFETY: the lock is held; a block in a list is free memory of its class's size.
        unsafe {
            let lists = &mut *self.lists.get();
            let first = lists.free[class];
            if !first.is_null() {
                lists.free[class] = (*first).next;
                return first.cast();
            }
            let size = 1usize << (class + SMALLEST as usize);
            // Blocks are aligned to their size.
            let skip = lists.fresh.align_offset(size.min(PAGE));
            if lists.left < size + skip {
                let fresh = map(REFILL);
                if fresh.is_null() {
                    return fresh;
                }
                (lists.fresh, lists.left) = (fresh, REFILL);
                return self.take(class);
            }
            let block = lists.fresh.add(skip);
            lists.fresh = block.add(size);
            lists.left -= size + skip;
            block
        }
    }
}

// SAFETY: blocks are disjoint, large and aligned enough, and stay until they are given back.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some(class) = class(layout) {
            self.lock();
            // SAFETY: the lock is held.
            let block = unsafe { self.take(class) };
            self.unlock();
            return block;
        }
        if layout.align() > PAGE {
            return null_mut();
        }
        map(layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(class) = class(layout) else {
            // SAFETY: a mapping of that length, which its owner has done with.
            let _ = unsafe { syscalls::syscall!(Sysno::munmap, block, layout.size()) };
            return;
        };
        self.lock();
        // SAFETY: the lock is held; the block is its owner's no more, and large enough for a link.
        unsafe {
            let lists = &mut *self.lists.get();
            let free = block.cast::<Free>();
            free.write(Free { next: lists.free[class] });
            lists.free[class] = free;
        }
        self.unlock();
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() && class(layout).is_some() {
            // SAFETY: a block of at least that size.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }
}

/// Takes the heap for the time of a fork.
pub(crate) extern "C" fn hold() {
    HEAP.lock();
}

/// After the fork, in both.
pub(crate) extern "C" fn release() {
    HEAP.unlock();
}

/// Registers what has to be done around forks. Called before the engine does the same: so the heap is
/// held last, and released first.
pub(crate) fn start() {
    // SAFETY: plain functions without captured state; registered once.
    unsafe { libc::pthread_atfork(Some(hold), Some(release), Some(release)) };
}

#[cfg(test)]
mod tests;
