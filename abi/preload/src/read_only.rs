//! Words that the dynamic linker has made read-only after it had filled them in (PT_GNU_RELRO).

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{c_int, c_void, dl_phdr_info};
use sovia_sync::RobustLock;

use crate::tables::headers;

/// While a page is made writable and read-only again.
static WRITING: RobustLock = RobustLock::new();

/// What of an object the linker makes read-only; empty if nothing.
pub(crate) fn of(info: &dl_phdr_info) -> Range<usize> {
    headers(info).iter().find(|header| header.p_type == libc::PT_GNU_RELRO).map_or(0..0, |relro| {
        let begin = info.dlpi_addr as usize + relro.p_vaddr as usize;
        begin..begin + relro.p_memsz as usize
    })
}

/// Puts `new` in a word that holds `old`; one that has changed meanwhile stays. False if its page cannot be written.
///
/// # Safety
/// The word is one of an object that stays, outside its code, and `read_only` is what [`of`] says of that object.
pub(crate) unsafe fn exchange(
    read_only: &Range<usize>,
    slot: *const AtomicUsize,
    old: usize,
    new: usize,
) -> bool {
    // SAFETY: `sysconf` takes a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    // The linker makes whole pages read-only.
    let pages = read_only.start & !(page - 1)..read_only.end & !(page - 1);
    let protect = |how: c_int| {
        let begin = (slot as usize & !(page - 1)) as *mut c_void;
        // SAFETY: one page of the object's, which the program does not write to.
        unsafe { libc::mprotect(begin, page, how) == 0 }
    };
    // SAFETY: the caller's word; where it is called the page is writable.
    let exchange = || unsafe {
        let _ = (*slot).compare_exchange(old, new, Ordering::Release, Ordering::Relaxed);
    };
    if !pages.contains(&(slot as usize)) {
        exchange();
        return true;
    }
    let _writing = WRITING.guard();
    let may_write = protect(libc::PROT_READ | libc::PROT_WRITE);
    if may_write {
        exchange();
        protect(libc::PROT_READ);
    }
    may_write
}

#[cfg(test)]
mod tests;
