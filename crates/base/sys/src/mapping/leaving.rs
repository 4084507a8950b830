//! Ends the sharing of a process's mappings with other processes. The mappings keep their addresses.

use super::places::{Sharing, used};
use super::{Mapping, seal_for_reading};
use crate::call::{RawFd, Result, Sysno};
use core::sync::atomic::Ordering;

/// Ends the sharing of memory with processes that have a file of this memory. Replaces each mapping of such a
/// file ([`Mapping::shared`]) by zeroed private memory at the same address. Threads that still read the mapping
/// see zeros.
///
/// Returns false if a mapping could not be replaced.
pub fn leave_files() -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let mut all = true;
    for place in used() {
        if !place.hold(Sharing::File) {
            continue;
        }
        let (base, len) = (place.base.load(Ordering::Acquire), place.len.load(Ordering::Acquire));
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range is one of this crate's mappings, and no thread unmaps it before `settle`. The new
        // mapping has the same size and access, and any bytes are valid there.
        let replaced = unsafe {
            syscalls::syscall!(Sysno::mmap, base, len, access, flags, usize::MAX, 0usize)
        };
        all &= replaced.is_ok();
        place.settle(if replaced.is_ok() { Sharing::Settled } else { Sharing::File });
    }
    all
}

/// Ends the sharing of memory with forked relatives. Atomically replaces each mapping of [`Mapping::for_family`]
/// by new memory at the same address. Only children forked from now on share the new memory, which begins as
/// zeros.
///
/// All callbacks get the mapping's address first:
///
/// - `file` also gets the length, and may return a memory file of that length ([`super::unsealed_memory`]), in
///   which other processes can read the new memory. The file is then sealed as by [`super::shown_memory`].
/// - `fill` also gets the old bytes, the new bytes and their number, and writes the first contents of the new
///   memory.
/// - `settle` also gets the old bytes and their number, just after the replacement. So it sees what other threads
///   have changed in the old bytes meanwhile.
///
/// `fill` and `settle` must read the old bytes through their pointer, not at the mapping's address.
///
/// Returns false if a mapping could not be replaced.
pub fn leave_family(
    mut file: impl FnMut(usize, usize) -> Option<RawFd>,
    mut fill: impl FnMut(usize, *const u8, *mut u8, usize),
    mut settle: impl FnMut(usize, *const u8, usize),
) -> bool {
    let mut all = true;
    for place in used() {
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
    // An old size of 0 makes mremap add a second mapping of shared memory, and keep the first.
    // SAFETY: the range is one of this crate's mappings, and no thread unmaps it before `settle`.
    let alias = unsafe {
        syscalls::syscall!(Sysno::mremap, base, 0usize, len, libc::MREMAP_MAYMOVE, 0usize)
    }?;
    let alias = Mapping { base: alias as *mut u8, len };
    fill(base, alias.base, new.base, len);
    let new = core::mem::ManuallyDrop::new(new);
    let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the new mapping moves over one of this crate's mappings, and no thread unmaps that one before
    // `settle`. Both have the same size and access, and any bytes are valid there.
    unsafe { syscalls::syscall!(Sysno::mremap, new.base, len, len, how, base) }?;
    settle(base, alias.base, len);
    Ok(())
}
