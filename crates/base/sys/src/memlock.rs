//! `mlockall` in a process that has mapped far more memory than it uses.
//!
//! The kernel populates the memory that it locks. For a sparse segment of 20 GB, this could use up all of the
//! machine's memory. A program with a limit for locked memory would get an error. So this crate's mappings are
//! left out, because they do not belong to the program.

use crate::call::{self, Errno, Result, Sysno};
use crate::fd::Fd;
use crate::mapping;

const CURRENT: i32 = libc::MCL_CURRENT;
const FUTURE: i32 = libc::MCL_FUTURE;
const ONFAULT: i32 = libc::MCL_ONFAULT;

/// Calls `mlockall` for all memory except this crate's mappings.
///
/// # Errors
/// Those of `mlockall`.
pub fn lock_all(flags: i32) -> Result<()> {
    if flags & CURRENT == 0 || flags & !(CURRENT | FUTURE | ONFAULT) != 0 {
        // This crate's new mappings unlock themselves.
        return mlockall(flags);
    }
    // With ONFAULT this populates nothing, so this crate's mappings can still be unlocked.
    match mlockall(flags | ONFAULT) {
        Ok(()) => {
            mapping::each(|base, len| {
                // SAFETY: unlocking a range changes none of its bytes.
                let _ = unsafe { syscalls::syscall!(Sysno::munlock, base, len) };
            });
            if flags & ONFAULT != 0 {
                return Ok(());
            }
            if flags & FUTURE != 0 {
                // Later mappings must be populated, so set the flags for them without ONFAULT.
                mlockall(FUTURE)?;
            }
        }
        // Check whether the limit is too low even without this crate's mappings.
        Err(Errno::ENOMEM) => {
            let mut bytes = 0u64;
            each_region(|_, len| bytes += len as u64).map_err(|_| Errno::ENOMEM)?;
            if call::soft_limit(libc::RLIMIT_MEMLOCK).is_some_and(|limit| bytes > limit) {
                return Err(Errno::ENOMEM);
            }
            if flags & FUTURE != 0 {
                mlockall(flags & !CURRENT)?;
            }
        }
        Err(e) => return Err(e),
    }
    // Ranges that cannot be locked are skipped, as in the kernel. Without /proc, the kernel locks everything but
    // populates it only at the first access.
    let _ = each_region(|base, len| {
        let how = u32::from(flags & ONFAULT != 0);
        // SAFETY: locking a range changes none of its bytes.
        let _ = unsafe { syscalls::syscall!(Sysno::mlock2, base, len, how) };
    });
    Ok(())
}

fn mlockall(flags: i32) -> Result<()> {
    // SAFETY: the call takes a number and changes no byte of memory.
    unsafe { syscalls::syscall!(Sysno::mlockall, flags) }.map(drop)
}

/// Calls `each` with the address and length of each range of the program's own memory that can be accessed.
fn each_region(mut each: impl FnMut(usize, usize)) -> Result<()> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let maps = Fd::make(|| call::open(call::own_maps(), flags, 0))?;
    let mut buffer = [0u8; 8192];
    let mut held = 0;
    loop {
        let got = call::read(maps.raw(), &mut buffer[held..])?;
        if got == 0 {
            return Ok(());
        }
        held += got;
        let mut from = 0;
        while let Some(end) = buffer[from..held].iter().position(|&byte| byte == b'\n') {
            if let Some((base, to)) = usable(&buffer[from..from + end]) {
                mapping::outside(base, to, &mut each);
            }
            from += end + 1;
        }
        if from == 0 && held == buffer.len() {
            // The kernel writes no line of this length.
            return Err(Errno::ENOMEM);
        }
        buffer.copy_within(from..held, 0);
        held -= from;
    }
}

/// Parses a line such as `7f00-7f01 rw-p ...`. Returns the range, or `None` if the memory cannot be accessed.
fn usable(line: &[u8]) -> Option<(usize, usize)> {
    let line = core::str::from_utf8(line.get(..line.len().min(60))?).ok()?;
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    (!rest.starts_with("---")).then_some((number(from)?, number(to)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mapping;

    #[test]
    fn mappings_of_ours_are_left_out() {
        let ours = Mapping::for_family(1 << 30).unwrap();
        let (base, end) = (ours.base() as usize, ours.base() as usize + ours.len());
        let mut regions = Vec::new();
        each_region(|from, len| regions.push((from, from + len))).unwrap();
        assert!(regions.len() > 3);
        assert!(regions.iter().all(|&(from, to)| to <= base || from >= end));
        let mut parts = Vec::new();
        mapping::outside(base - 4096, end + 4096, |from, len| parts.push((from, len)));
        assert_eq!(parts.first(), Some(&(base - 4096, 4096)));
        drop(ours);
        regions.clear();
        mapping::outside(base, end, |from, len| regions.push((from, len)));
        assert!(!regions.is_empty());
    }
}
