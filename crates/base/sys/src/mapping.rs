//! Mappings of shared memory.

mod area;
mod leaving;
mod places;
mod room;

pub use area::is_free_in_programs;
pub use leaving::{leave_family, leave_files};
pub(crate) use places::{each, outside};
pub use room::Room;

use crate::call::{self, RawFd, Result, Sysno};
use crate::fd::Fd;
use places::{Sharing, forget, note, place_of};

/// A memory mapping, unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: a mapping is only an address range, and this type accesses no bytes through `base`. The code that
// interprets the bytes orders the threads' accesses, by atomics or by copies that allow races.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives only the address and the length. The code that interprets the bytes orders the
// threads' accesses.
unsafe impl Sync for Mapping {}

/// Flags of a mapping of a memory file.
const FILE: i32 = libc::MAP_SHARED | libc::MAP_NORESERVE;

impl Mapping {
    /// Maps `len` bytes of a file: shared, readable, writable and left out of core dumps.
    pub fn shared(fd: RawFd, len: usize) -> Result<Mapping> {
        Mapping::map(len, FILE, fd, Sharing::File)
    }

    /// Like [`Mapping::shared`], for memory that a program may have to map again at the same address, after this process
    /// has executed the program.
    pub fn shared_with_programs(fd: RawFd, len: usize) -> Result<Mapping> {
        Mapping::map_in_area(len, FILE, fd, Sharing::File)
    }

    /// Like [`Mapping::shared`], at an address from [`Mapping::base`] of another process.
    ///
    /// # Errors
    /// `EEXIST` if this process has other memory there; other errors of `mmap`.
    pub fn shared_at(base: usize, fd: RawFd, len: usize) -> Result<Mapping> {
        Mapping::map_at(base, len, FILE, fd, Sharing::File)
    }

    /// Maps zeroed memory that forked children share with this process and with each other.
    pub fn for_family(len: usize) -> Result<Mapping> {
        Mapping::map(
            len,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            Sharing::Family,
        )
    }

    /// Like [`Mapping::for_family`], in a file that this process has made for this purpose.
    pub fn for_family_in(file: RawFd, len: usize) -> Result<Mapping> {
        Mapping::map_in_area(len, FILE, file, Sharing::Family)
    }

    /// Like [`Mapping::for_family_in`], at the address that the memory has in the family's other processes.
    ///
    /// # Errors
    /// Same as [`Mapping::shared_at`].
    pub fn for_family_at(base: usize, file: RawFd, len: usize) -> Result<Mapping> {
        Mapping::map_at(base, len, FILE, file, Sharing::Family)
    }

    /// Maps zeroed memory of this process. A forked child gets a copy.
    pub fn private(len: usize) -> Result<Mapping> {
        Mapping::map(
            len,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            Sharing::Settled,
        )
    }

    /// Maps `len` bytes of a socket's rings, which begin at `offset`. Only the kernel and this process share this
    /// memory. The kernel allocates all pages at once. Forked children do not get the mapping.
    ///
    /// # Errors
    /// Those of `mmap`.
    pub fn of_socket(fd: RawFd, len: usize, offset: u64) -> Result<Mapping> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let mapping = Mapping::make_at(0, len, access, flags, fd, offset)?;
        note(mapping.base as usize, len, Sharing::Settled)?;
        mapping.advise(0, len, libc::MADV_DONTDUMP);
        mapping.advise(0, len, libc::MADV_DONTFORK);
        Ok(mapping)
    }

    /// Leaves the mapping out of children forked from now on. Needed for memory into which the kernel writes by
    /// itself. After a fork this process might write to a copy, while the kernel still writes to the old pages.
    pub fn stays_out_of_copies(&self) {
        self.advise(0, self.len, libc::MADV_DONTFORK);
    }

    fn map(len: usize, flags: i32, fd: RawFd, sharing: Sharing) -> Result<Mapping> {
        Mapping::map_at(0, len, flags, fd, sharing)
    }

    /// Maps memory in the area that no program uses by itself, if possible ([`area`]).
    fn map_in_area(len: usize, flags: i32, fd: RawFd, sharing: Sharing) -> Result<Mapping> {
        area::places(len)
            .find_map(|base| Mapping::map_at(base, len, flags, fd, sharing).ok())
            .map_or_else(|| Mapping::map(len, flags, fd, sharing), Ok)
    }

    /// Maps memory at `base`, or at an address that the kernel chooses if `base` is 0.
    fn map_at(base: usize, len: usize, flags: i32, fd: RawFd, sharing: Sharing) -> Result<Mapping> {
        /// Length up to which populated memory costs less than finding out if memory is populated.
        const SMALL: usize = 256 << 10;
        // Under mlockall(MCL_FUTURE), the kernel would populate all of the mapping. Memory without access is not
        // populated. So map without access, unlock the range, and then give access. Do so only if needed: memory
        // checkers such as memcheck visit every page when access is given later.
        let populated = len > SMALL && new_memory_is_populated()?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let mapping = Mapping::make_at(
            base,
            len,
            if populated { libc::PROT_NONE } else { access },
            flags,
            fd,
            0,
        )?;
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
        Mapping::make_at(0, len, access, flags, fd, 0)
    }

    fn make_at(
        at: usize,
        len: usize,
        access: i32,
        flags: i32,
        fd: RawFd,
        offset: u64,
    ) -> Result<Mapping> {
        let flags = if at == 0 { flags } else { flags | libc::MAP_FIXED_NOREPLACE };
        // SAFETY: without MAP_FIXED the kernel replaces no memory.
        let base = unsafe { syscalls::syscall!(Sysno::mmap, at, len, access, flags, fd, offset) }?;
        let mapping = Mapping { base: base as *mut u8, len };
        // A kernel before Linux 4.17 takes the address as a hint, and the mapping may lie elsewhere.
        if at != 0 && base != at {
            return Err(call::Errno::EEXIST);
        }
        Ok(mapping)
    }

    /// Keeps the mapping shared when [`leave_files`] replaces others, as after a change of the process's user.
    pub fn stays_shared(&self) {
        if let Some(place) = place_of(self.base as usize) {
            place.settle(Sharing::Settled);
        }
    }

    /// Frees the pages of a range. The pages read as zero afterwards, in every process.
    pub fn discard(&self, offset: usize, len: usize) {
        if len > 0 && offset.checked_add(len).is_some_and(|end| end <= self.len) {
            self.advise(offset, len, libc::MADV_REMOVE);
        }
    }

    fn advise(&self, offset: usize, len: usize, advice: i32) {
        // SAFETY: the range lies in this mapping, and no advice used here moves or unmaps it.
        let _ =
            unsafe { syscalls::syscall!(Sysno::madvise, self.base as usize + offset, len, advice) };
    }

    /// Returns the address of the first byte.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the mapping has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Frees pages of shared memory in every process that maps them. The pages read as zero afterwards.
///
/// # Safety
/// The range must consist of whole pages, and lie in one mapping of this process.
pub unsafe fn discard(at: *mut u8, len: usize) {
    // SAFETY: by contract the range lies in one mapping. The call only changes bytes to zero.
    let _ = unsafe { syscalls::syscall!(Sysno::madvise, at as usize, len, libc::MADV_REMOVE) };
}

impl Drop for Mapping {
    fn drop(&mut self) {
        crate::stall::point(crate::stall::At::Unmapping);
        forget(self.base as usize);
        // SAFETY: `base` and `len` describe the one mapping that this value owns. The owner drops this value only
        // after the last use of the bytes by any thread.
        let _ = unsafe { syscalls::syscall!(Sysno::munmap, self.base as usize, self.len) };
    }
}

/// Makes the kernel wipe a range of private memory in every child forked from now on. Returns false if the kernel
/// cannot.
pub fn wipe_in_copies(at: usize, len: usize) -> bool {
    // SAFETY: the advice changes nothing in this process.
    unsafe { syscalls::syscall!(Sysno::madvise, at, len, libc::MADV_WIPEONFORK) }.is_ok()
}

/// Returns true if the kernel populates new mappings, as after mlockall(MCL_FUTURE). The kernel does not report
/// this, so the function touches a new page: if the page is already there, the touch causes no fault.
///
/// Does not use mincore(2): systemd's `SystemCallFilter=@system-service` kills a process for that call.
fn new_memory_is_populated() -> Result<bool> {
    const PAGE: usize = 4096;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let page = Mapping::make(PAGE, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
    // If a seccomp filter refuses the count, assume the usual case.
    let Some(before) = call::faults_of_thread() else { return Ok(false) };
    // SAFETY: the page belongs to this new mapping, which is writable and known to no other code.
    unsafe { page.base.write_volatile(1) };
    Ok(call::faults_of_thread() == Some(before))
}

/// Seals that a segment must carry before this process reads its bytes. A peer that could shrink the file could
/// kill this process with SIGBUS.
pub const SEALS: usize = (libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL) as usize;

/// Creates a sealed memory file of `len` bytes, all zero and sparse.
///
/// # Errors
/// `EFBIG` if `len` exceeds the limit on file sizes; the errors of the system calls.
pub fn sealed_memory(name: &core::ffi::CStr, len: u64) -> Result<Fd> {
    let fd = unsealed_memory(name, len)?;
    call::fcntl(fd.raw(), libc::F_ADD_SEALS, SEALS)?;
    Ok(fd)
}

/// Creates a memory file like [`sealed_memory`], which can still be sealed.
///
/// # Errors
/// Same as [`sealed_memory`].
pub fn unsealed_memory(name: &core::ffi::CStr, len: u64) -> Result<Fd> {
    // With a file-size limit, the kernel would answer ftruncate with a signal that kills the program.
    if call::soft_limit(libc::RLIMIT_FSIZE).is_some_and(|limit| limit < len) {
        return Err(call::Errno::EFBIG);
    }
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let fd = Fd::make(|| call::memfd_create(name, flags))?;
    call::ftruncate(fd.raw(), len)?;
    Ok(fd)
}

/// Creates zeroed memory that forked children share with this process and with each other, in a file. A process that may
/// open the file can read the memory but not write.
///
/// Between the mapping and the seal, a process of the same user could open the file for writing. The kernel has no
/// operation that does both at once.
///
/// # Errors
/// Same as [`sealed_memory`]; those of `mmap`.
pub fn shown_memory(name: &core::ffi::CStr, len: u64) -> Result<(Mapping, Fd)> {
    let file = unsealed_memory(name, len)?;
    let mapping = Mapping::map(len as usize, FILE, file.raw(), Sharing::Family)?;
    seal_for_reading(file.raw())?;
    Ok((mapping, file))
}

/// Seals a memory file against all writes except through the existing mappings. A kernel before Linux 5.1 does not have
/// the seal against writes.
fn seal_for_reading(file: RawFd) -> Result<()> {
    let seals = SEALS | libc::F_SEAL_FUTURE_WRITE as usize;
    call::fcntl(file, libc::F_ADD_SEALS, seals)
        .or_else(|_| call::fcntl(file, libc::F_ADD_SEALS, SEALS))
        .map(drop)
}

/// Returns true if the descriptor is a memory file of exactly `len` bytes with [`SEALS`] in place.
///
/// Returns false for files of huge pages, which can carry the same seals. While the pool of huge pages is empty,
/// touching such a page causes SIGBUS.
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

    /// Runs in a child, whose mappings are a copy, so that other tests keep their mappings.
    #[test]
    fn what_is_left_is_shared_no_more() {
        let file = sealed_memory(c"test", 1 << 16).unwrap();
        let (segment, again) =
            (Mapping::shared(file.raw(), 1 << 16).unwrap(), Mapping::shared(file.raw(), 1 << 16));
        let again = again.unwrap();
        again.stays_shared();
        let family = Mapping::for_family(1 << 16).unwrap();
        // SAFETY: the accesses lie within the mappings, and no other thread uses them.
        unsafe {
            segment.base().write_volatile(1);
            family.base().write_volatile(1);
            family.base().add(1).write_volatile(7);
        }
        // SAFETY: the child makes system calls and reads its own memory, and then exits at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut good = status(&format!("{:x}-", segment.base() as usize));
            good &= leave_files();
            // The check by which the callbacks recognise this test's mapping.
            let ours = |base: usize| base == family.base() as usize;
            let mut settled = false;
            good &= leave_family(
                |_, _| None,
                |base, old, new, len| {
                    if ours(base) && len == 1 << 16 {
                        // SAFETY: `new` and `old` point to `len` bytes each, and `family` is as long.
                        unsafe {
                            new.add(1).write_volatile(old.add(1).read_volatile());
                            // Stands for another thread's write in the meantime.
                            family.base().add(2).write_volatile(9);
                        }
                    }
                },
                |base, old, _| {
                    // SAFETY: `old` points to as many bytes as the family's mapping has.
                    settled |= ours(base) && unsafe { old.add(2).read_volatile() } == 9;
                },
            );
            good &= settled;
            good &= !status(&format!("{:x}-", segment.base() as usize));
            good &= status(&format!("{:x}-", again.base() as usize));
            // SAFETY: the accesses lie within the mappings, and this child has one thread.
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
        // SAFETY: `waitpid` writes only to `status`, which outlives the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        // SAFETY: the accesses lie within the mappings, and the child has ended.
        unsafe {
            assert_eq!(segment.base().read_volatile(), 1);
            assert_eq!(family.base().read_volatile(), 1);
        }
    }
}
