//! `mlockall` in a process that has mapped far more than it uses.
//!
//! The kernel fills what it locks with pages. For a segment, sparse on 20 GB, that would be the end
//! of the machine's memory; and a program with a limit for locked memory would be told that it has
//! mapped too much. So mappings of ours are left out: they are not the program's.

use crate::call::{self, Errno, Result, Sysno};
use crate::fd::Fd;
use crate::mapping;

const CURRENT: i32 = libc::MCL_CURRENT;
const FUTURE: i32 = libc::MCL_FUTURE;
const ONFAULT: i32 = libc::MCL_ONFAULT;

/// `mlockall` for everything but mappings of ours.
///
/// # Errors
/// Those of `mlockall`.
pub fn lock_all(flags: i32) -> Result<()> {
    if flags & CURRENT == 0 || flags & !(CURRENT | FUTURE | ONFAULT) != 0 {
        // New mappings of ours take the lock off by themselves.
        return mlockall(flags);
    }
    // This fills nothing, so that there is time to leave ours out.
    match mlockall(flags | ONFAULT) {
        Ok(()) => {
            mapping::each(|base, len| {
                // SAFETY: a locked range is unlocked; its bytes stay what they are.
                let _ = unsafe { syscalls::syscall!(Sysno::munlock, base, len) };
            });
            if flags & ONFAULT != 0 {
                return Ok(());
            }
            if flags & FUTURE != 0 {
                // What is mapped later is filled.
                mlockall(FUTURE)?;
            }
        }
        // Is it too much without ours as well?
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
    // As with the kernel's own, what cannot be locked is passed over. Without /proc everything is
    // locked, but filled only when it is touched.
    let _ = each_region(|base, len| {
        let how = u32::from(flags & ONFAULT != 0);
        // SAFETY: locking a range changes no byte of it.
        let _ = unsafe { syscalls::syscall!(Sysno::mlock2, base, len, how) };
    });
    Ok(())
}

fn mlockall(flags: i32) -> Result<()> {
    // SAFETY: takes a number, and changes no byte of memory.
    unsafe { syscalls::syscall!(Sysno::mlockall, flags) }.map(drop)
}

/// The program's own memory, as far as it can be used at all.
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
            // No line is that long.
            return Err(Errno::ENOMEM);
        }
        buffer.copy_within(from..held, 0);
        held -= from;
    }
}

/// `7f00-7f01 rw-p ...`: the range, unless it cannot be touched.
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
