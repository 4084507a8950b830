//! Mappings of shared memory.

use crate::call::{self, RawFd, Result, Sysno};
use crate::fd::Fd;

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
        // SAFETY: a new mapping at an address of the kernel's choosing touches no memory of ours.
        let base = unsafe {
            syscalls::syscall!(Sysno::mmap, 0usize, len, libc::PROT_NONE, flags, fd, 0usize)
        }?;
        let mapping = Mapping { base: base as *mut u8, len };
        // A program under mlockall(MCL_FUTURE) would get all of it populated and locked. Without
        // access nothing is; then the lock is taken off the range, and access given.
        // SAFETY: the range is the mapping just made.
        unsafe {
            let _ = syscalls::syscall!(Sysno::munlock, base, len);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            syscalls::syscall!(Sysno::mprotect, base, len, access)?;
        }
        mapping.advise(0, len, libc::MADV_DONTDUMP);
        Ok(mapping)
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
        // SAFETY: `base` and `len` are what mmap returned; the owner vouches by dropping that
        // nobody uses the range any more.
        let _ = unsafe { syscalls::syscall!(Sysno::munmap, self.base as usize, self.len) };
    }
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
