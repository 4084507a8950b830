//! Mappings of shared memory.

use crate::call::{self, RawFd, Result, Sysno};
use crate::fd::Fd;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Where mappings are: address and length of each, 0 for a free place. Sparse ones are much larger
/// than what they use: what would fill all memory of the program must leave them out.
static PLACES: [(AtomicUsize, AtomicUsize); 2048] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 2048];

fn note(base: usize, len: usize) -> Result<()> {
    let free = PLACES
        .iter()
        .find(|(at, _)| at.compare_exchange(0, base, Ordering::AcqRel, Ordering::Relaxed).is_ok());
    let (_, place) = free.ok_or(call::Errno::ENOMEM)?;
    place.store(len, Ordering::Release);
    Ok(())
}

fn forget(base: usize) {
    if let Some((at, len)) = PLACES.iter().find(|(at, _)| at.load(Ordering::Acquire) == base) {
        len.store(0, Ordering::Release);
        at.store(0, Ordering::Release);
    }
}

/// The parts of an address range that lie in no mapping of ours.
pub(crate) fn outside(from: usize, to: usize, mut each: impl FnMut(usize, usize)) {
    let mut at = from;
    while at < to {
        let mut end = to;
        let mut next = to;
        for (base, len) in &PLACES {
            let len = len.load(Ordering::Acquire);
            let base = base.load(Ordering::Acquire);
            if len != 0 && base < end && base + len > at {
                end = base.max(at);
                next = (base + len).min(to);
            }
        }
        if end > at {
            each(at, end - at);
        }
        at = next;
    }
}

/// Every mapping of ours.
pub(crate) fn each(mut each: impl FnMut(usize, usize)) {
    for (base, len) in &PLACES {
        let len = len.load(Ordering::Acquire);
        if len != 0 {
            each(base.load(Ordering::Acquire), len);
        }
    }
}

/// A mapping that stays until it is dropped.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: a mapping is only an address range; what may be done with its bytes, and by how many
// threads, is decided by whoever interprets them (atomics, or copies whose races are part of
// their contract).
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a file, shared, readable and writable, left out of core dumps.
    pub fn shared(fd: RawFd, len: usize) -> Result<Mapping> {
        Mapping::map(len, libc::MAP_SHARED | libc::MAP_NORESERVE, fd)
    }

    /// Zeroed memory that forked children share with this process and with each other.
    pub fn for_family(len: usize) -> Result<Mapping> {
        Mapping::map(len, libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1)
    }

    /// Zeroed memory of this process; a forked child gets a copy.
    pub fn private(len: usize) -> Result<Mapping> {
        Mapping::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1)
    }

    fn map(len: usize, flags: i32, fd: RawFd) -> Result<Mapping> {
        // A program under mlockall(MCL_FUTURE) would get all of it populated. Without access nothing
        // is; then the lock is taken off the range, and access given. Not always in this way: tools
        // that keep a book of memory (memcheck) go through every page when access is given later.
        let populated = new_memory_is_populated()?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let mapping =
            Mapping::make(len, if populated { libc::PROT_NONE } else { access }, flags, fd)?;
        note(mapping.base as usize, len)?;
        // SAFETY: the range is the mapping just made.
        unsafe {
            let _ = syscalls::syscall!(Sysno::munlock, mapping.base, len);
            if populated {
                syscalls::syscall!(Sysno::mprotect, mapping.base, len, access)?;
            }
        }
        mapping.advise(0, len, libc::MADV_DONTDUMP);
        Ok(mapping)
    }

    fn make(len: usize, access: i32, flags: i32, fd: RawFd) -> Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choosing touches no memory of ours.
        let base =
            unsafe { syscalls::syscall!(Sysno::mmap, 0usize, len, access, flags, fd, 0usize) }?;
        Ok(Mapping { base: base as *mut u8, len })
    }

    /// Gives the pages of a range back; they read as zero afterwards, in every process.
    pub fn discard(&self, offset: usize, len: usize) {
        if len > 0 && offset.checked_add(len).is_some_and(|end| end <= self.len) {
            self.advise(offset, len, libc::MADV_REMOVE);
        }
    }

    fn advise(&self, offset: usize, len: usize, advice: i32) {
        // SAFETY: the range lies in this mapping; none of the advice used here moves it.
        let _ =
            unsafe { syscalls::syscall!(Sysno::madvise, self.base as usize + offset, len, advice) };
    }

    /// The first byte.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the mapping has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        forget(self.base as usize);
        // SAFETY: `base` and `len` are what mmap returned; the owner vouches by dropping that
        // nobody uses the range any more.
        let _ = unsafe { syscalls::syscall!(Sysno::munmap, self.base as usize, self.len) };
    }
}

/// Whether the kernel populates what is mapped, as it does after mlockall(MCL_FUTURE). It does not
/// say, but a page shows.
fn new_memory_is_populated() -> Result<bool> {
    const PAGE: usize = 4096;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let page = Mapping::make(PAGE, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
    let mut resident = [0u8];
    // SAFETY: the range is one page of a mapping that lives, for which one byte is stored.
    unsafe { syscalls::syscall!(Sysno::mincore, page.base, PAGE, resident.as_mut_ptr()) }?;
    Ok(resident[0] & 1 != 0)
}

/// The seals that a segment must carry before its bytes are looked at: a peer that could shrink
/// it could kill us with SIGBUS.
pub const SEALS: usize = (libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL) as usize;

/// A new sealed memory file of that size, all zero and sparse.
pub fn sealed_memory(name: &core::ffi::CStr, len: u64) -> Result<Fd> {
    // A file-size limit would answer ftruncate with a signal that kills the program.
    if call::soft_limit(libc::RLIMIT_FSIZE).is_some_and(|limit| limit < len) {
        return Err(call::Errno::EFBIG);
    }
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let fd = Fd::make(|| call::memfd_create(name, flags))?;
    call::ftruncate(fd.raw(), len)?;
    call::fcntl(fd.raw(), libc::F_ADD_SEALS, SEALS)?;
    Ok(fd)
}

/// Whether a descriptor is a memory file of exactly that size with [`SEALS`] in place.
pub fn is_sealed_memory(fd: RawFd, len: u64) -> bool {
    let seals = call::fcntl(fd, libc::F_GET_SEALS, 0).unwrap_or(0);
    seals & SEALS == SEALS && call::file_size(fd) == Ok(len)
}
