//! How a process ends the sharing of its mappings with others, while they stay where they are.

use super::places::{PLACES, Sharing};
use super::{Mapping, seal_for_reading};
use crate::call::{RawFd, Result, Sysno};
use core::sync::atomic::Ordering;

/// Ends the sharing of memory with processes that have a file of it: from here on each mapping of
/// such a file ([`Mapping::shared`]) is private memory, all zero, at the same address. Threads that
/// are still looking at it see zeros.
///
/// False if a mapping could not be replaced.
pub fn leave_files() -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let mut all = true;
    for place in &PLACES {
        if !place.hold(Sharing::File) {
            continue;
        }
        let (base, len) = (place.base.load(Ordering::Acquire), place.len.load(Ordering::Acquire));
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range is one of this crate's mappings, which `hold` keeps from being unmapped;
        // what is mapped over it has the same size and access, and any bytes are valid there.
        let replaced = unsafe {
            syscalls::syscall!(Sysno::mmap, base, len, access, flags, usize::MAX, 0usize)
        };
        all &= replaced.is_ok();
        place.settle(if replaced.is_ok() { Sharing::Settled } else { Sharing::File });
    }
    all
}

/// Ends the sharing of memory with forked relatives: each mapping [`Mapping::for_family`] is replaced,
/// at the same address and at one moment, by zeroed memory that only children forked from now on
/// will share. `fill` gets the old bytes, the new ones and their number, and puts into the new ones
/// what is to be there at that moment; `settle` gets the same a moment after, when the new bytes are in
/// place, so that it sees what other threads have changed in the old ones meanwhile. Both are told first
/// where the mapping is; the old bytes are to be looked at through the pointer that they get. `file` is told where the
/// mapping is and how long, and gives a memory file of that length ([`super::unsealed_memory`]) for the new memory to lie in, where
/// others are to read it: it is sealed as [`super::shown_memory`] seals.
///
/// False if a mapping could not be replaced.
pub fn leave_family(
    mut file: impl FnMut(usize, usize) -> Option<RawFd>,
    mut fill: impl FnMut(usize, *const u8, *mut u8, usize),
    mut settle: impl FnMut(usize, *const u8, usize),
) -> bool {
    let mut all = true;
    for place in &PLACES {
        if !place.hold(Sharing::Family) {
            continue;
        }
        let (base, len) = (place.base.load(Ordering::Acquire), place.len.load(Ordering::Acquire));
        let file = file(base, len);
        let replaced = replace(base, len, file, &mut fill, &mut settle);
        all &= replaced.is_ok();
        place.settle(Sharing::Family);
    }
    all
}

fn replace(
    base: usize,
    len: usize,
    file: Option<RawFd>,
    fill: &mut impl FnMut(usize, *const u8, *mut u8, usize),
    settle: &mut impl FnMut(usize, *const u8, usize),
) -> Result<()> {
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let new = match file {
        Some(file) => {
            let new = Mapping::make(len, access, flags, file)?;
            seal_for_reading(file)?;
            new
        }
        None => Mapping::make(len, access, flags | libc::MAP_ANONYMOUS, -1)?,
    };
    // SAFETY: the range is the mapping just made.
    let _ = unsafe { syscalls::syscall!(Sysno::munlock, new.base, len) };
    // Shared memory is mapped a second time by moving none of it.
    // SAFETY: the range is one of this crate's mappings, which `hold` keeps from being unmapped.
    let alias = unsafe {
        syscalls::syscall!(Sysno::mremap, base, 0usize, len, libc::MREMAP_MAYMOVE, 0usize)
    }?;
    let alias = Mapping { base: alias as *mut u8, len };
    fill(base, alias.base, new.base, len);
    let new = core::mem::ManuallyDrop::new(new);
    let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the new mapping is moved over one of this crate's mappings, which `hold` keeps from being
    // unmapped; it has the same size and access, and all-zero bytes are valid there.
    unsafe { syscalls::syscall!(Sysno::mremap, new.base, len, len, how, base) }?;
    settle(base, alias.base, len);
    Ok(())
}
