//! The library's own heap.
//!
//! The library does not use the program's malloc, for two reasons. A signal handler of the program may interrupt
//! malloc, and then call a hook. And the program may replace malloc by another allocator, or by a checker.
//!
//! Blocks of up to 32 KB have a power of two as their size. The heap keeps a list of free blocks for each size. If
//! a list is empty, new blocks come from memory that the heap maps in pieces of 64 KB. A block of more than 32 KB
//! is a separate mapping, which the heap unmaps when the block is freed. A thread that holds the heap's lock is in
//! a critical section. So no signal handler of the program interrupts a change of a list.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sync::critical_section;
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
    /// Unused rest of the last piece that the heap has mapped. The rest has `left` bytes.
    fresh: *mut u8,
    left: usize,
}

struct Heap {
    /// State of the lock. 0: free. 1: held. 2: held, and threads may wait for the lock.
    lock: AtomicU32,
    lists: UnsafeCell<Lists>,
}

// SAFETY: a thread accesses the lists only while it holds the lock.
unsafe impl Sync for Heap {}

#[cfg_attr(not(test), global_allocator)]
static HEAP: Heap = Heap {
    lock: AtomicU32::new(0),
    lists: UnsafeCell::new(Lists { free: [null_mut(); CLASSES], fresh: null_mut(), left: 0 }),
};

/// Returns the index of the list for blocks of a layout, or `None` if such a block needs a mapping of its own.
fn class(layout: Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).max(1 << SMALLEST).next_power_of_two();
    let log = size.trailing_zeros();
    (log <= LARGEST && layout.align() <= PAGE).then_some((log - SMALLEST) as usize)
}

fn map(len: usize) -> *mut u8 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the kernel chooses the address of a new mapping, which overlaps no memory in use.
    let base = unsafe {
        syscalls::syscall!(Sysno::mmap, 0usize, len, access, flags, -1isize as usize, 0usize)
    };
    base.map_or(null_mut(), |base| base as *mut u8)
}

impl Heap {
    fn lock(&self) {
        critical_section::enter();
        // SYNC: Acquire here pairs with Release in `unlock`. So this thread sees all changes to the lists that
        // earlier holders of the lock have made.
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
        critical_section::leave();
    }

    /// # Safety
    /// The caller must hold the lock.
    unsafe fn take(&self, class: usize) -> *mut u8 {
        // SAFETY: the caller holds the lock, so no other thread uses the lists. A block in a list is free memory of
        // its class's size.
        unsafe {
            let lists = &mut *self.lists.get();
            let first = lists.free[class];
            if !first.is_null() {
                lists.free[class] = (*first).next;
                return first.cast();
            }
            let size = 1usize << (class + SMALLEST as usize);
            // A block is aligned to its size or to a page, whichever is less.
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

// SAFETY: blocks are disjoint, have the layout's size and alignment, and stay valid until `dealloc`.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some(class) = class(layout) {
            self.lock();
            // SAFETY: this thread holds the lock.
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
            // SAFETY: the block is a mapping of this length, and the caller no longer uses the block.
            let _ = unsafe { syscalls::syscall!(Sysno::munmap, block, layout.size()) };
            return;
        };
        self.lock();
        // SAFETY: this thread holds the lock. The caller no longer uses the block, which has room for a link.
        unsafe {
            let lists = &mut *self.lists.get();
            let free = block.cast::<Free>();
            free.write(Free { next: lists.free[class] });
            lists.free[class] = free;
        }
        self.unlock();
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees the contract of `alloc`.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() && class(layout).is_some() {
            // SAFETY: the block has at least `layout.size()` bytes.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }
}

/// Locks the heap. libc's `fork` calls this function before it forks.
pub(crate) extern "C" fn hold() {
    HEAP.lock();
}

/// Unlocks the heap. libc's `fork` calls this function after it has forked, in the parent and in the child.
pub(crate) extern "C" fn release() {
    HEAP.unlock();
}

/// Registers the heap's fork handlers. The caller must call this before the engine registers its own fork handlers.
/// Then `fork` locks the heap last and unlocks the heap first.
pub(crate) fn start() {
    // SAFETY: the handlers are plain functions without captured state, and this function runs once.
    unsafe { libc::pthread_atfork(Some(hold), Some(release), Some(release)) };
}

#[cfg(test)]
mod tests;
