//! Mappings of shared memory.

mod leaving;
mod places;

pub use leaving::{leave_family, leave_files};
pub(crate) use places::{each, outside};

use crate::call::{self, RawFd, Result, Sysno};
use crate::fd::Fd;
use places::{Sharing, forget, note, place_of};

/// A mapping that stays until it is dropped.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: a mapping is only an address range; what may be done with its bytes, and by how many
// threads, is decided by the code that interprets them (atomics, or copies whose races are part of
// their contract).
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a file, shared, readable and writable, left out of core dumps.
    pub fn shared(fd: RawFd, len: usize) -> Result<Mapping> {
        Mapping::map(len, libc::MAP_SHARED | libc::MAP_NORESERVE, fd, Sharing::File)
    }

    /// Zeroed memory that forked children share with this process and with each other.
    pub fn for_family(len: usize) -> Result<Mapping> {
        Mapping::map(
            len,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            Sharing::Family,
        )
    }

    /// The same, of a file that this process has made for it.
    pub fn for_family_in(file: RawFd, len: usize) -> Result<Mapping> {
        Mapping::map(len, libc::MAP_SHARED | libc::MAP_NORESERVE, file, Sharing::Family)
    }

    /// Zeroed memory of this process; a forked child gets a copy.
    pub fn private(len: usize) -> Result<Mapping> {
        Mapping::map(
            len,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            Sharing::Settled,
        )
    }

    /// Maps `len` bytes of a socket's rings, from `offset` on. They are the kernel's and this process's alone, filled with
    /// pages from the beginning, and not in the copies of this process.
    ///
    /// # Errors
    /// Those of `mmap`.
    pub fn of_socket(fd: RawFd, len: usize, offset: u64) -> Result<Mapping> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let mapping = Mapping::make_at(len, access, flags, fd, offset)?;
        note(mapping.base as usize, len, Sharing::Settled)?;
        mapping.advise(0, len, libc::MADV_DONTDUMP);
        mapping.advise(0, len, libc::MADV_DONTFORK);
        Ok(mapping)
    }

    /// Leaves the mapping out of the copies of this process that are made from now on. Of memory into which the kernel
    /// writes by itself: after a fork this process would write to a copy, and the kernel to the pages as before.
    pub fn stays_out_of_copies(&self) {
        self.advise(0, self.len, libc::MADV_DONTFORK);
    }

    fn map(len: usize, flags: i32, fd: RawFd, sharing: Sharing) -> Result<Mapping> {
        // A program under mlockall(MCL_FUTURE) would get all of it populated. Without access nothing
        // is; then the lock is taken off the range, and access given. Not always in this way: tools
        // that keep a book of memory (memcheck) go through every page when access is given later.
        let populated = new_memory_is_populated()?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let mapping =
            Mapping::make(len, if populated { libc::PROT_NONE } else { access }, flags, fd)?;
        note(mapping.base as usize, len, sharing)?;
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
        Mapping::make_at(len, access, flags, fd, 0)
    }

    fn make_at(len: usize, access: i32, flags: i32, fd: RawFd, offset: u64) -> Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choosing touches no memory of ours.
        let base =
            unsafe { syscalls::syscall!(Sysno::mmap, 0usize, len, access, flags, fd, offset) }?;
        Ok(Mapping { base: base as *mut u8, len })
    }

    /// It stays shared whatever becomes of this process's user ([`leave_files`]).
    pub fn stays_shared(&self) {
        if let Some(place) = place_of(self.base as usize) {
            place.settle(Sharing::Settled);
        }
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

/// Gives the pages of shared memory back, for every process that maps it; they read as zero afterwards.
///
/// # Safety
/// The range must be a part of one mapping of this process's, of whole pages.
pub unsafe fn discard(at: *mut u8, len: usize) {
    // SAFETY: the caller's contract; what lies there is bytes.
    let _ = unsafe { syscalls::syscall!(Sysno::madvise, at as usize, len, libc::MADV_REMOVE) };
}

impl Drop for Mapping {
    fn drop(&mut self) {
        crate::stall::point(crate::stall::At::Unmapping);
        forget(self.base as usize);
        // SAFETY: `base` and `len` are what mmap returned; the owner vouches by dropping that
        // no thread uses the range any more.
        let _ = unsafe { syscalls::syscall!(Sysno::munmap, self.base as usize, self.len) };
    }
}

/// Has the kernel wipe a range of private memory in every copy of this process that is made from now on.
/// False if it cannot.
pub fn wipe_in_copies(at: usize, len: usize) -> bool {
    // SAFETY: the advice changes nothing in this process.
    unsafe { syscalls::syscall!(Sysno::madvise, at, len, libc::MADV_WIPEONFORK) }.is_ok()
}

/// Whether the kernel populates what is mapped, as it does after mlockall(MCL_FUTURE). It does not
/// say, but a page shows: touching one that is there already is no fault.
///
/// Not by mincore(2): systemd's `SystemCallFilter=@system-service` kills a process for that.
fn new_memory_is_populated() -> Result<bool> {
    const PAGE: usize = 4096;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let page = Mapping::make(PAGE, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
    // A filter that refuses the count leaves the usual answer.
    let Some(before) = call::faults_of_thread() else { return Ok(false) };
    // SAFETY: the page is this mapping's, which lives, is writable and is known to no other code.
    unsafe { page.base.write_volatile(1) };
    Ok(call::faults_of_thread() == Some(before))
}

/// The seals that a segment must carry before its bytes are looked at: a peer that could shrink
/// it could kill us with SIGBUS.
pub const SEALS: usize = (libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL) as usize;

/// A new sealed memory file of that size, all zero and sparse.
pub fn sealed_memory(name: &core::ffi::CStr, len: u64) -> Result<Fd> {
    let fd = unsealed_memory(name, len)?;
    call::fcntl(fd.raw(), libc::F_ADD_SEALS, SEALS)?;
    Ok(fd)
}

/// A new memory file of that size, all zero and sparse, that can be sealed.
///
/// # Errors
/// `EFBIG` where a limit on file size is in the way; those of the calls that are made.
pub fn unsealed_memory(name: &core::ffi::CStr, len: u64) -> Result<Fd> {
    // A file-size limit would answer ftruncate with a signal that kills the program.
    if call::soft_limit(libc::RLIMIT_FSIZE).is_some_and(|limit| limit < len) {
        return Err(call::Errno::EFBIG);
    }
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let fd = Fd::make(|| call::memfd_create(name, flags))?;
    call::ftruncate(fd.raw(), len)?;
    Ok(fd)
}

/// New memory that forked children share with this process and with each other, and the file that it lies in: all zero. A
/// process that may open the file can read it, and cannot write.
///
/// A process of the same user that opens it between the mapping and its seal could; the kernel has no way to do both at
/// once.
///
/// # Errors
/// `EINVAL` where the kernel cannot seal so (before Linux 5.1); `EFBIG`, `EMFILE` and others of the calls that are made.
pub fn shown_memory(name: &core::ffi::CStr, len: u64) -> Result<(Mapping, Fd)> {
    let file = unsealed_memory(name, len)?;
    let mapping = Mapping::for_family_in(file.raw(), len as usize)?;
    seal_for_reading(file.raw())?;
    Ok((mapping, file))
}

/// Seals a memory file against every write but by the mappings that there are.
fn seal_for_reading(file: RawFd) -> Result<()> {
    let seals = SEALS | libc::F_SEAL_FUTURE_WRITE as usize;
    call::fcntl(file, libc::F_ADD_SEALS, seals).map(drop)
}

/// Whether a descriptor is a memory file of exactly that size with [`SEALS`] in place.
///
/// Files of huge pages can carry the same seals and are not taken: where the pool of huge pages is
/// empty, touching one is a SIGBUS.
pub fn is_sealed_memory(fd: RawFd, len: u64) -> bool {
    let seals = call::fcntl(fd, libc::F_GET_SEALS, 0).unwrap_or(0);
    seals & SEALS == SEALS
        && call::file_size(fd) == Ok(len)
        && call::file_system(fd) == Ok(libc::TMPFS_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(of: &str) -> bool {
        std::fs::read_to_string("/proc/self/maps").unwrap().lines().any(|line| {
            line.starts_with(of)
                && line.split(' ').nth(1).is_some_and(|access| access.ends_with('s'))
        })
    }

    /// In a child, whose mappings are a copy: other tests have theirs.
    #[test]
    fn what_is_left_is_shared_no_more() {
        let file = sealed_memory(c"test", 1 << 16).unwrap();
        let (segment, again) =
            (Mapping::shared(file.raw(), 1 << 16).unwrap(), Mapping::shared(file.raw(), 1 << 16));
        let again = again.unwrap();
        again.stays_shared();
        let family = Mapping::for_family(1 << 16).unwrap();
        // SAFETY: within the mappings; one thread at a time uses them.
        unsafe {
            segment.base().write_volatile(1);
            family.base().write_volatile(1);
            family.base().add(1).write_volatile(7);
        }
        // SAFETY: the child makes system calls and looks at memory of its own; it leaves at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut good = status(&format!("{:x}-", segment.base() as usize));
            good &= leave_files();
            // SAFETY: as above; `new` and `old` are as long as the family's mapping.
            let ours = |base: usize| base == family.base() as usize;
            let mut settled = false;
            good &= leave_family(
                |_, _| None,
                |base, old, new, len| {
                    if ours(base) && len == 1 << 16 {
                        // SAFETY: within the mappings, which are that long.
                        unsafe {
                            new.add(1).write_volatile(old.add(1).read_volatile());
                            // As another thread would in the meantime.
                            family.base().add(2).write_volatile(9);
                        }
                    }
                },
                |base, old, _| {
                    // SAFETY: as above.
                    settled |= ours(base) && unsafe { old.add(2).read_volatile() } == 9;
                },
            );
            good &= settled;
            good &= !status(&format!("{:x}-", segment.base() as usize));
            good &= status(&format!("{:x}-", again.base() as usize));
            // SAFETY: as above.
            unsafe {
                good &= segment.base().read_volatile() == 0;
                good &= again.base().read_volatile() == 1;
                good &= family.base().read_volatile() == 0;
                good &= family.base().add(1).read_volatile() == 7;
                segment.base().write_volatile(2);
                family.base().write_volatile(2);
                libc::_exit(i32::from(!good));
            }
        }
        let mut status = 0;
        // SAFETY: waits for the child just made.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        // SAFETY: as above.
        unsafe {
            assert_eq!(segment.base().read_volatile(), 1);
            assert_eq!(family.base().read_volatile(), 1);
        }
    }
}
